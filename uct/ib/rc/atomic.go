//go:build linux

package rc

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Devices support add, and compare and swap, on words of 8 bytes. UCP needs all of its atomics on
// one lane, because atomics of devices are not atomic with those of CPUs. So UCP uses none of
// these, as in C.

// atomics are the operations that are announced if the device has them.
var atomics = uct.AtomicOps{Post: 1 << uct.AtomicAdd, Fetch: 1<<uct.AtomicAdd | 1<<uct.AtomicCSwap}

// wordSize is the size in bytes of the words that devices do atomics on.
const wordSize = 8

// admitAtomic checks whether an operation may be posted, and takes the buffer for the previous
// value.
func (e *endpoint) admitAtomic(ok bool, raddr uint64) (slot int32, err error) {
	i := e.iface
	switch {
	case !ok || i.attr.Flags&uct.IfaceAtomicDevice == 0:
		return 0, ucs.ErrUnsupported
	case raddr%wordSize != 0:
		return 0, errAligned(raddr)
	}
	if err := e.admit(); err != nil {
		return 0, err
	}
	if slot, ok = e.take(&i.hdrs); !ok {
		return 0, ucs.ErrNoResource
	}
	return slot, nil
}

// ringAtomic is ring for an atomic operation, which stores the previous value in the buffer.
func (e *endpoint) ringAtomic(p *verbs.Post, f verbs.SendFlags, slot int32, result *uint64, c *uct.Completion) error {
	i := e.iface
	p.SGE(i.hdrs.SGE(slot, wordSize))
	if err := e.ring(p, f); err != nil {
		i.hdrs.Put(slot)
		return err
	}
	e.fetches = e.posted
	e.hold(hdrPool, slot, c).word = result
	return ucs.InProgress
}

// Atomic64Post implements uct.Atomic.
func (e *endpoint) Atomic64Post(op uct.AtomicOp, value uint64, raddr uint64, key *uct.Rkey) error {
	if err := e.add(op, value, nil, raddr, key, nil); err != ucs.InProgress {
		return err
	}
	return nil
}

// Atomic64Fetch implements uct.Atomic.
func (e *endpoint) Atomic64Fetch(op uct.AtomicOp, value uint64, result *uint64, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	return e.add(op, value, result, raddr, key, c)
}

func (e *endpoint) add(op uct.AtomicOp, value uint64, result *uint64, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	slot, err := e.admitAtomic(op == uct.AtomicAdd, raddr)
	if err != nil {
		return err
	}
	at, k := e.strict(raddr, key)
	f := e.flags(true)
	p := e.qp.Begin()
	p.FetchAdd(e.id(), f, at, k, value)
	return e.ringAtomic(p, f, slot, result, c)
}

// AtomicCSwap64 implements uct.Atomic.
func (e *endpoint) AtomicCSwap64(compare, swap uint64, raddr uint64, key *uct.Rkey, result *uint64, c *uct.Completion) error {
	slot, err := e.admitAtomic(true, raddr)
	if err != nil {
		return err
	}
	at, k := e.strict(raddr, key)
	f := e.flags(true)
	p := e.qp.Begin()
	p.CompareSwap(e.id(), f, at, k, compare, swap)
	return e.ringAtomic(p, f, slot, result, c)
}

//go:noinline
func errAligned(raddr uint64) error {
	return fmt.Errorf("rc: atomic operation at %#x, which is not a multiple of %d: %w", raddr, wordSize, ucs.ErrInvalidParam)
}
