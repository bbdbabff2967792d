package rma

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Operations in software, one bit per uct.AtomicOp: what C UCX offers on
// transports of domain "cpu" (uct_self_iface_query, uct_mm_iface_query).
const (
	PostOps  = 1<<uct.AtomicAdd | 1<<uct.AtomicAnd | 1<<uct.AtomicOr | 1<<uct.AtomicXor
	FetchOps = PostOps | 1<<uct.AtomicSwap | 1<<uct.AtomicCSwap
)

// Apply32 does op on the 4 bytes of b, which must be naturally aligned, and
// returns the old value. Compare-and-swap is CSwap32.
func Apply32(b []byte, op uct.AtomicOp, v uint32) (old uint32, err error) {
	p := word32(b)
	switch op {
	case uct.AtomicAdd:
		return atomic.AddUint32(p, v) - v, nil
	case uct.AtomicAnd, uct.AtomicOr, uct.AtomicXor:
		for {
			old = atomic.LoadUint32(p)
			if atomic.CompareAndSwapUint32(p, old, combine(op, old, v)) {
				return old, nil
			}
		}
	case uct.AtomicSwap:
		return atomic.SwapUint32(p, v), nil
	}
	return 0, ucs.ErrUnsupported
}

// Apply64 is Apply32 for 8 bytes.
func Apply64(b []byte, op uct.AtomicOp, v uint64) (old uint64, err error) {
	p := word64(b)
	switch op {
	case uct.AtomicAdd:
		return atomic.AddUint64(p, v) - v, nil
	case uct.AtomicAnd, uct.AtomicOr, uct.AtomicXor:
		for {
			old = atomic.LoadUint64(p)
			if atomic.CompareAndSwapUint64(p, old, combine(op, old, v)) {
				return old, nil
			}
		}
	case uct.AtomicSwap:
		return atomic.SwapUint64(p, v), nil
	}
	return 0, ucs.ErrUnsupported
}

// combine is a bitwise operation. Its callers try until nothing comes between,
// instead of using the functions of package atomic: what Go 1.24.0 compiles for
// those overwrites a register on amd64.
func combine[T uint32 | uint64](op uct.AtomicOp, old, v T) T {
	switch op {
	case uct.AtomicAnd:
		return old & v
	case uct.AtomicOr:
		return old | v
	}
	return old ^ v
}

// CSwap32 stores swap in the naturally aligned 4 bytes of b if they hold
// compare, and returns the old value in either case.
func CSwap32(b []byte, compare, swap uint32) uint32 {
	p := word32(b)
	for {
		old := atomic.LoadUint32(p)
		if old != compare || atomic.CompareAndSwapUint32(p, compare, swap) {
			return old
		}
	}
}

// CSwap64 is CSwap32 for 8 bytes.
func CSwap64(b []byte, compare, swap uint64) uint64 {
	p := word64(b)
	for {
		old := atomic.LoadUint64(p)
		if old != compare || atomic.CompareAndSwapUint64(p, compare, swap) {
			return old
		}
	}
}
