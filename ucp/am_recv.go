package ucp

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// onAMSingle is the handler of active messages that come whole. It is a function literal
// for the reason that onEagerOnly is one.
//
//go:noinline
func (as *amState) onAMSingle() uct.AMHandler {
	w := as.w
	return func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		h, payload, header, err := proto.ParseAMSingle(data)
		if err != nil {
			return w.logMalformed(err)
		}
		e := w.am.find(h.ID)
		if e == nil || e.queue != nil || e.flags&AMPersistentData != 0 || w.am.over {
			return w.am.arrived(w.accounts.sourceOf(src), nil, h, payload, header, desc)
		}
		from := w.accounts.sourceOf(src) // which may be gone when the handler returns
		m := w.am.newAM()
		m.id, m.header, m.data, m.length = h.ID, header, payload, len(payload)
		m.state, m.handled = amLive, true
		w.stats.AMRecvs++
		if err = w.callAM(e.fn, m); m.state != amLive {
			m.from = from
			return w.am.handled(m, err)
		}
		m.header, m.data, m.state, m.handled = nil, nil, 0, false // never kept, nor received
		w.am.restAM(m)
		return nil
	}
}

// onAMSingleReply receives a message that came whole and can be answered.
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

// amEndpoint returns the endpoint that a message names, nil if the message is to be
// dropped.
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

// arrived is given a message that came whole.
func (as *amState) arrived(from *source, ep *Endpoint, h proto.AMHeader, payload, header []byte, desc *uct.AMDesc) error {
	m := as.newAM()
	m.describe(from, ep, h, len(payload))
	m.header, m.data = header, payload
	return as.deliver(m, desc)
}

// describe fills in who has sent the message, and what it says of itself.
func (m *AMMessage) describe(from *source, ep *Endpoint, h proto.AMHeader, length int) {
	m.from, m.ep, m.id, m.length = from, ep, h.ID, length
	m.state = 0
	if h.Flags&proto.AMFlagReply != 0 && ep != nil {
		m.state = amReplies
	}
}

// offers takes the offers of active messages.
func (amFamily) offers(w *Worker) (proto.RndvOp, offerHandler) { return proto.RndvAM, w.am.onAMOffer }

// onAMOffer gives a message whose data is at the sender to its handler. The endpoint was
// looked at.
func (as *amState) onAMOffer(src *uct.Source, h proto.RndvRTS, key, header []byte) error {
	w := as.w
	if n := len(key); n == proto.MinRkeySize || n > maxOfferKey {
		key = nil // it opens nothing, or nothing that is mapped
	}
	m := as.newAM()
	m.describe(w.accounts.sourceOf(src), w.endpoints.Get(uint64(h.EpID)), proto.AMHeaderFromWord(h.Header), h.Size)
	m.state |= amOffered
	m.rndv, m.header, m.key = h, header, key
	return as.deliver(m, nil)
}

// Active messages in fragments. Each fragment names the endpoint and the message. They
// come in any order, and are kept as they come (assembly.go), from some point on in one
// piece of memory for the whole message. Those of an endpoint are handled in the order
// in which their first fragments came, as in C 1.22: one that is complete waits for
// those before it. What came in one packet waits for nothing.

// amFlow is what an endpoint keeps for messages that are not complete, or not handled.
type amFlow struct {
	early    amList // of which the first fragment is not here
	started  amList // the others, in the order of that
	handling bool
	later    bool // it will be
}

// onAMFirst receives the first fragment of a message, or one in a single fragment.
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
	from := w.accounts.sourceOf(src)
	a := w.eager.assemblies[assemblyKey{ep.localID, f.MsgID}]
	if a == nil && len(payload) == f.TotalLen {
		return as.arrived(from, ep, h, payload, header, desc)
	}
	if a != nil && (a.total >= 0 || !a.setTotal(f.TotalLen)) {
		return w.logMalformed(ucs.ErrIO)
	}
	if err := w.accounts.charge(from, amMessageSize+len(header)); err != nil {
		return err
	}
	if a == nil || a.owner == nil { // new, or given up to make room
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
	m.list.remove(m)
	ep.am.started.push(m)
	if err := m.settle(len(payload)); err != nil || a.discard {
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
	from := w.accounts.sourceOf(src)
	a := w.eager.assemblies[assemblyKey{ep.localID, h.MsgID}]
	created := a == nil
	if created {
		if a, err = as.newParts(ep, from, h.MsgID, -1); err != nil {
			return err
		}
	}
	if m, ok := a.owner.(*AMMessage); ok {
		if err = m.settle(len(payload)); err != nil || a.discard {
			return err
		}
	}
	err = a.add(from, h.Offset, payload)
	if err != nil && created && a.owner != nil {
		a.owner.lose(err)
	}
	return err
}

// newParts begins a message in fragments.
func (as *amState) newParts(ep *Endpoint, from *source, id proto.MessageID, total int) (*assembly, error) {
	w := ep.w
	if err := w.accounts.charge(from, assemblySize+amMessageSize); err != nil {
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
	ep.am.early.push(m)
	return a, nil
}

// whole implements assemblyOwner.
func (m *AMMessage) whole() {
	m.state |= amWhole
	m.ep.w.am.handleParts(m.ep)
}

// lose implements assemblyOwner. Somebody up the stack may be in the middle of something:
// those behind it are handled later.
func (m *AMMessage) lose(error) {
	ep := m.ep
	ep.w.eager.discard(m.assembly)
	m.drop()
	ep.w.am.handleLater(ep)
}

// handleParts gives the messages that are complete to their handlers, up to the first
// that is not. What handlers bring about by sending to the own worker is left for later,
// or there might be no end.
func (as *amState) handleParts(ep *Endpoint) {
	f := ep.am
	if f.handling { // up the stack
		as.handleLater(ep)
		return
	}
	f.handling = true
	for last := f.started.tail; last != nil; {
		m := f.started.head
		if m == nil || m.state&amWhole == 0 {
			break
		}
		if m == last {
			last = nil
		}
		f.started.remove(m)
		m.joined()
		_ = ep.w.am.deliver(m, nil) // whose memory is its own
	}
	f.handling = false
}

// handleLater has that done in the next round of progress.
func (as *amState) handleLater(ep *Endpoint) {
	m := ep.am.started.head
	if ep.am.later || m == nil || m.state&amWhole == 0 || ep.life.Stage == life.Gone {
		return
	}
	ep.am.later = true
	ep.w.copying.push(ep.control(handleLater{}))
}

// handleLater sends nothing.
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

// settle gets one piece of memory for the whole message as soon as so much of it is here
// that the claim of the rest costs no more than other waste (maxWaste), and puts there
// what has come. n more bytes are about to.
func (m *AMMessage) settle(n int) error {
	w, a := m.w, m.assembly
	if a.place != nil || a.total < 0 || a.got+n < a.total/maxWaste {
		return nil
	}
	if err := w.accounts.charge(m.from, a.total); err != nil {
		return err
	}
	if !a.discard { // to make room
		was := m.charged
		m.join()
		m.charge(amMessageSize + cap(m.buf))
		m.charged -= was
		m.from.give(was)
		a.place = m.data
	}
	return nil
}

// join puts what has come of the message together.
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

// joined takes a complete message from its assembly.
func (m *AMMessage) joined() {
	if m.assembly.place == nil {
		m.join()
	}
	m.w.eager.putAssembly(m.assembly)
	m.assembly = nil
	m.discharge()
}

// purge gives up what has come of messages of an endpoint that has failed or is closed.
func (amFamily) purge(ep *Endpoint, _ error) {
	f := ep.am
	if f == nil {
		return
	}
	for _, l := range []*amList{&f.early, &f.started} {
		for m := l.head; m != nil; m = l.head {
			ep.w.eager.discard(m.assembly)
			m.drop()
		}
	}
}

// AMHandler receives the active messages of an id. It is called once for each message, when
// the message has arrived whole or its data is offered (AMMessage.Offered). Like callbacks,
// it runs inside progress, on the goroutine that progresses the worker, or inside a send to
// the same worker. It may start operations and receive the data; it must neither wait nor
// progress. m is valid until the handler returns, unless the handler calls Keep.
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
	// AMWholeMessage asks for whole messages. Handlers always get whole messages, so it
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

// SetAMHandler sets, replaces or removes the handler of an id, starting with the next
// message. A message for an id without a handler is dropped and counted in
// Stats.AMNoHandler. Its sender sees success, except for a message by rendezvous: that
// request ends with ucs.ErrInvalidParam, as in C.
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

// unhandled counts a message for an id that has no handler, and logs it now and then.
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

// handle runs a handler and sees to what it leaves. The error is the transport's
// handler's: whether it keeps the memory.
func (as *amState) handle(e *amEntry, m *AMMessage) error {
	w := as.w
	w.stats.AMRecvs++
	m.hold()
	m.state |= amLive
	m.handled = true
	err := w.callAM(e.fn, m)
	return as.handled(m, err)
}

// handled sees to what a handler has left.
func (as *amState) handled(m *AMMessage, err error) error {
	m.handled = false
	if m.state&amKept != 0 {
		m.chargeKept()
		if m.desc == nil {
			return nil
		}
		as.borrowed.push(m)
		return ucs.InProgress
	}
	m.desc = nil // the transport's again
	m.refuse(refusal(err))
	m.drop()
	return nil
}

// refusal is what the sender of an offer is told.
func refusal(err error) ucs.Status {
	status := ucs.StatusOf(err)
	if status > ucs.OK { // what is under way is no end
		return ucs.ErrInvalidParam
	}
	return status
}

// usable reports whether a message may be kept in the transport's memory.
func (as *amState) usable(data []byte, desc *uct.AMDesc) bool {
	return desc != nil && desc.Size <= maxWaste*len(data) && as.misaligned(data) == 0
}

// deliver gives a message, whose memory is the caller's unless it is the message's own,
// to its handler or its queue. The error is the transport's handler's.
func (as *amState) deliver(m *AMMessage, desc *uct.AMDesc) error {
	e := as.find(m.id)
	switch {
	case e == nil:
		as.unhandled(m.id)
		m.refuse(ucs.ErrInvalidParam)
		m.drop()
		return nil
	case as.over && m.overfull():
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
