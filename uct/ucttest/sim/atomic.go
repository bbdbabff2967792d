package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// atomic accepts an atomic operation on a word of size bytes.
func (e *endpoint) atomic(kind fault.Kind, ops uint32, op uct.AtomicOp, size int, x, y, raddr uint64, key *uct.Rkey, r32 *uint32, r64 *uint64, c *uct.Completion) error {
	if e.home.attr.Flags&(uct.IfaceAtomicCPU|uct.IfaceAtomicDevice) == 0 || ops&(1<<op) == 0 {
		return ucs.ErrUnsupported
	}
	if raddr%uint64(size) != 0 {
		return fmt.Errorf("sim: atomic on %d bytes at %#x, not a multiple of the size: %w", size, raddr, ucs.ErrInvalidParam)
	}
	o, late, err := e.begin(kind, accessAtomic, size, raddr, key, c)
	if err != nil {
		return err
	}
	a := &o.access
	a.atomic, a.x, a.y, a.r32, a.r64 = op, x, y, r32, r64
	e.push(o, late)
	if kind == fault.AtomicPost {
		return nil
	}
	return ucs.InProgress
}

// fetchOps returns the fetching operations without compare-and-swap, which has a separate call.
func fetchOps(ops uct.AtomicOps) uint32 { return ops.Fetch &^ (1 << uct.AtomicCSwap) }

// Atomic32Post implements uct.Atomic.
func (e *endpoint) Atomic32Post(op uct.AtomicOp, value uint32, raddr uint64, key *uct.Rkey) error {
	return e.atomic(fault.AtomicPost, e.home.attr.Atomic32.Post, op, 4, uint64(value), 0, raddr, key, nil, nil, nil)
}

// Atomic64Post implements uct.Atomic.
func (e *endpoint) Atomic64Post(op uct.AtomicOp, value uint64, raddr uint64, key *uct.Rkey) error {
	return e.atomic(fault.AtomicPost, e.home.attr.Atomic64.Post, op, 8, value, 0, raddr, key, nil, nil, nil)
}

// Atomic32Fetch implements uct.Atomic.
func (e *endpoint) Atomic32Fetch(op uct.AtomicOp, value uint32, result *uint32, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	return e.atomic(fault.AtomicFetch, fetchOps(e.home.attr.Atomic32), op, 4, uint64(value), 0, raddr, key, result, nil, c)
}

// Atomic64Fetch implements uct.Atomic.
func (e *endpoint) Atomic64Fetch(op uct.AtomicOp, value uint64, result *uint64, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	return e.atomic(fault.AtomicFetch, fetchOps(e.home.attr.Atomic64), op, 8, value, 0, raddr, key, nil, result, c)
}

// AtomicCSwap32 implements uct.Atomic.
func (e *endpoint) AtomicCSwap32(compare, swap uint32, raddr uint64, key *uct.Rkey, result *uint32, c *uct.Completion) error {
	return e.atomic(fault.AtomicFetch, e.home.attr.Atomic32.Fetch, uct.AtomicCSwap, 4, uint64(compare), uint64(swap), raddr, key, result, nil, c)
}

// AtomicCSwap64 implements uct.Atomic.
func (e *endpoint) AtomicCSwap64(compare, swap uint64, raddr uint64, key *uct.Rkey, result *uint64, c *uct.Completion) error {
	return e.atomic(fault.AtomicFetch, e.home.attr.Atomic64.Fetch, uct.AtomicCSwap, 8, compare, swap, raddr, key, nil, result, c)
}
