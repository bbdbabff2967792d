package word

import "sync/atomic"

// Load32 returns the naturally aligned 4 bytes of b.
func Load32(b []byte) uint32 { return atomic.LoadUint32(word32(b)) }

// Load64 is Load32 for 8 bytes.
func Load64(b []byte) uint64 { return atomic.LoadUint64(word64(b)) }

// Add32 adds v to the naturally aligned 4 bytes of b and returns the old value.
func Add32(b []byte, v uint32) uint32 { return atomic.AddUint32(word32(b), v) - v }

// Add64 is Add32 for 8 bytes.
func Add64(b []byte, v uint64) uint64 { return atomic.AddUint64(word64(b), v) - v }

// Swap32 stores v in the naturally aligned 4 bytes of b and returns the old value.
func Swap32(b []byte, v uint32) uint32 { return atomic.SwapUint32(word32(b), v) }

// Swap64 is Swap32 for 8 bytes.
func Swap64(b []byte, v uint64) uint64 { return atomic.SwapUint64(word64(b), v) }

// The bitwise operations are loops of compare-and-swap instead of the functions of package atomic,
// because Go 1.24.0 compiles those to code that overwrites a register on amd64.

// And32 stores old & v in the naturally aligned 4 bytes of b and returns the old value.
func And32(b []byte, v uint32) uint32 {
	p := word32(b)
	for {
		old := atomic.LoadUint32(p)
		if atomic.CompareAndSwapUint32(p, old, old&v) {
			return old
		}
	}
}

// And64 is And32 for 8 bytes.
func And64(b []byte, v uint64) uint64 {
	p := word64(b)
	for {
		old := atomic.LoadUint64(p)
		if atomic.CompareAndSwapUint64(p, old, old&v) {
			return old
		}
	}
}

// Or32 stores old | v in the naturally aligned 4 bytes of b and returns the old value.
func Or32(b []byte, v uint32) uint32 {
	p := word32(b)
	for {
		old := atomic.LoadUint32(p)
		if atomic.CompareAndSwapUint32(p, old, old|v) {
			return old
		}
	}
}

// Or64 is Or32 for 8 bytes.
func Or64(b []byte, v uint64) uint64 {
	p := word64(b)
	for {
		old := atomic.LoadUint64(p)
		if atomic.CompareAndSwapUint64(p, old, old|v) {
			return old
		}
	}
}

// Xor32 stores old ^ v in the naturally aligned 4 bytes of b and returns the old value.
func Xor32(b []byte, v uint32) uint32 {
	p := word32(b)
	for {
		old := atomic.LoadUint32(p)
		if atomic.CompareAndSwapUint32(p, old, old^v) {
			return old
		}
	}
}

// Xor64 is Xor32 for 8 bytes.
func Xor64(b []byte, v uint64) uint64 {
	p := word64(b)
	for {
		old := atomic.LoadUint64(p)
		if atomic.CompareAndSwapUint64(p, old, old^v) {
			return old
		}
	}
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
