package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// A message, whatever it is for, takes one of these ways, by length:
//
//	short        inline, behind a header of 8 bytes
//	bcopy        copied into the transport's buffer
//	zcopy        header and user memory in one transport call
//	multi        first fragment and middles, each bcopy or zcopy
//	rendezvous   an offer; the receiver says where the data goes (rndv_send.go)
//
// All first packets of an endpoint go over one lane and in order. The protocols
// know no tags: what the packets of a kind of message look like is its form.

// messageForm is what the messages of an operation look like on the wire.
type messageForm struct {
	name string // of the operation

	only, first, middle packetForm

	// word is the header of a short message, which has one of 8 bytes.
	word func(r *Request) uint64

	// offer is what an offer says about the message besides its data.
	offer func(r *Request) (op proto.RndvOp, header uint64)

	// sends is the counter of such messages, nil for tagged ones: those are the others.
	sends func(s *Stats) *uint64

	// tables are the endpoint's decision tables for such messages.
	tables func(c *epConfig) *proto.MessageTables

	acked      bool  // over when the receiver has acknowledged it
	offered    bool  // offered first, whatever its length
	oneLane    bool  // all packets go over the lane of messages, whose order they need
	active     bool  // an active message: the user's header is part of it (am_send.go)
	needs      needs // besides those of the protocol
	partsNeeds needs // besides these, of a message in fragments
}

// packetForm is a kind of packet: its id, and who writes the header.
type packetForm struct {
	id   proto.AMID
	size int // of the header, in bytes
	put  func(r *Request, dst []byte) int

	tail // what comes behind the data
}

// fragment is the form of the packet at the request's offset.
func (f *messageForm) fragment(r *Request) *packetForm {
	if r.offset > 0 {
		return &f.middle
	}
	return &f.first
}

// sendMessage is the operation of sending a message of any form.
type sendMessage struct{}

func (sendMessage) name() string { return "send" }

// unmappedFrom is from where on messages are offered to peers that could map them, and
// do not: they may have had no descriptors, or no right to look at this process.
const unmappedFrom = 64 << 10

// choose looks the protocol up. A message in memory that the peer may map, and
// that is offered, keeps that in place.
func (sendMessage) choose(r *Request) (protocol, error) {
	w, ep, n := r.w, r.ep, r.data.length
	tables, class := r.form.tables(ep.cfg), r.class()
	r.msgID = 0
	size := n // as far as it depends on the message how many packets it takes
	if r.form.active {
		if err := r.w.am.fitsHeader(r); err != nil {
			return nil, err
		}
		size, class = n+len(r.am.header), r.w.am.tailClass(r, class)
	}
	if class == proto.DataContig && n >= ep.cfg.mapFrom && (n >= unmappedFrom || ep.state&epUnmapped == 0) {
		if r.region = w.ctx.table.FindMapped(memoryAddress(r.data.buf), n, ep.cfg.mapMDs); r.region != nil {
			class = proto.DataMapped
		}
	}
	p := tables.Table(class, r.mode).Lookup(size)
	if r.form.active {
		p = r.w.am.withTail(r, p, tables, size)
	}
	if r.region != nil && (!p.Rendezvous() || r.form.active && !r.w.am.fitsKey(r)) {
		r.region.Release()
		r.region = nil
	}
	if p.EagerZcopy() && !r.w.eager.eagerHandles(r, p) {
		class = proto.DataGeneric
		p = tables.Table(class, r.mode).Lookup(size)
	}
	r.w.selection.countMessage(r, tables, class, size)
	switch {
	case p == proto.ProtoNone:
		return nil, ucs.ErrUnsupported
	case p.EagerMulti():
		r.step = 0
		w.eager.nextID++
		r.msgID = w.eager.nextID
	}
	if p.Rendezvous() {
		r.w.rndv.newOffer(r)
	}
	if r.form.acked || p.Rendezvous() {
		if r.localID = w.pool.requestIDs.Put(r); r.localID == 0 {
			return nil, ucs.ErrNoMemory
		}
	}
	return protocolOf[p], nil
}

// sendMessage starts to send a message, or sends it in the call.
func (ep *Endpoint) sendMessage(r *Request, form *messageForm, flags OpFlags) (*Request, error) {
	r.bind(ep)
	r.op, r.form = sendMessage{}, form
	r.offset = 0
	if flags&OpForceImmediate != 0 {
		return ep.sendMessageNow(r)
	}
	ep.submit(r)
	return r.result()
}

// describeSend makes the request of a send of any form.
func (ep *Endpoint) describeSend(rule *callRule, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if err := ep.usable(); err != nil {
		return nil, err
	}
	if err := rule.check(buf, p); err != nil {
		return nil, err
	}
	r, err := w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &noParams
	}
	err = r.data.initSend(buf, &p.Buffer)
	if err == nil {
		err = p.checkMemory(w.ctx, &r.data)
	}
	if err != nil {
		w.pool.dropRequest(r)
		return nil, err
	}
	r.w.rights.give(r, p.Memory)
	return r, nil
}

// shortGoes makes a request of a short send that the transport has taken, and that
// goes on after the call with the completion of the spare request.
func (ep *Endpoint) shortGoes(form *messageForm, p *RequestParams) *Request {
	w := ep.w
	r := w.pool.spare
	w.pool.spare = w.pool.getRequest()
	r.toward(ep)
	r.form, r.proto = form, eagerShort{}
	r.countSent(&w.stats.EagerShort)
	if p != nil {
		r.state |= stateParams
		r.onSend, r.userData = p.OnSend, p.UserData
	}
	return r
}

// sendMessageNow sends in one step or not at all.
func (ep *Endpoint) sendMessageNow(r *Request) (*Request, error) {
	err := error(ucs.ErrNoResource)
	size := r.data.length
	if r.form.active {
		size += len(r.am.header)
	}
	p := proto.ProtoRndvAM // whatever, before there are lanes
	if ep.needs&needLanes == 0 {
		p = r.form.tables(ep.cfg).Table(r.class(), r.mode).Lookup(size)
	}
	switch {
	case p == proto.ProtoNone:
		err = ucs.ErrUnsupported
	case ep.waiting.head == nil && ep.needs&(needLanes|r.form.needs) == 0 && !r.form.acked && !r.form.offered &&
		(p == proto.ProtoEagerShort || p == proto.ProtoEagerBcopy):
		r.proto = eagerBcopy{}
		_, err = ep.ue.AMBcopy(uct.AMID(r.form.only.id), r.hooks(), uct.SendNow, nil)
	}
	if err == nil || err == ucs.InProgress {
		// What a transport has begun to write leaves without further ado.
		err = nil
		r.countSent(&ep.w.stats.EagerBcopy)
		r.w.selection.countMessage(r, r.form.tables(ep.cfg), r.class(), size)
		if r.frag < r.data.length {
			err = r.packedNothing(r.frag)
		}
	}
	ep.w.pool.dropRequest(r)
	return nil, err
}
