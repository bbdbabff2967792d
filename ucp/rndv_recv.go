package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Rendezvous, receiving side. An offer whose data can be read, or copied out of
// memory that is mapped, is, and then acknowledged by an ATS; so is one with
// nothing to fetch. Any other is answered
// by one RTR for the whole message. Contiguous memory is exposed for writing as
// long as the request lives; what arrives in messages and what ATPs say was
// written adds up, over all connections of the peer, until the message is
// complete.

// rndvRTR asks for the data and then waits for it, in the endpoint's list of
// outstanding requests.
var rndvRTR = protocol{name: "tag rndv receive", progress: progressRTR, pack: packRTR}

// onRndvRTS receives an offer.
func (w *Worker) onRndvRTS(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, tail, err := proto.ParseRndvRTS(data)
	if err != nil {
		return w.malformed(err)
	}
	if h.Op != proto.RndvTag || w.endpoints.Get(uint64(h.EpID)) == nil {
		w.stats.Dropped++
		return nil
	}
	if len(tail) > 0 {
		_, n, err := proto.ParseRkey(tail)
		if err != nil {
			return w.malformed(err)
		}
		tail = tail[:n]
	}
	tag := Tag(h.Header)
	if r := w.tm.matchExpected(tag); r != nil {
		w.fetch(r, &h, tail)
		return nil
	}
	if n := len(tail); n == proto.MinRkeySize || n > maxOfferKey {
		tail = nil // it opens nothing, or nothing that is mapped
	}
	from := w.sourceOf(src)
	if err := w.charge(from, messageSize+len(tail)); err != nil {
		return err
	}
	w.stats.Unexpected++
	d := w.newMessage(from, tag, messageRndv, h.Size)
	d.rndv, d.data = h, nil
	if len(tail) > 0 {
		d.keep(tail, nil)
	}
	w.tm.addUnexpected(d)
	return nil
}

// maxOfferKey bounds the key that is kept with an offer.
const maxOfferKey = 2048

// fetch gets the data of an offer that was matched. key is the packed key that
// came with it, if one did.
func (w *Worker) fetch(r *Request, h *proto.RndvRTS, key []byte) {
	r.info = TagRecvInfo{SenderTag: Tag(h.Header), Length: h.Size}
	ep := w.endpoints.Get(uint64(h.EpID))
	switch {
	case ep == nil:
		r.finish(fmt.Errorf("ucp: the endpoint to the sender is closed: %w", ucs.ErrCanceled))
		return
	case ep.err != nil:
		r.finish(ep.err)
		return
	case h.Size > r.data.length:
		ep.sendATS(h.ReqID, h.Size, ucs.OK) // the sender is not to blame
		r.finish(ucs.ErrMessageTruncated)
		return
	case h.Size == 0:
		ep.sendATS(h.ReqID, 0, ucs.OK)
		r.finish(nil)
		return
	}
	r.localID = w.requestIDs.Put(r)
	if r.localID == 0 {
		ep.sendATS(h.ReqID, h.Size, ucs.OK)
		r.finish(ucs.ErrNoMemory)
		return
	}
	w.stats.RndvRecvs++
	r.ep, r.peerID = ep, uint64(h.ReqID)
	r.arrived, r.ranges, r.part = 0, rangeset.Set{}, part{}
	switch r.answerTo(h, key) {
	case proto.ProtoAttach:
		w.stats.RndvPtr++
		r.proto = &rndvPtr
		r.part, r.offset = part{addr: h.Address, n: h.Size}, 0
	case proto.ProtoRead:
		w.stats.RndvGet++
		r.proto = &rndvGet
		r.part, r.offset, r.step = part{addr: h.Address, n: h.Size}, 0, 0
	case proto.ProtoAskPut:
		r.proto = &rndvRTR
		r.expose(r.data.buf[:h.Size], w.guards.put, uct.AccessRemotePut)
	default:
		r.proto = &rndvRTR
	}
	r.run()
}

// answerTo decides what to do about an offer. If it is to be copied out of the
// sender's memory, that is mapped.
func (r *Request) answerTo(h *proto.RndvRTS, key []byte) proto.Protocol {
	c, class := r.ep.cfg, r.class()
	if h.Address == 0 {
		return c.rndv.Ask(class, proto.OfferPlain).Lookup(h.Size)
	}
	if len(key) > proto.MinRkeySize && len(c.maps) > 0 && c.rndv.Ask(class, proto.OfferKey).Lookup(h.Size) == proto.ProtoAttach {
		if r.attached = r.w.attach(r.ep, key, h.Address, h.Size); r.attached != nil {
			return proto.ProtoAttach
		}
	}
	p := c.rndv.Ask(class, proto.OfferAddress).Lookup(h.Size)
	if p == proto.ProtoRead && !r.shareHandles(c.get, c.rndv.GetShares(), h.Size, uct.AccessLocalWrite) {
		p = c.rndv.Ask(class, proto.OfferPlain).Lookup(h.Size)
	}
	return p
}

// progressRTR asks for the data. Over a transport that delivers inline the data
// may arrive inside the call, so nothing is done after it.
func progressRTR(r *Request) error {
	if r.list == nil {
		r.ep.outstanding.push(r)
	}
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvRTR), r, 0, nil)
	if err != nil && err != ucs.InProgress {
		return err
	}
	return nil
}

func packRTR(r *Request, dst []byte) int {
	h := proto.RndvRTR{
		SendReqID: proto.RequestID(r.peerID),
		RecvReqID: proto.RequestID(r.localID),
		Size:      r.info.Length,
	}
	if r.part.addr == 0 {
		return h.Put(dst)
	}
	h.Address = r.part.addr
	n := h.Put(dst)
	// A key that names no domain: all a transport needs that has none.
	return n + copy(dst[n:], emptyRkey)
}

// emptyRkey is the packed key of host memory without domains.
var emptyRkey = func() []byte { k := proto.NewRkey(ucs.MemoryHost.Wire()); return k.Append(nil) }()

// waitsForData reports whether r is a receive whose data is on the way.
func (r *Request) waitsForData() bool { return r != nil && r.proto == &rndvRTR }

// onRndvData receives a part of a message.
func (w *Worker) onRndvData(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, payload, err := proto.ParseRndvData(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.RecvReqID))
	if !r.waitsForData() {
		w.stats.Dropped++
		return nil
	}
	if h.Offset+len(payload) > r.info.Length || !r.ranges.Add(h.Offset, len(payload)) {
		return w.malformed(ucs.ErrIO)
	}
	if err := r.data.unpackAt(payload, h.Offset); err != nil {
		r.finish(err)
		return nil
	}
	r.received(len(payload))
	return nil
}

// onRndvATP is told that the peer has written to the destination.
func (w *Worker) onRndvATP(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseRndvAck(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.ReqID))
	if !r.waitsForData() {
		w.stats.Dropped++
		return nil
	}
	if err := h.Status.Err(); err != nil {
		r.finish(err)
		return nil
	}
	if !h.HasSize {
		h.Size = r.info.Length // an old peer: one ATP is all
	}
	r.received(h.Size)
	return nil
}

// received counts bytes that are in place.
func (r *Request) received(n int) {
	r.arrived += min(n, r.info.Length-r.arrived)
	if r.arrived == r.info.Length {
		r.finish(nil)
	}
}
