package ucp

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// An operation is described before its protocol is chosen. A public call fills a request with its
// arguments: the kind of operation, the buffer, the target, the parameters. Then
//
//	submit ──► choose: a protocol from the endpoint's tables
//	  │           └──► run: as far as it goes now
//	  └──► the endpoint's waiting list, as long as something is missing, and
//	       behind everything that waits there already
//
// What may be missing is a set of needs. When a need is resolved, drain starts the waiting requests
// in order, up to the first that still lacks something. Short sends and puts do not come here: if
// nothing waits and nothing is missing they are one call of the transport.

// operation is a kind of operation that the application starts.
type operation interface {
	name() string

	// choose returns the protocol for a described request, and acquires what the protocol
	// needs from its start, such as a request id. An error ends the request.
	choose(r *Request) (protocol, error)
}

// needs is a set of conditions that an operation needs before it can start. An endpoint holds the
// set of conditions that are not met, a protocol the set that it requires.
type needs uint8

const (
	needLanes  needs = 1 << iota // lanes; without them no protocol can be chosen
	needID                       // the id of the peer's endpoint
	needFence                    // the end of the fence that holds back one-sided operations
	needStream                   // the end of a stream send in several packets
)

// submit starts a request now, or queues it until all its needs are met. Either the operation of
// the request is set, or, for requests of the library itself, the protocol.
func (ep *Endpoint) submit(r *Request) {
	if ep.waiting.Empty() && ep.begin(r) {
		return
	}
	ep.waiting.Push(&r.node)
	ep.shortBelow, ep.shortAMBelow = 0, 0
	for _, f := range ep.w.families {
		if err := f.provide(ep); err != nil {
			r.abort(err)
			ep.allowShort()
			return
		}
	}
}

// reply starts a reply to the peer. It does not wait behind this worker's own operations: those may
// be waiting for the peer, while the peer's operations wait for the reply.
func (ep *Endpoint) reply(r *Request) {
	if ep.needs&r.needs() == 0 {
		r.run()
		return
	}
	ep.submit(r)
}

// begin runs a request if all its needs are met. Otherwise it returns false.
func (ep *Endpoint) begin(r *Request) bool {
	if r.proto == nil {
		if ep.needs&needLanes != 0 {
			return false
		}
		r.lane = ep.amLane()
		p, err := r.op.choose(r)
		if err != nil {
			if r.state&(stateInCall|statePromised) == stateInCall {
				r.state &^= stateNoImm // the call returns the error: nothing was started
			}
			r.unsplit() // there is no protocol whose release would do it
			r.finish(err)
			return true
		}
		r.proto = p
	}
	if ep.needs != 0 && ep.needs&r.needs() != 0 {
		return false
	}
	r.run()
	return true
}

// needs returns what a request with a protocol needs before it can start.
func (r *Request) needs() needs {
	n := r.proto.about().needs | needLanes
	if r.form != nil {
		n |= r.form.needs
		if r.msgID != 0 {
			n |= r.form.partsNeeds
		}
	}
	return n
}

// resolveNeed records that the needs n are met, and starts the requests that waited for them.
func (ep *Endpoint) resolveNeed(n needs) {
	ep.needs &^= n
	ep.drain()
}

// drain starts the waiting requests in order, until one has a need that is not met.
func (ep *Endpoint) drain() {
	if ep.state&epDraining != 0 {
		return
	}
	ep.state |= epDraining
	for ep.err == nil && ep.life.Stage != life.Gone && !ep.waiting.Empty() {
		r := ep.waiting.Pop()
		if !ep.begin(r) {
			ep.waiting.PushFront(&r.node)
			break
		}
	}
	ep.state &^= epDraining
	ep.allowShort()
}

// allowShort allows short sends, in one transport call, if the endpoint is ready for them, and otherwise
// forbids them.
func (ep *Endpoint) allowShort() {
	ep.shortBelow, ep.shortAMBelow = 0, 0
	if ep.life.Usable() && ep.state&epDraining == 0 && ep.waiting.Empty() &&
		ep.needs&needLanes == 0 {
		ep.shortBelow, ep.shortAMBelow = int32(ep.cfg.short)+1, int32(ep.cfg.shortAM)+1
	}
}

// packing is the packet of a message that is sent by copying, in one call of the transport.
type packing struct {
	word uint64 // header
	buf  []byte
}

// Pack implements uct.Packer.
func (k *packing) Pack(dst []byte) int {
	binary.LittleEndian.PutUint64(dst, k.word)
	return 8 + cpu.Copy(dst[8:], k.buf)
}

// sendCopied sends a message in one packet by copying, without a request if the transport needs none. It
// returns ucs.ErrNoResource if the message is to be sent in the usual way.
func (w *Worker) sendCopied(ep *Endpoint, form *messageForm, word uint64, buf []byte) (*Request, error) {
	w.packing = packing{word, buf}
	_, err := ep.ue.AMBcopy(uct.AMID(form.only.id), &w.packing, 0, w.pool.spareComp)
	w.packing.buf = nil
	switch err {
	case nil:
		w.stats.EagerBcopy++
		return nil, nil
	case ucs.InProgress:
		return ep.inFlightAfter(form, eagerBcopy{}, nil), nil
	}
	return nil, ucs.ErrNoResource
}

// usable returns the error that prevents operations from being started, nil if there is none.
func (ep *Endpoint) usable() error {
	switch {
	case ep.life.Refuses():
		return ucs.ErrNotConnected
	case ep.err != nil:
		return ep.err
	}
	return nil
}

// gone returns the error of operations that wait for the peer when the endpoint
// has failed or is released, nil as long as they may wait.
func (ep *Endpoint) gone() error {
	switch {
	case ep.err != nil:
		return ep.err
	case ep.life.Stage == life.Gone:
		return ucs.ErrCanceled
	}
	return nil
}

// run runs the protocol as far as it gets, and queues the request on its lane if the transport has
// no resources.
func (r *Request) run() {
	if r == r.w.dispatching {
		r.state |= stateAgain // the request is at the head of the lane's queue
		return
	}
	for {
		err := r.proto.progress(r)
		if err == nil {
			return
		}
		if err != ucs.ErrNoResource {
			r.proto.abort(r, r.w.ends.laneError(r, err))
			return
		}
		err = r.ep.lane(r.lane).PendingAdd(&r.pend)
		if err == nil {
			r.w.stats.Pending++
			return
		}
		if err != ucs.ErrBusy {
			r.proto.abort(r, r.w.ends.laneError(r, err))
			return
		}
	}
}

// await makes the request wait for a message of the peer, in the list outstanding of its endpoint.
func (r *Request) await() {
	r.ep.outstanding.Push(&r.node)
	r.w.stream.expect()
}

// requeue puts the request at the end of the worker's copying queue, from which the next rounds of
// progress run it. Requests that copy with the CPU are served there in rotation.
func (r *Request) requeue() {
	r.w.copying.Push(&r.node)
	r.w.due.Store(true)
}

// dispatchLater leaves the rest of the dispatch of the request to the end of the round of progress: its
// end, or with stateMoves to run it on.
func (r *Request) dispatchLater() {
	r.w.dispatched.Push(&r.node)
	r.w.due.Store(true)
}

// finishDispatched ends the requests whose end was deferred, resumes those that continue on another
// lane (stateMoves), and returns their number.
func (w *Worker) finishDispatched() int {
	n := 0
	for !w.dispatched.Empty() {
		r := w.dispatched.Pop()
		if r.state&stateMoves != 0 {
			r.state &^= stateMoves
			r.run()
		} else {
			r.finish(r.err)
		}
		n++
	}
	return n
}

// endMoves aborts the requests of an endpoint that were about to continue on another lane.
func (w *Worker) endMoves(ep *Endpoint, err error) {
	for n := w.dispatched.Front(); n != nil; {
		r, next := n.Value, n.Next()
		if r.ep == ep && r.state&stateMoves != 0 {
			r.state &^= stateMoves
			n.Remove()
			r.abort(err)
			next = w.dispatched.Front() // callbacks may have changed the list
		}
		n = next
	}
}

// abortAll ends all requests of a list with err, oldest first. Callbacks run.
func abortAll(l *list.List[Request], err error) {
	for !l.Empty() {
		l.Pop().abort(err)
	}
}

// abortThoseOf ends the requests of a list that belong to the endpoint ep, with err. Callbacks run.
func abortThoseOf(ep *Endpoint, l *list.List[Request], err error) {
	for n := l.Front(); n != nil; {
		r, next := n.Value, n.Next()
		if r.ep == ep {
			n.Remove()
			r.abort(err)
			next = l.Front() // callbacks may have changed the list
		}
		n = next
	}
}

// The library itself sends control messages: wireup, acknowledgements, rendezvous answers. Their
// requests have no owner and are recycled when sent. Control messages are small and copied, so a
// message that the transport has buffered counts as sent.

// control makes a request for a control message.
func (ep *Endpoint) control(p protocol) *Request {
	r := ep.w.pool.getRequest()
	r.setEndpoint(ep)
	r.proto, r.state = p, stateFreed
	return r
}

// sendControl implements protocol.progress for control messages. It sends a message with the given
// id, which the request's protocol packs.
func (r *Request) sendControl(id proto.AMID, flags uct.SendFlags) error {
	_, err := r.ep.lane(r.lane).AMBcopy(uct.AMID(id), r.hooks(), flags, nil)
	return controlSent(r, err)
}

// controlSent converts the result of sending a control message into the result of progress, and
// ends the request if the transport took the message.
func controlSent(r *Request, err error) error {
	if err == nil || err == ucs.InProgress {
		r.finish(nil)
		return nil
	}
	return err
}

// A message of any family is sent in one of these ways, which its length decides:
//
//	short        inline, behind a header of 8 bytes
//	bcopy        copied into the transport's buffer
//	zcopy        header and application memory in one transport call
//	multi        first fragment and middles, each bcopy or zcopy
//	rendezvous   an offer; the receiver says where the data goes (rndv_send.go)
//
// The first packets of all messages of an endpoint go over one lane and in order. The protocols do
// not depend on the kind of message: a messageForm describes the packets of each kind.

// messageForm describes what the messages of an operation look like on the wire.
type messageForm struct {
	name string // name of the operation

	only, first, middle packetForm

	// word returns the 8-byte header of a short message.
	word func(r *Request) uint64

	// offer returns the operation and the header field of a rendezvous offer of the message.
	offer func(r *Request) (op proto.RndvOp, header uint64)

	// sends returns the counter of such messages. It is nil for tagged messages, which are
	// counted as the remainder (tagFamily.count).
	sends func(s *Stats) *uint64

	// tables returns the endpoint's decision tables for such messages.
	tables func(c *epConfig) *proto.MessageTables

	acked      bool  // the send is complete when the receiver has acknowledged the message
	offered    bool  // sent by rendezvous, whatever the length
	oneLane    bool  // all packets go over the AM lane, because they need its order
	active     bool  // an active message: the application's header is part of it (am.go)
	needs      needs // needs of every send, in addition to those of its protocol
	partsNeeds needs // further needs of a message in fragments
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

// unmappedFrom is the length, in bytes, from which messages in memory that peers can map are
// offered with the key of that memory even if the peer has requested data by RTR that it could have
// copied out of such memory (epUnmapped). The peer may have had no file descriptors, or no
// permission to access this process.
const unmappedFrom = 64 << 10

// choose looks up the protocol in the decision tables. If the message is in memory that the peer
// may map, and is offered, choose keeps a reference to that memory.
func (sendMessage) choose(r *Request) (protocol, error) {
	w, ep, n := r.w, r.ep, r.data.Length
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
		if r.region = w.ctx.table.FindMapped(word.Address(r.data.Buf), n, ep.cfg.mapMDs); r.region != nil {
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
	if r.data.SetBytes(buf); p.Buffer.set {
		err = r.setBuffer(&p.Buffer, true)
	}
	if err == nil {
		err = p.checkMemory(w.ctx, &r.data)
	}
	if err != nil {
		w.pool.dropRequest(r)
		return nil, err
	}
	r.w.rights.attachMemory(r, p.Memory)
	return r, nil
}

// inFlightAfter returns the request of a send in one call that the transport has taken, but that is still in
// flight after the call. The request is requestPool.spare, whose completion was passed to the
// transport.
func (ep *Endpoint) inFlightAfter(form *messageForm, how protocol, p *RequestParams) *Request {
	w := ep.w
	r := w.pool.spare
	w.pool.nextSpare()
	r.setEndpoint(ep)
	r.form, r.proto = form, how
	if how == (eagerShort{}) {
		r.countSent(&w.stats.EagerShort)
	} else {
		r.countSent(&w.stats.EagerBcopy)
	}
	if p != nil {
		r.state |= stateParams
		r.onSend, r.userData = p.OnSend, p.UserData
	}
	return r
}

// sendMessageNow sends a message in one step inside the call, or returns ucs.ErrNoResource.
func (ep *Endpoint) sendMessageNow(r *Request) (*Request, error) {
	err := error(ucs.ErrNoResource)
	size := r.data.Length
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
	case ep.waiting.Empty() && ep.needs&(needLanes|r.form.needs) == 0 && !r.form.acked && !r.form.offered &&
		(p == proto.ProtoEagerShort || p == proto.ProtoEagerBcopy):
		r.proto = eagerBcopy{}
		_, err = ep.ue.AMBcopy(uct.AMID(r.form.only.id), r.hooks(), uct.SendNow, nil)
	}
	if err == nil || err == ucs.InProgress {
		// A packet that a transport has begun to write leaves without further calls.
		err = nil
		r.countSent(&ep.w.stats.EagerBcopy)
		r.w.selection.countMessage(r, r.form.tables(ep.cfg), r.class(), size)
		if r.frag < r.data.Length {
			err = r.packedNothing(r.frag)
		}
	}
	ep.w.pool.dropRequest(r)
	return nil, err
}
