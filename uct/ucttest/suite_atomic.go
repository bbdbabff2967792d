package ucttest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// atomicOp is one atomic operation of one size.
type atomicOp struct {
	name string
	size int // 4 or 8
	op   uct.AtomicOp
	// fetches says that the operation returns the previous value. run stores it in last.
	fetches bool
	last    uint64
	start   func(o *atomicOp, r *remoteAccess, addr, x, y uint64, c *uct.Completion) error
	r32     uint32
}

// result returns the new value of a word that holds old. Compare-and-swap compares with x and
// stores y.
func (o *atomicOp) result(old, x, y uint64) uint64 {
	mask := ^uint64(0) >> (64 - 8*o.size)
	switch o.op {
	case uct.AtomicAdd:
		old += x
	case uct.AtomicAnd:
		old &= x
	case uct.AtomicOr:
		old |= x
	case uct.AtomicXor:
		old ^= x
	case uct.AtomicSwap:
		old = x
	case uct.AtomicCSwap:
		if old == x&mask {
			old = y
		}
	}
	return old & mask
}

// run runs the operation to its end.
func (o *atomicOp) run(r *remoteAccess, addr, x, y uint64) error {
	r.t.Helper()
	err := r.finish(func(c *uct.Completion) error { return o.start(o, r, addr, x, y, c) })
	if o.size == 4 && o.fetches {
		o.last = uint64(o.r32)
	}
	return err
}

// atomicOps returns the atomic operations that an iface supports.
func atomicOps(a *uct.IfaceAttr) []*atomicOp {
	var list []*atomicOp
	names := []string{"add", "and", "or", "xor", "swap", "cswap"}
	for op, name := range names {
		op := uct.AtomicOp(op)
		add := func(mask uint32, fetches bool, size int, kind string, start func(o *atomicOp, r *remoteAccess, addr, x, y uint64, c *uct.Completion) error) {
			if mask&(1<<op) != 0 {
				list = append(list, &atomicOp{
					name: fmt.Sprintf("%s %s %d", kind, name, 8*size), size: size, op: op, fetches: fetches, start: start,
				})
			}
		}
		add(a.Atomic32.Post, false, 4, "post", func(o *atomicOp, r *remoteAccess, addr, x, _ uint64, _ *uct.Completion) error {
			return r.atomic.Atomic32Post(o.op, uint32(x), addr, r.key)
		})
		add(a.Atomic64.Post, false, 8, "post", func(o *atomicOp, r *remoteAccess, addr, x, _ uint64, _ *uct.Completion) error {
			return r.atomic.Atomic64Post(o.op, x, addr, r.key)
		})
		add(a.Atomic32.Fetch, true, 4, "fetch", func(o *atomicOp, r *remoteAccess, addr, x, y uint64, c *uct.Completion) error {
			if o.op == uct.AtomicCSwap {
				return r.atomic.AtomicCSwap32(uint32(x), uint32(y), addr, r.key, &o.r32, c)
			}
			return r.atomic.Atomic32Fetch(o.op, uint32(x), &o.r32, addr, r.key, c)
		})
		add(a.Atomic64.Fetch, true, 8, "fetch", func(o *atomicOp, r *remoteAccess, addr, x, y uint64, c *uct.Completion) error {
			if o.op == uct.AtomicCSwap {
				return r.atomic.AtomicCSwap64(x, y, addr, r.key, &o.last, c)
			}
			return r.atomic.Atomic64Fetch(o.op, x, &o.last, addr, r.key, c)
		})
	}
	return list
}

// testAtomic runs every operation on several values at several offsets. Results wrap around,
// and the words next to the operand do not change.
func testAtomic(t *testing.T, f *Fixture) {
	const size = 256
	r := newRemoteAccess(t, f, make([]byte, size), uct.AccessAll)
	values := []uint64{0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x0123456789abcdef, 1 << 63, ^uint64(0)}
	for _, o := range atomicOps(r.a.Iface.Attr()) {
		t.Run(o.name, func(t *testing.T) {
			r.t = t
			for i, old := range values {
				for j, x := range values {
					// Operands of 4 bytes also use offsets that are multiples of 4 but not of
					// 8.
					at := 64 + o.size*(i%8)
					mask := ^uint64(0) >> (64 - 8*o.size)
					y := values[(i+j)%len(values)]
					want := Fill(r.mem.Bytes, uint64(i*100+j))
					putWord(want[at:], o.size, old)
					want = append([]byte(nil), want...)
					putWord(want[at:], o.size, o.result(old&mask, x, y))
					o.last = ^old
					if err := o.run(r, r.mem.Addr+uint64(at), x, y); err != nil {
						t.Fatalf("%#x with %#x: %v", old, x, err)
					}
					SameBytes(t, fmt.Sprintf("memory after %#x with %#x at offset %d", old, x, at), r.mem.Bytes, want)
					if o.fetches && o.last != old&mask {
						t.Fatalf("%#x with %#x: fetched %#x", old&mask, x, o.last)
					}
				}
			}
		})
	}
	// Operations that are not announced are refused.
	attr := r.a.Iface.Attr()
	var x32 uint32
	var x64 uint64
	for op := uct.AtomicAdd; op < 8; op++ {
		for _, c := range []struct {
			mask uint32
			call func() error
		}{
			{attr.Atomic32.Post, func() error { return r.atomic.Atomic32Post(op, 1, r.mem.Addr, r.key) }},
			{attr.Atomic64.Post, func() error { return r.atomic.Atomic64Post(op, 1, r.mem.Addr, r.key) }},
			// Compare-and-swap has a separate call.
			{attr.Atomic32.Fetch &^ (1 << uct.AtomicCSwap), func() error {
				return r.atomic.Atomic32Fetch(op, 1, &x32, r.mem.Addr, r.key, nil)
			}},
			{attr.Atomic64.Fetch &^ (1 << uct.AtomicCSwap), func() error {
				return r.atomic.Atomic64Fetch(op, 1, &x64, r.mem.Addr, r.key, nil)
			}},
		} {
			if c.mask&(1<<op) == 0 {
				WantStatus(t, fmt.Sprintf("operation %d", op), c.call(), ucs.ErrUnsupported)
			}
		}
	}
}

// testAtomicMisaligned checks that operations on words that are not naturally aligned, or not
// registered, are refused.
func testAtomicMisaligned(t *testing.T, f *Fixture) {
	const size = 256
	w := newWindow(size)
	r := newRemoteAccess(t, f, w.middle(), uct.AccessAll)
	before := append([]byte(nil), r.mem.Bytes...)
	for _, o := range atomicOps(r.a.Iface.Attr()) {
		for off := 1; off < o.size; off++ {
			err := o.run(r, r.mem.Addr+64+uint64(off), 1, 2)
			WantStatus(t, fmt.Sprintf("%s at offset %d", o.name, off), err, ucs.ErrInvalidParam)
		}
		for _, addr := range []uint64{0, r.mem.Addr - 8, r.mem.Addr + uint64(r.mem.Open), ^uint64(7)} {
			if err := o.run(r, addr, 1, 2); err == nil {
				t.Errorf("%s at %#x, which is not registered, succeeded", o.name, addr)
			}
			if r.a.Failed(r.ep) != nil {
				r = newRemoteAccess(t, f, w.middle(), uct.AccessAll)
			}
		}
	}
	Settle(r.a, r.b)
	SameBytes(t, "memory", r.mem.Bytes, before)
	w.intact(t)
}

func putWord(b []byte, size int, v uint64) {
	if size == 4 {
		binary.LittleEndian.PutUint32(b, uint32(v))
	} else {
		binary.LittleEndian.PutUint64(b, v)
	}
}
