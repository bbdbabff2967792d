//go:build linux

package rc

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

// A message consists of a byte with the ID and the flow control bits, and of the data. All messages
// are solicited, so they raise an event at a receiver that waits for one.

// admitAM checks whether a message may be posted, and returns its first byte.
func (e *endpoint) admitAM(id uct.AMID) (byte, error) {
	if err := e.admit(); err != nil {
		return 0, err
	}
	b, ok := e.fc.bits(&e.iface.limits)
	if !ok {
		e.stuck = true
		return 0, ucs.ErrNoResource
	}
	return byte(id) | b, nil
}

// ringAM is ring for a message, which also takes one message of the flow control window.
func (e *endpoint) ringAM(p *verbs.Post, f verbs.SendFlags) error {
	err := e.ring(p, f)
	if err == nil {
		e.fc.sent()
		e.receives = e.posted
	}
	return err
}

// AMShort implements uct.Endpoint.
func (e *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, _ uct.SendFlags, _ *uct.Completion) error {
	i := e.iface
	if id >= uct.MaxAMIDs || 8+len(payload) > i.attr.AM.MaxShort {
		return ib.RefuseAM("rc", id, 8+len(payload), i.attr.AM.MaxShort)
	}
	b, err := e.admitAM(id)
	if err != nil {
		return err
	}
	i.head[0] = b
	binary.LittleEndian.PutUint64(i.head[1:], header)
	f := e.flags(false)
	p := e.qp.Begin()
	p.Send(e.id(), f|solicit)
	p.Inline(i.head[:])
	p.Inline(payload)
	return e.ringAM(p, f)
}

// AMShortIOV implements uct.Endpoint.
func (e *endpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, _ uct.SendFlags, _ *uct.Completion) error {
	i := e.iface
	if n := uct.IOVLen(iov); id >= uct.MaxAMIDs || n > i.attr.AM.MaxShort {
		return ib.RefuseAM("rc", id, n, i.attr.AM.MaxShort)
	}
	b, err := e.admitAM(id)
	if err != nil {
		return err
	}
	i.head[0] = b
	f := e.flags(false)
	p := e.qp.Begin()
	p.Send(e.id(), f|solicit)
	p.Inline(i.head[:1])
	for k := range iov {
		p.Inline(iov[k].Data)
	}
	return e.ringAM(p, f)
}

// AMBcopy implements uct.Endpoint.
func (e *endpoint) AMBcopy(id uct.AMID, packer uct.Packer, _ uct.SendFlags, _ *uct.Completion) (int, error) {
	i := e.iface
	if id >= uct.MaxAMIDs {
		return 0, kit.ErrAMID(id)
	}
	b, err := e.admitAM(id)
	if err != nil {
		return 0, err
	}
	slot, ok := e.take(&i.bufs)
	if !ok {
		return 0, ucs.ErrNoResource
	}
	buf := i.bufs.Data(slot)
	buf[0] = b
	n := packer.Pack(buf[1:])
	f := e.flags(2*i.bufs.Free() <= i.bufs.Len())
	p := e.qp.Begin()
	p.Send(e.id(), f|solicit)
	p.SGE(i.bufs.SGE(slot, 1+n))
	if err := e.ringAM(p, f); err != nil {
		i.bufs.Put(slot)
		return 0, err
	}
	e.hold(bufPool, slot, nil)
	return n, nil
}

// AMZcopy implements uct.Endpoint.
func (e *endpoint) AMZcopy(id uct.AMID, hdr uct.Packer, iov []uct.IOV, _ uct.SendFlags, c *uct.Completion) error {
	i := e.iface
	a := &i.attr.AM
	n := uct.IOVLen(iov)
	switch {
	case !i.attr.Flags.Has(uct.IfaceAMZcopy):
		return ucs.ErrUnsupported
	case id >= uct.MaxAMIDs || n > a.MaxZcopy:
		return ib.RefuseAM("rc", id, n, a.MaxZcopy)
	case len(iov) > a.MaxIOV:
		return ib.RefuseIOV("rc", len(iov), a.MaxIOV)
	}
	pieces, err := i.Domain.Gather(i.pieces[:1], iov)
	if err != nil {
		return err
	}
	b, err := e.admitAM(id)
	if err != nil {
		return err
	}
	slot, ok := e.take(&i.hdrs)
	if !ok {
		return ucs.ErrNoResource
	}
	buf := i.hdrs.Data(slot)
	buf[0] = b
	h := 0
	if hdr != nil {
		if h = hdr.Pack(buf[1 : 1+a.MaxZcopyHdr]); h+n > a.MaxZcopy {
			i.hdrs.Put(slot)
			return ib.RefuseAM("rc", id, h+n, a.MaxZcopy)
		}
	}
	pieces[0] = i.hdrs.SGE(slot, 1+h)
	f := e.flags(c != nil || 2*i.hdrs.Free() <= i.hdrs.Len())
	p := e.qp.Begin()
	p.Send(e.id(), f|solicit)
	for k := range pieces {
		p.SGE(pieces[k])
	}
	if err := e.ringAM(p, f); err != nil {
		i.hdrs.Put(slot)
		return err
	}
	e.hold(hdrPool, slot, c)
	return ucs.InProgress
}
