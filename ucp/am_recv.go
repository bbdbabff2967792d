package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// onAMSingle is the handler of active messages that come whole. It is a function literal
// for the reason that onEagerOnly is one.
//
//go:noinline
func (w *Worker) onAMSingle() uct.AMHandler {
	return func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		h, payload, header, err := proto.ParseAMSingle(data)
		if err != nil {
			return w.malformed(err)
		}
		e := w.am.find(h.ID)
		if e == nil || e.queue != nil || e.flags&AMPersistentData != 0 || w.am.over {
			return w.arrived(w.sourceOf(src), nil, h, payload, header, desc)
		}
		from := w.sourceOf(src) // which may be gone when the handler returns
		m := w.newAM()
		m.id, m.header, m.data, m.length = h.ID, header, payload, len(payload)
		m.state, m.handled = amLive, true
		w.stats.AMRecvs++
		if err = w.callAM(e.fn, m); m.state != amLive {
			m.from = from
			return w.handled(m, err)
		}
		m.header, m.data, m.state, m.handled = nil, nil, 0, false // never kept, nor received
		w.restAM(m)
		return nil
	}
}

// onAMSingleReply receives a message that came whole and can be answered.
func (w *Worker) onAMSingleReply(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	h, f, payload, header, err := proto.ParseAMSingleReply(data)
	if err != nil {
		return w.malformed(err)
	}
	ep := w.amEndpoint(src, f.EpID)
	if ep == nil {
		return nil
	}
	h.Flags |= proto.AMFlagReply
	return w.arrived(w.sourceOf(src), ep, h, payload, header, desc)
}

// amEndpoint returns the endpoint that a message names, nil if the message is to be
// dropped.
func (w *Worker) amEndpoint(src *uct.Source, id proto.EndpointID) *Endpoint {
	ep := w.endpoints.Get(uint64(id))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return nil
	}
	if w.foreign(src, ep) {
		return nil
	}
	return ep
}

// arrived is given a message that came whole.
func (w *Worker) arrived(from *source, ep *Endpoint, h proto.AMHeader, payload, header []byte, desc *uct.AMDesc) error {
	m := w.newAM()
	m.describe(from, ep, h, len(payload))
	m.header, m.data = header, payload
	return w.deliver(m, desc)
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
func (amFamily) offers(w *Worker) (proto.RndvOp, offerHandler) { return proto.RndvAM, w.onAMOffer }

// onAMOffer gives a message whose data is at the sender to its handler. The endpoint was
// looked at.
func (w *Worker) onAMOffer(src *uct.Source, h proto.RndvRTS, key, header []byte) error {
	if n := len(key); n == proto.MinRkeySize || n > maxOfferKey {
		key = nil // it opens nothing, or nothing that is mapped
	}
	m := w.newAM()
	m.describe(w.sourceOf(src), w.endpoints.Get(uint64(h.EpID)), proto.AMHeaderFromWord(h.Header), h.Size)
	m.state |= amOffered
	m.rndv, m.header, m.key = h, header, key
	return w.deliver(m, nil)
}
