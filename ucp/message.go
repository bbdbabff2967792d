package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// A message of any family is sent in one of these ways, which its length decides:
//
//	short        inline, behind a header of 8 bytes
//	bcopy        copied into the transport's buffer
//	zcopy        header and application memory in one transport call
//	multi        first fragment and middles, each bcopy or zcopy
//	rendezvous   an offer; the receiver says where the data goes (rndv_send.go)
//
// The first packets of all messages of an endpoint go over one lane and in order. The protocols
// know nothing of tags: the form of a message describes what its packets look like.

// messageForm describes what the messages of an operation look like on the wire.
type messageForm struct {
	name string // name of the operation

	only, first, middle packetForm

	// word returns the 8-byte header of a short message.
	word func(r *Request) uint64

	// offer returns what an offer says about the message besides its data.
	offer func(r *Request) (op proto.RndvOp, header uint64)

	// sends returns the counter of such messages. It is nil for tagged messages, which are
	// counted as the remainder (tagFamily.count).
	sends func(s *Stats) *uint64

	// tables returns the endpoint's decision tables for such messages.
	tables func(c *epConfig) *proto.MessageTables

	acked      bool  // the send is complete when the receiver has acknowledged the message
	offered    bool  // always by rendezvous, whatever the length
	oneLane    bool  // all packets go over the AM lane, because they need its order
	active     bool  // an active message: the application's header is part of it (am_send.go)
	needs      needs // what a send needs besides the needs of its protocol
	partsNeeds needs // what a message in fragments needs besides
}

// packetForm describes a kind of packet: its id, its header and its tail.
type packetForm struct {
	id   proto.AMID
	size int // size of the header in bytes
	put  func(r *Request, dst []byte) int

	tail // what stands behind the data
}

// fragment returns the form of the packet at the request's offset.
func (f *messageForm) fragment(r *Request) *packetForm {
	if r.offset > 0 {
		return &f.middle
	}
	return &f.first
}

// sendMessage is the operation of sending a message of any form.
type sendMessage struct{}

func (sendMessage) name() string { return "send" }

// unmappedFrom is the length, in bytes, from which messages in mapped memory are offered even to
// a peer that has asked for data which it could have copied out of such memory (epUnmapped). The
// peer may have had no file descriptors, or no right to look at this process.
const unmappedFrom = 64 << 10

// choose looks up the protocol in the decision tables. If the message is in memory that the peer
// may map, and is offered, choose keeps a reference to that memory.
func (sendMessage) choose(r *Request) (protocol, error) {
	w, ep, n := r.w, r.ep, r.data.length
	tables, class := r.form.tables(ep.cfg), r.class()
	r.msgID = 0
	size := n // bytes of the message that count for the number of packets
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

// describeSend checks the parameters of a send of any form and makes its request.
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

// shortGoes returns the request of a short send that the transport has taken, but that is still
// in flight after the call. The request is the spare one, whose completion the transport has.
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

// sendMessageNow sends a message in one step inside the call, or returns ucs.ErrNoResource.
func (ep *Endpoint) sendMessageNow(r *Request) (*Request, error) {
	err := error(ucs.ErrNoResource)
	size := r.data.length
	if r.form.active {
		size += len(r.am.header)
	}
	p := proto.ProtoRndvAM // any protocol that cannot be used now, until there are lanes
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
		// A packet that a transport has begun to write leaves without further calls.
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
