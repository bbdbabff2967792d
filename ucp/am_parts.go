package ucp

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

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
func (w *Worker) onAMFirst(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	h, f, payload, header, err := proto.ParseAMFirst(data)
	if err != nil {
		return w.malformed(err)
	}
	ep := w.amEndpoint(src, f.EpID)
	if ep == nil {
		return nil
	}
	from := w.sourceOf(src)
	a := w.eager.assemblies[assemblyKey{ep.localID, f.MsgID}]
	if a == nil && len(payload) == f.TotalLen {
		return w.arrived(from, ep, h, payload, header, desc)
	}
	if a != nil && (a.total >= 0 || !a.setTotal(f.TotalLen)) {
		return w.malformed(ucs.ErrIO)
	}
	if err := w.charge(from, amMessageSize+len(header)); err != nil {
		return err
	}
	if a == nil || a.owner == nil { // new, or given up to make room
		if a, err = ep.newParts(from, f.MsgID, f.TotalLen); err != nil {
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
func (w *Worker) onAMMiddle(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, payload, err := proto.ParseAMMiddle(data)
	if err != nil {
		return w.malformed(err)
	}
	ep := w.amEndpoint(src, h.EpID)
	if ep == nil {
		return nil
	}
	from := w.sourceOf(src)
	a := w.eager.assemblies[assemblyKey{ep.localID, h.MsgID}]
	created := a == nil
	if created {
		if a, err = ep.newParts(from, h.MsgID, -1); err != nil {
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
func (ep *Endpoint) newParts(from *source, id proto.MessageID, total int) (*assembly, error) {
	w := ep.w
	if err := w.charge(from, assemblySize+amMessageSize); err != nil {
		return nil, err
	}
	a, err := w.newAssembly(from, assemblyKey{ep.localID, id}, total)
	if err != nil {
		return nil, err
	}
	if ep.am == nil {
		ep.am = new(amFlow)
	}
	m := w.newAM()
	m.from, m.ep, m.assembly, a.owner = from, ep, a, m
	m.charge(amMessageSize)
	ep.am.early.push(m)
	return a, nil
}

// whole implements assemblyOwner.
func (m *AMMessage) whole() {
	m.state |= amWhole
	m.ep.handleParts()
}

// lose implements assemblyOwner. Somebody up the stack may be in the middle of something:
// those behind it are handled later.
func (m *AMMessage) lose(error) {
	ep := m.ep
	ep.w.discard(m.assembly)
	m.drop()
	ep.handleLater()
}

// handleParts gives the messages that are complete to their handlers, up to the first
// that is not. What handlers bring about by sending to the own worker is left for later,
// or there might be no end.
func (ep *Endpoint) handleParts() {
	f := ep.am
	if f.handling { // up the stack
		ep.handleLater()
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
		_ = ep.w.deliver(m, nil) // whose memory is its own
	}
	f.handling = false
}

// handleLater has that done in the next round of progress.
func (ep *Endpoint) handleLater() {
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
	ep.handleParts()
	return nil
}

func (handleLater) abort(r *Request, err error) {
	r.ep.am.later = false
	r.finish(err)
}

// settle gets one piece of memory for the whole message as soon as so much of it is here
// that the claim of the rest costs no more than other waste (mostWaste), and puts there
// what has come. n more bytes are about to.
func (m *AMMessage) settle(n int) error {
	w, a := m.w, m.assembly
	if a.place != nil || a.total < 0 || a.got+n < a.total/mostWaste {
		return nil
	}
	if err := w.charge(m.from, a.total); err != nil {
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
	buf, b := w.alignedBuffer(m.length + len(m.header))
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
	m.w.putAssembly(m.assembly)
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
			ep.w.discard(m.assembly)
			m.drop()
		}
	}
}
