//go:build linux

package rc

import (
	"fmt"
	"math"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/memory"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// target returns the address and key of a put. The first put behind a fence uses the second key, if
// there is one, because accesses by that key are ordered with accesses by other keys
// (uct_rc_verbs_ep_fence_put).
func (e *endpoint) target(raddr uint64, key *uct.Rkey) (uint64, verbs.RKey) {
	if e.fencedPut {
		e.fencedPut = false
		return e.strict(raddr, key)
	}
	return raddr, memory.DirectKey(key)
}

// strict returns an address and key for an access by the second key, if there is one.
func (e *endpoint) strict(raddr uint64, key *uct.Rkey) (uint64, verbs.RKey) {
	if k, ok := memory.AtomicKey(key); ok {
		return raddr + e.peer.offset, k
	}
	return raddr, memory.DirectKey(key)
}

// PutShort implements uct.RMA.
func (e *endpoint) PutShort(buf []byte, raddr uint64, key *uct.Rkey) error {
	if most := e.iface.attr.Put.MaxShort; len(buf) > most {
		return refuseLen("short put", len(buf), most)
	}
	if err := e.admit(); err != nil {
		return err
	}
	at, k := e.target(raddr, key)
	f := e.flags(true)
	p := e.qp.Begin()
	p.Write(e.id(), f, at, k)
	p.Inline(buf)
	return e.ring(p, f)
}

// PutBcopy implements uct.RMA.
func (e *endpoint) PutBcopy(packer uct.Packer, length int, raddr uint64, key *uct.Rkey) (int, error) {
	i := e.iface
	if most := i.attr.Put.MaxBcopy; length > most || length < 0 {
		return 0, refuseLen("copied put", length, most)
	}
	if err := e.admit(); err != nil {
		return 0, err
	}
	slot, ok := e.take(&i.bufs)
	if !ok {
		return 0, ucs.ErrNoResource
	}
	n := packer.Pack(i.bufs.Data(slot)[:length])
	at, k := e.target(raddr, key)
	f := e.flags(true)
	p := e.qp.Begin()
	p.Write(e.id(), f, at, k)
	if n > 0 {
		p.SGE(i.bufs.SGE(slot, n))
	}
	if err := e.ring(p, f); err != nil {
		i.bufs.Put(slot)
		return 0, err
	}
	e.hold(bufPool, slot, nil)
	return n, nil
}

// PutZcopy implements uct.RMA.
func (e *endpoint) PutZcopy(iov []uct.IOV, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	i := e.iface
	pieces, err := i.gather("put", iov, &i.attr.Put)
	if err != nil {
		return err
	}
	if err := e.admit(); err != nil {
		return err
	}
	e.recordLong(uct.IOVLen(iov))
	at, k := e.target(raddr, key)
	f := e.flags(true)
	p := e.qp.Begin()
	p.Write(e.id(), f, at, k)
	return e.ringPieces(p, f, pieces, c)
}

// GetBcopy implements uct.RMA.
func (e *endpoint) GetBcopy(u uct.Unpacker, length int, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	i := e.iface
	if most := i.attr.Get.MaxBcopy; length > most || length < 0 {
		return refuseLen("copied get", length, most)
	}
	if err := e.admitRead(); err != nil {
		return err
	}
	if length == 0 {
		u.Unpack(nil)
		return nil
	}
	slot, ok := e.take(&i.bufs)
	if !ok {
		return ucs.ErrNoResource
	}
	f := e.flags(true)
	p := e.qp.Begin()
	p.Read(e.id(), f, raddr, memory.DirectKey(key))
	p.SGE(i.bufs.SGE(slot, length))
	if err := e.ring(p, f); err != nil {
		i.bufs.Put(slot)
		return err
	}
	e.fetches = e.posted
	o := e.hold(bufPool, slot, c)
	o.unpack, o.n = u, length
	e.reads(o, length)
	return ucs.InProgress
}

// GetZcopy implements uct.RMA. It also accepts fewer bytes than Get.MinZcopy.
func (e *endpoint) GetZcopy(iov []uct.IOV, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	i := e.iface
	pieces, err := i.gather("get", iov, &i.attr.Get)
	if err != nil {
		return err
	}
	if err := e.admitRead(); err != nil {
		return err
	}
	n := uct.IOVLen(iov)
	e.recordLong(n)
	f := e.flags(true)
	p := e.qp.Begin()
	p.Read(e.id(), f, raddr, memory.DirectKey(key))
	for k := range pieces {
		p.SGE(pieces[k])
	}
	if err := e.ring(p, f); err != nil {
		return err
	}
	e.fetches = e.posted
	if c != nil || i.maxReading < math.MaxInt {
		e.reads(e.hold(noPool, 0, c), n)
	}
	return ucs.InProgress
}

// admitRead is admit for a read. No read begins while as many bytes are in flight for reads as
// UCX_RC_VERBS_TX_NUM_GET_BYTES allows.
func (e *endpoint) admitRead() error {
	if e.iface.reading >= e.iface.maxReading {
		if e.failed != nil {
			return e.failed
		}
		return ucs.ErrNoResource
	}
	return e.admit()
}

// reads counts n bytes as in flight for reads until the request of the record completes.
func (e *endpoint) reads(o *op, n int) {
	o.reads = n
	e.iface.reading += n
}

// gather returns the pieces of memory that a list names, after checking the list against the
// limits.
func (i *iface) gather(what string, iov []uct.IOV, most *uct.RMALimits) ([]verbs.SGE, error) {
	if len(iov) > most.MaxIOV {
		return nil, ib.RefuseIOV("rc", len(iov), most.MaxIOV)
	}
	if n := uct.IOVLen(iov); n > most.MaxZcopy {
		return nil, refuseLen(what, n, most.MaxZcopy)
	}
	return i.Domain.Gather(i.pieces[:0], iov)
}

// ringPieces is ring for a request that uses the caller's memory.
func (e *endpoint) ringPieces(p *verbs.Post, f verbs.SendFlags, pieces []verbs.SGE, c *uct.Completion) error {
	for k := range pieces {
		p.SGE(pieces[k])
	}
	if err := e.ring(p, f); err != nil {
		return err
	}
	if c != nil {
		e.hold(noPool, 0, c)
	}
	return ucs.InProgress
}

//go:noinline
func refuseLen(what string, n, most int) error {
	return fmt.Errorf("rc: %s of %d bytes, at most %d: %w", what, n, most, ucs.ErrInvalidParam)
}
