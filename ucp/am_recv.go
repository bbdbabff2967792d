package ucp

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// onAMSingle returns the transport handler of active messages in one packet. The commonest of them, those
// without a header for a handler of amState.direct, it handles itself, with the message object that has
// rested longest, which stays in its place among the resting ones. All others are for onAMSingleRest. The
// handler is a function literal, because a call of a method value costs a second call (see onEagerOnly).
//
//go:noinline
func (as *amState) onAMSingle() uct.AMHandler {
	w := as.w
	return func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		if len(data) < proto.AMHeaderSize {
			return w.am.onAMSingleRest(src, data, desc)
		}
		word := binary.LittleEndian.Uint64(data)
		if !proto.IsPlainAM(word) {
			return w.am.onAMSingleRest(src, data, desc)
		}
		fn := w.am.direct[uint8(word)]
		m := w.am.resting[w.am.rested%restingAMs]
		if fn == nil || m == nil || m.state != 0 {
			return w.am.onAMSingleRest(src, data, desc)
		}
		if src != nil {
			m.from = w.accounts.sourceOf(src) // now: src may be gone when the handler returns
		}
		w.am.rested++
		w.stats.AMRecvs++
		m.id, m.data, m.length = uint16(word), data[proto.AMHeaderSize:], len(data)-proto.AMHeaderSize
		m.state, m.handled = amLive, true
		m.was = w.owner.enterCallback() // the same as callAM, to save a call
		defer func() {
			if m.handled {
				m.handlerPanicked(recover())
			}
		}()
		err := fn(m)
		w.owner.leaveCallback(m.was)
		m.handled = false
		if m.state == amLive { // neither kept nor received
			m.data, m.from, m.state = nil, nil, 0
			return nil
		}
		m.handledDirectly(err)
		return nil
	}
}

// handledDirectly ends the handling of a message by onAMSingle.
//
//go:noinline
func (m *AMMessage) handledDirectly(err error) {
	as := &m.w.am
	if m.state == amLive { // neither kept nor received
		m.header, m.data, m.from, m.state, m.handled = nil, nil, nil, 0, false
		return
	}
	if as.resting[m.place] == m {
		as.resting[m.place] = nil
	}
	if m.from == nil {
		m.from = m.w.accounts.sourceOf(nil)
	}
	as.handled(m, err) // nil: no memory of the transport was kept
}

// handlerPanicked does so for a message whose handler did not return.
//
//go:noinline
func (m *AMMessage) handlerPanicked(recovered any) {
	m.w.callbackPanicked(m.was, recovered)
	if recovered != nil { // else the goroutine ends, and perhaps another one owns the worker
		m.handledDirectly(ucs.ErrCanceled)
	}
}

// onAMSingleRest receives the messages in one packet that onAMSingle does not handle itself. It does the same
// for messages with a header.
//
//go:noinline
func (as *amState) onAMSingleRest(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	w := as.w
	h, payload, header, err := proto.ParseAMSingle(data)
	if err != nil {
		return w.logMalformed(err)
	}
	from := w.accounts.sourceOf(src)
	m := as.resting[as.rested%restingAMs]
	if h.ID >= directIDs || as.direct[h.ID] == nil || m == nil || m.state != 0 {
		return as.arrived(from, nil, h, payload, header, desc)
	}
	as.rested++
	w.stats.AMRecvs++
	m.from, m.id, m.header, m.data, m.length = from, h.ID, header, payload, len(payload)
	m.state, m.handled = amLive, true
	err = w.callAM(as.direct[h.ID], m)
	m.handled = false
	m.handledDirectly(err)
	return nil
}

// onAMSingleReply receives a message in one packet that names an endpoint to reply on.
func (as *amState) onAMSingleReply(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	w := as.w
	h, f, payload, header, err := proto.ParseAMSingleReply(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep := as.amEndpoint(src, f.EpID)
	if ep == nil {
		return nil
	}
	h.Flags |= proto.AMFlagReply
	return as.arrived(w.accounts.sourceOf(src), ep, h, payload, header, desc)
}

// amEndpoint returns the endpoint that a message names. It returns nil if the message is to be
// dropped: the endpoint is unknown or has failed, or the message is spoofed.
func (as *amState) amEndpoint(src *uct.Source, id proto.EndpointID) *Endpoint {
	w := as.w
	ep := w.endpoints.Get(uint64(id))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, ep) {
		return nil
	}
	return ep
}

// arrived delivers a message that has arrived whole, in one packet.
func (as *amState) arrived(from *source, ep *Endpoint, h proto.AMHeader, payload, header []byte, desc *uct.AMDesc) error {
	m := as.newAM()
	m.describe(from, ep, h, len(payload))
	m.header, m.data = header, payload
	return as.deliver(m, desc)
}

// describe sets the fields of the message that come from its connection, its endpoint and its
// header.
func (m *AMMessage) describe(from *source, ep *Endpoint, h proto.AMHeader, length int) {
	m.from, m.ep, m.id, m.length = from, ep, h.ID, length
	m.state = 0
	if h.Flags&proto.AMFlagReply != 0 && ep != nil {
		m.state = amReplies
	}
}

// offers returns the handler of rendezvous offers of active messages.
func (amFamily) offers(w *Worker) (proto.RndvOp, offerHandler) { return proto.RndvAM, w.am.onAMOffer }

// onAMOffer delivers a message whose data is still at the sender. The caller has checked the
// endpoint that the offer names.
func (as *amState) onAMOffer(src *uct.Source, h proto.RndvRTS, key, header []byte) error {
	w := as.w
	if n := len(key); n == proto.MinRkeySize || n > maxOfferKey {
		key = nil // an empty key, or one that is too long for mapped memory
	}
	m := as.newAM()
	m.describe(w.accounts.sourceOf(src), w.endpoints.Get(uint64(h.EpID)), proto.AMHeaderFromWord(h.Header), h.Size)
	m.state |= amOffered
	m.rndv, m.header, m.key = h, header, key
	return as.deliver(m, nil)
}

// Active messages in fragments. Each fragment names the endpoint and the message. Fragments arrive
// in any order. At first each fragment is kept by itself (assembly.go), later all are kept in one
// buffer for the whole message (allocateWhole). The messages of an endpoint are handled in the order in
// which their first fragments arrived, as in C 1.22: a complete message waits for those before it.
// A message in one packet waits for none.

// amFlow holds an endpoint's messages in fragments that are not complete, or not handled yet.
type amFlow struct {
	early    list.List[AMMessage] // messages whose first fragment has not arrived
	started  list.List[AMMessage] // the other messages, in the order in which their first fragments arrived
	handling bool
	later    bool // a control operation that calls handleParts is queued
}

// onAMFirst receives the first fragment of a message, which may be the only one.
func (as *amState) onAMFirst(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	w := as.w
	h, f, payload, header, err := proto.ParseAMFirst(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep := as.amEndpoint(src, f.EpID)
	if ep == nil {
		return nil
	}
	key := assemblyKey{ep.localID, f.MsgID}
	_, err = w.eager.receive(src, key, f.TotalLen, len(payload), func() error {
		return as.firstFragment(w.accounts.sourceOf(src), ep, h, &f, payload, header, desc)
	})
	return err
}

// firstFragment begins a message in fragments, or delivers one that has no other.
func (as *amState) firstFragment(from *source, ep *Endpoint, h proto.AMHeader, f *proto.AMFirstFooter, payload, header []byte, desc *uct.AMDesc) error {
	w := as.w
	a := w.eager.assemblies[assemblyKey{ep.localID, f.MsgID}]
	if a == nil && len(payload) == f.TotalLen {
		return as.arrived(from, ep, h, payload, header, desc)
	}
	if a != nil && (a.total >= 0 || !a.setTotal(f.TotalLen)) {
		return w.logMalformed(ucs.ErrIO)
	}
	if err := from.Charge(amMessageSize + len(header)); err != nil {
		return err
	}
	if a == nil || a.owner == nil { // new, or discarded by charge to make room
		var err error
		if a, err = as.newParts(ep, from, f.MsgID, f.TotalLen); err != nil {
			return err
		}
	}
	m := a.owner.(*AMMessage)
	m.discharge()
	m.describe(from, ep, h, f.TotalLen)
	if len(header) > 0 {
		m.buf = append(w.buffers.Get(len(header)), header...)
		m.header = m.buf
	}
	m.charge(amMessageSize + cap(m.buf))
	m.node.Remove()
	ep.am.started.Push(&m.node)
	if err := m.allocateWhole(len(payload)); err != nil || a.discard {
		return err
	}
	return a.add(from, 0, payload)
}

// onAMMiddle receives a later fragment.
func (as *amState) onAMMiddle(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := as.w
	h, payload, err := proto.ParseAMMiddle(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep := as.amEndpoint(src, h.EpID)
	if ep == nil {
		return nil
	}
	key := assemblyKey{ep.localID, h.MsgID}
	_, err = w.eager.receive(src, key, -1, len(payload), func() error {
		return as.laterFragment(w.accounts.sourceOf(src), ep, key, h.Offset, payload)
	})
	return err
}

// laterFragment adds a fragment to its message.
func (as *amState) laterFragment(from *source, ep *Endpoint, key assemblyKey, offset int, payload []byte) (err error) {
	a := as.w.eager.assemblies[key]
	created := a == nil
	if created {
		if a, err = as.newParts(ep, from, key.id, -1); err != nil {
			return err
		}
	}
	if m, ok := a.owner.(*AMMessage); ok {
		if err = m.allocateWhole(len(payload)); err != nil || a.discard {
			return err
		}
	}
	err = a.add(from, offset, payload)
	if err != nil && created && a.owner != nil {
		a.owner.lose(err)
	}
	return err
}

// newParts begins a message in fragments, of total bytes, or -1 if the length is not known yet.
func (as *amState) newParts(ep *Endpoint, from *source, id proto.MessageID, total int) (*assembly, error) {
	w := ep.w
	if err := from.Charge(assemblySize + amMessageSize); err != nil {
		return nil, err
	}
	a, err := w.eager.newAssembly(from, assemblyKey{ep.localID, id}, total)
	if err != nil {
		return nil, err
	}
	if ep.am == nil {
		ep.am = new(amFlow)
	}
	m := w.am.newAM()
	m.from, m.ep, m.assembly, a.owner = from, ep, a, m
	m.charge(amMessageSize)
	ep.am.early.Push(&m.node)
	return a, nil
}

// whole implements assemblyOwner: all fragments of m have arrived. It delivers the complete
// messages of the endpoint that are next in order.
func (m *AMMessage) whole() {
	m.state |= amWhole
	m.ep.w.am.handleParts(m.ep)
}

// lose implements assemblyOwner: it drops the message, which will never be complete. The messages
// behind it are handled in the next round of progress, because a caller up the stack may be in the
// middle of an operation.
func (m *AMMessage) lose(error) {
	ep := m.ep
	ep.w.eager.discard(m.assembly)
	m.drop()
	ep.w.am.handleLater(ep)
}

// handleParts delivers the complete messages of an endpoint in order, up to the first that is not
// complete. Messages that become complete meanwhile, because a handler sends to its own worker,
// are left for the next round of progress; otherwise the loop might not end.
func (as *amState) handleParts(ep *Endpoint) {
	f := ep.am
	if f.handling { // handleParts is running up the stack
		as.handleLater(ep)
		return
	}
	f.handling = true
	for last := f.started.Back(); last != nil; {
		n := f.started.Front()
		if n == nil || n.Value.state&amWhole == 0 {
			break
		}
		if n == last {
			last = nil
		}
		m := f.started.Pop()
		m.finishParts()
		_ = ep.w.am.deliver(m, nil) // the message has its own memory, so no desc is kept
	}
	f.handling = false
}

// handleLater schedules a call of handleParts in the next round of progress, if the first message
// is complete.
func (as *amState) handleLater(ep *Endpoint) {
	n := ep.am.started.Front()
	if ep.am.later || n == nil || n.Value.state&amWhole == 0 || ep.life.Stage == life.Gone {
		return
	}
	ep.am.later = true
	ep.control(handleLater{}).requeue()
}

// handleLater is a control operation that sends nothing: its progress calls handleParts.
type handleLater struct{ basics }

func (handleLater) about() protocolInfo { return protocolInfo{kind: kindControl} }

func (handleLater) progress(r *Request) error {
	ep := r.ep
	ep.am.later = false
	r.finish(nil)
	ep.w.am.handleParts(ep)
	return nil
}

func (handleLater) abort(r *Request, err error) {
	r.ep.am.later = false
	r.finish(err)
}

// allocateWhole allocates one buffer for the whole message, and copies the kept fragments there, once
// 1/maxWaste of the message has arrived. Before that the buffer could be much larger than the data,
// as only the peer claims the length. n is the number of bytes that are about to be added.
func (m *AMMessage) allocateWhole(n int) error {
	a := m.assembly
	if a.wholeBuf != nil || a.total < 0 || a.got+n < a.total/maxWaste {
		return nil
	}
	if err := m.from.Charge(a.total); err != nil {
		return err
	}
	if !a.discard { // unless Charge has discarded it to make room
		was := m.charged
		m.join()
		m.charge(amMessageSize + cap(m.buf))
		m.charged -= was
		m.from.SubBytes(was)
		a.wholeBuf = m.data
	}
	return nil
}

// join copies the fragments and the header of the message into one buffer.
func (m *AMMessage) join() {
	w, a := m.w, m.assembly
	buf, b := w.am.alignedBuffer(m.length + len(m.header))
	m.data = b[:m.length:m.length]
	for _, p := range a.pieces {
		cpu.Copy(m.data[p.off:], p.buf)
	}
	a.dropPieces()
	m.header = b[m.length : m.length+copy(b[m.length:], m.header)]
	if m.buf != nil {
		w.buffers.Put(m.buf)
	}
	m.buf = buf
}

// finishParts prepares a complete message for delivery: it joins the fragments, frees the assembly and
// discharges the message's source.
func (m *AMMessage) finishParts() {
	if m.assembly.wholeBuf == nil {
		m.join()
	}
	m.w.eager.putAssembly(m.assembly)
	m.assembly = nil
	m.discharge()
}

// purge drops the messages in fragments of an endpoint that has failed or is closed.
func (amFamily) purge(ep *Endpoint, _ error) {
	f := ep.am
	if f == nil {
		return
	}
	for _, l := range []*list.List[AMMessage]{&f.early, &f.started} {
		for !l.Empty() {
			m := l.Front().Value
			ep.w.eager.discard(m.assembly)
			m.drop()
		}
	}
}

// AMHandler receives the active messages of an id. The handler is called once for each message,
// when the message has arrived whole or its data is offered (AMMessage.Offered). Like callbacks,
// the handler runs inside progress, on the goroutine that progresses the worker, or inside a send
// to the same worker. The handler may start operations and receive the data; it must neither wait
// nor progress the worker. m is valid until the handler returns, unless the handler calls Keep.
//
// The result applies to data that is still at the sender, if the handler has neither kept
// the message nor received the data: nil ends the sender's request with success, an error
// ends it with the status of the error (ucs.StatusOf). In all other cases the result is
// ignored.
type AMHandler func(m *AMMessage) error

// AMHandlerFlags modify how messages are passed to a handler (enum ucp_am_cb_flags).
type AMHandlerFlags uint32

// Flags of handlers, with C's bit numbers.
const (
	// AMWholeMessage asks for whole messages. Handlers always get whole messages, so the flag
	// changes nothing.
	AMWholeMessage AMHandlerFlags = 1 << 0

	// AMPersistentData keeps the data in place when a message is kept: the slice that
	// AMMessage.Data has returned stays valid until Release. The data may be memory of the
	// transport, which is gone when the worker is closed.
	AMPersistentData AMHandlerFlags = 1 << 1

	amHandlerFlags = AMWholeMessage | AMPersistentData
)

// AMHandlerParams are the parameters of Worker.SetAMHandler.
type AMHandlerParams struct {
	ID      uint16
	Handler AMHandler // nil removes the handler
	Flags   AMHandlerFlags
}

// MaxAMAlignment is the largest WorkerParams.AMAlignment.
const MaxAMAlignment = 1 << 20

// SetAMHandler sets, replaces or removes the handler of an id, starting with the next message. A
// message for an id without a handler is dropped and counted in Stats.AMNoHandler. The sender of
// such a message sees success, except for a message by rendezvous: that request ends with
// ucs.ErrInvalidParam, as in C.
func (w *Worker) SetAMHandler(p AMHandlerParams) error {
	if w.missing() {
		return errMissing("Worker.SetAMHandler", w == nil)
	}
	w.owner.acquire()
	err := w.am.setAMHandler(&p)
	w.owner.release()
	return err
}

func (as *amState) setAMHandler(p *AMHandlerParams) error {
	if !as.on {
		return fmt.Errorf("ucp: SetAMHandler needs FeatureAM and an open worker: %w", ucs.ErrInvalidParam)
	}
	if p.Flags&^amHandlerFlags != 0 {
		return fmt.Errorf("ucp: SetAMHandler: unknown flags %#x: %w", uint32(p.Flags&^amHandlerFlags), ucs.ErrInvalidParam)
	}
	as.set(p.ID, amEntry{fn: p.Handler, flags: p.Flags})
	return nil
}

// unhandled counts a message for an id that has no handler, and logs it at most once a minute.
//
//go:noinline
func (as *amState) unhandled(id uint16) {
	w := as.w
	w.stats.AMNoHandler++
	if now := w.uctw.Now(); !as.warned || now >= as.warnAt {
		as.warned, as.warnAt = true, now+time.Minute
		w.ctx.log.Warn("active message without handler", zap.String("worker", w.name), zap.Uint16("id", id))
	}
}

// handle runs a handler and then keeps or drops the message. The result is for the transport's
// handler: ucs.InProgress if the message keeps the transport's memory.
func (as *amState) handle(e *amEntry, m *AMMessage) error {
	w := as.w
	w.stats.AMRecvs++
	m.hold()
	m.state |= amLive
	m.handled = true
	err := w.callAM(e.fn, m)
	return as.handled(m, err)
}

// handled keeps or drops a message after its handler has returned err. Its result is that of
// handle.
func (as *amState) handled(m *AMMessage, err error) error {
	m.handled = false
	if m.state&amKept != 0 {
		m.chargeKept()
		if m.desc == nil {
			return nil
		}
		as.borrowed.Push(&m.node)
		return ucs.InProgress
	}
	m.desc = nil // the transport keeps its memory
	m.refuse(refusal(err))
	m.drop()
	return nil
}

// refusal returns the status with which the sender's request ends if a handler returns err for a
// rendezvous offer.
func refusal(err error) ucs.Status {
	status := ucs.StatusOf(err)
	if status > ucs.OK { // positive statuses, like ucs.InProgress, do not end a request
		return ucs.ErrInvalidParam
	}
	return status
}

// usable reports whether a message may be kept in the transport's memory: there is a descriptor,
// it is not larger than maxWaste times the data, and the data is aligned.
func (as *amState) usable(data []byte, desc *uct.AMDesc) bool {
	return desc != nil && desc.Size <= maxWaste*len(data) && as.misaligned(data) == 0
}

// deliver passes a message to its handler or its queue, or drops it. The memory of the message is
// the caller's unless m.buf is set; desc is the transport's descriptor of that memory, nil if it
// cannot be kept. The result is for the transport's handler: ucs.InProgress if desc is kept, nil
// or an error if not.
func (as *amState) deliver(m *AMMessage, desc *uct.AMDesc) error {
	e := as.find(m.id)
	switch {
	case e == nil:
		as.unhandled(m.id)
		m.refuse(ucs.ErrInvalidParam)
		m.drop()
		return nil
	case as.keptOverLimit && m.dropsKept():
		m.drop()
		return nil
	case e.queue != nil:
		return e.queue.take(m)
	case e.flags&AMPersistentData != 0 && m.state&amOffered == 0 && m.buf == nil:
		if as.usable(m.data, desc) {
			m.desc = desc
		} else {
			m.own()
		}
	}
	return as.handle(e, m)
}
