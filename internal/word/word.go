package word

import "sync/atomic"

// Op is an operation on a word. The numbers are those of uct_atomic_op_t.
type Op uint8

// Operations. Compare-and-swap has functions of its own.
const (
	Add Op = iota
	And
	Or
	Xor
	Swap
)

// Do32 does op on the 4 bytes of b, which must be naturally aligned, and
// returns the old value. ok is false for an unknown operation.
func Do32(b []byte, op Op, v uint32) (old uint32, ok bool) {
	p := word32(b)
	switch op {
	case Add:
		return atomic.AddUint32(p, v) - v, true
	case And, Or, Xor:
		for {
			old = atomic.LoadUint32(p)
			if atomic.CompareAndSwapUint32(p, old, combine(op, old, v)) {
				return old, true
			}
		}
	case Swap:
		return atomic.SwapUint32(p, v), true
	}
	return 0, false
}

// Do64 is Do32 for 8 bytes.
func Do64(b []byte, op Op, v uint64) (old uint64, ok bool) {
	p := word64(b)
	switch op {
	case Add:
		return atomic.AddUint64(p, v) - v, true
	case And, Or, Xor:
		for {
			old = atomic.LoadUint64(p)
			if atomic.CompareAndSwapUint64(p, old, combine(op, old, v)) {
				return old, true
			}
		}
	case Swap:
		return atomic.SwapUint64(p, v), true
	}
	return 0, false
}

// combine is a bitwise operation. Its callers try until nothing comes between,
// instead of using the functions of package atomic: what Go 1.24.0 compiles for
// those overwrites a register on amd64.
func combine[T uint32 | uint64](op Op, old, v T) T {
	switch op {
	case And:
		return old & v
	case Or:
		return old | v
	}
	return old ^ v
}

// CompareSwap32 stores swap in the naturally aligned 4 bytes of b if they hold
// compare, and returns the old value in either case.
func CompareSwap32(b []byte, compare, swap uint32) uint32 {
	p := word32(b)
	for {
		old := atomic.LoadUint32(p)
		if old != compare || atomic.CompareAndSwapUint32(p, compare, swap) {
			return old
		}
	}
}

// CompareSwap64 is CompareSwap32 for 8 bytes.
func CompareSwap64(b []byte, compare, swap uint64) uint64 {
	p := word64(b)
	for {
		old := atomic.LoadUint64(p)
		if old != compare || atomic.CompareAndSwapUint64(p, compare, swap) {
			return old
		}
	}
}
