//go:build linux

package ud

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// port is the interface as the state machine uses it.
type port struct{ *iface }

var _ flow.Port = port{}

// Post implements flow.Port. A packet that is too long for inline data has to stay in a buffer as
// long as the device may read it.
func (p port) Post(e *flow.Endpoint, pkt []byte, solicited bool) bool {
	i, c := p.iface, e.User.(*conn)
	if i.dead != nil {
		return true // the packet is lost
	}
	if i.sq.room() <= 0 {
		return false
	}
	slot := int32(-1)
	if len(pkt) > i.qp.Cap().MaxInline {
		var ok bool
		if slot, ok = i.slots.takeControl(); !ok {
			return false
		}
		copy(i.slots.buffer(slot), pkt)
	}
	f := i.sq.flags(slot >= 0 || !i.retired.empty())
	flags := f
	if solicited {
		flags |= verbs.SendSolicited
	}
	r := i.qp.Begin()
	r.Send(uint64(i.sq.posted+1), flags)
	r.To(c.ah.AH, c.qpn, qkey)
	if slot >= 0 {
		r.SGE(i.slots.sge(slot, len(pkt)))
	} else {
		r.Inline(pkt)
	}
	seq, ok := i.hand(r, f)
	if slot >= 0 {
		i.retired.add(retiredItem{seq: seq, slot: slot})
	}
	return ok || i.dead != nil
}

// Repost implements flow.Port.
func (p port) Repost(e *flow.Endpoint, slot int32, hdr wire.Header) bool {
	i, c := p.iface, e.User.(*conn)
	if i.dead != nil {
		return true
	}
	if i.sq.room() <= 0 {
		return false
	}
	h := i.slots.of(slot)
	hdr.Store(i.slots.buffer(slot))
	h.again = h.again || h.np > 0 || int(h.n) > i.qp.Cap().MaxInline
	h.seq, _ = i.emit(c, slot, h, verbs.SendSignaled|verbs.SendSolicited)
	c.reposted = h.seq
	return true
}

// emit posts the message in a slot. It returns the results of hand.
func (i *iface) emit(c *conn, slot int32, h *held, flags verbs.SendFlags) (seq uint32, ok bool) {
	r := i.qp.Begin()
	r.Send(uint64(i.sq.posted+1), flags)
	r.To(c.ah.AH, c.qpn, qkey)
	if h.np == 0 && int(h.n) <= i.qp.Cap().MaxInline {
		r.Inline(i.slots.buffer(slot)[:h.n])
	} else {
		r.SGE(i.slots.sge(slot, int(h.n)))
		for k := range h.pieces[:h.np] {
			r.SGE(h.pieces[k])
		}
	}
	return i.hand(r, flags)
}

// hand posts a request to the device. It returns the number of the last request posted; ok is false
// if r was not posted.
func (i *iface) hand(r *verbs.Post, f verbs.SendFlags) (seq uint32, ok bool) {
	n, err := r.Ring()
	if n > 0 {
		seq = i.sq.post(f)
	} else {
		seq = i.sq.posted
	}
	if err != nil {
		i.die(fmt.Errorf("ud: posting on %s: %w", i.Port.Name(), err))
	}
	return seq, n > 0
}

// Busy implements flow.Port.
func (p port) Busy(e *flow.Endpoint) bool { return !p.sq.over(e.User.(*conn).reposted) }

// Done implements flow.Port.
func (p port) Done(e *flow.Endpoint, slot int32, err error) {
	i, c := p.iface, e.User.(*conn)
	h := i.slots.of(slot)
	wait := h.again || err != nil
	if kindOf(slot) == markSlot {
		wait = c.waits > 0 // for messages sent before the mark
	}
	if err != nil {
		err = statusOf(err)
	}
	if wait && (!i.sq.over(h.seq) || c.waits > 0) || i.offline && h.comp != nil {
		d := retiredItem{seq: h.seq, slot: slot, err: err}
		if h.comp != nil {
			d.conn = c
		}
		if !wait || kindOf(slot) == markSlot {
			d.seq = i.sq.done
		}
		i.retired.add(d)
		return
	}
	comp := h.comp
	i.slots.put(slot)
	if comp != nil {
		comp.Done(err)
	}
}

// Resolve implements flow.Port. On Ethernet the address has to be the source address
// of the packet. The sender cannot choose the local address of the reply.
func (p port) Resolve(devAddr []byte, qpn uint32, path uint8) (flow.Peer, bool) {
	a, err := ib.ParseAddress(devAddr)
	if err != nil || a.HasIndex || p.inbound.from.Seen && a.GID != p.inbound.from.GID {
		return flow.Peer{}, false
	}
	return peerOf(&a, qpn, path), true
}

// Accept implements flow.Port.
func (p port) Accept(e *flow.Endpoint, devAddr []byte) bool {
	a, err := ib.ParseAddress(devAddr)
	if err != nil || p.Reaches(&a) != nil {
		return false
	}
	qpn := verbs.QPN(e.PeerQPN())
	if way := p.peerPath(&a, qpn, int(e.Path())).AH; !p.mayBlockLookup() && a.Ethernet && !p.Domain.Handles().Known(way) {
		p.Domain.Handles().Resolve(way, nil)
		return false
	}
	began := p.lookups.now()
	if _, err = p.newConn(e, &a, qpn); err != nil {
		p.lookups.failed(began)
		return false
	}
	return true
}

// Connected implements flow.Port. It does nothing: waiting operations are retried in each
// round.
func (p port) Connected(*flow.Endpoint) {}

// Room implements flow.Port. Like Connected it does nothing.
func (p port) Room(*flow.Endpoint) {}

// Failed implements flow.Port.
func (p port) Failed(e *flow.Endpoint, err error) {
	if ep := e.User.(*conn).ep; ep != nil {
		if s, ok := statusOf(err).(ucs.Status); ok && s != err {
			err = statuserr.Matching(err, s) // the text of err alone, which says the same as s
		}
		ep.fail(fmt.Errorf("ud: connection to %v: %w", &ep.conn.device, err))
	}
}

// Ended implements flow.Port.
func (p port) Ended(e *flow.Endpoint) {
	c := e.User.(*conn)
	c.ended = true
	c.settle()
}

// Gone implements flow.Port.
func (p port) Gone(e *flow.Endpoint) { e.User.(*conn).gone() }

// statusOf returns the UCX status of an error of the state machine, and any other error unchanged.
func statusOf(err error) error {
	switch {
	case errors.Is(err, flow.ErrTimeout):
		return ucs.ErrEndpointTimeout
	case errors.Is(err, flow.ErrReset):
		return ucs.ErrConnectionReset
	case errors.Is(err, flow.ErrClosed):
		return ucs.ErrCanceled
	}
	return err
}
