package ucp

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Rendezvous, receiving side. If the data of an offer can be read remotely, or copied from mapped
// memory, the receiver does so and then sends an ATS. An offer without data is answered by an ATS
// at once. Any other offer is answered by one RTR for the whole message. Contiguous memory may be
// exposed for writing as long as the request lives. The bytes that arrive in messages, and those
// that ATPs report as written, are added up over all connections of the peer until the message is
// complete.

// fetchState is the receiver's state of a rendezvous.
type fetchState struct {
	size     int          // bytes of the message
	source   uint64       // address of the data in the sender's memory
	target   uint64       // address in this process that the peer may write to, 0 for none
	arrived  int          // bytes that are in place
	ranges   rangeset.Set // ranges that came in messages
	keys     peerKeys     // keys of the source, for the lanes that read
	attached *mappedKey   // mapped memory of the peer that the data is copied from
	result   error        // result of the reading, for the ATS
}

// onRndvRTS receives an RTS, an offer.
func (rv *rndvState) onRndvRTS(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rv.w
	h, tail, err := proto.ParseRndvRTS(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep := w.endpoints.Get(uint64(h.EpID))
	if ep == nil {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, ep) {
		return nil
	}
	ep.w.rights.checkOfferSource(ep, src)
	was := w.accounts.rndvSource
	w.accounts.rndvSource = w.accounts.sourceOf(src)
	defer func() { w.accounts.rndvSource = was }()
	take := rv.offers[h.Op]
	if take == nil { // the context does not have the family of this operation
		rv.refuseOffer(ep, &h)
		return nil
	}
	key, rest, err := h.SplitRTS(tail)
	if err == nil && len(key) > 0 {
		var n int
		if _, n, err = proto.ParseRkey(key); err == nil {
			key = key[:n]
		}
	}
	if err != nil {
		return w.logMalformed(err)
	}
	err = take(src, h, key, rest)
	if err != nil && src == nil && errors.Is(err, ucs.ErrExceedsLimit) && ep.err == nil {
		rv.sendATS(ep, h.ReqID, h.Size, ucs.StatusOf(err)) // there is no connection whose end would tell the sender
	}
	return err
}

// refuseOffer answers an offer of a kind that this context does not receive, because its sender
// would otherwise wait forever. C UCX ends the sender's request with the status of the ATS
// (ucp_proto_rndv_ats_handler in src/ucp/rndv/rndv_ats.c).
func (rv *rndvState) refuseOffer(ep *Endpoint, h *proto.RndvRTS) {
	ep.w.stats.Dropped++
	ep.w.ctx.log.Debug("rejecting the RTS of an operation that this worker does not receive", zap.String("endpoint", ep.describe()),
		zap.Int("bytes", h.Size), zap.Uint8("operation", uint8(h.Op)))
	if ep.err == nil {
		rv.sendATS(ep, h.ReqID, h.Size, ucs.ErrUnsupported)
	}
}

// fetch gets the data of a matched offer. key is the packed key in the offer, empty for none.
func (rv *rndvState) fetch(r *Request, h *proto.RndvRTS, key []byte) {
	w := rv.w
	ep := w.endpoints.Get(uint64(h.EpID))
	switch {
	case ep == nil:
		r.finish(fmt.Errorf("ucp: the endpoint to the sender is closed: %w", ucs.ErrCanceled))
		return
	case ep.err != nil:
		r.finish(ep.err)
		return
	case h.Size > r.data.Length:
		rv.sendATS(ep, h.ReqID, h.Size, ucs.OK) // the error is the receiver's own
		r.finish(ucs.ErrMessageTruncated)
		return
	case h.Size == 0:
		rv.sendATS(ep, h.ReqID, 0, ucs.OK)
		r.finish(nil)
		return
	}
	r.localID = w.pool.requestIDs.Put(r)
	if r.localID == 0 {
		rv.sendATS(ep, h.ReqID, h.Size, ucs.OK)
		r.finish(ucs.ErrNoMemory)
		return
	}
	w.stats.RndvRecvs++
	if r.fetch == nil {
		r.fetch = new(fetchState)
	}
	f := r.fetch
	f.ranges.Reset()
	*f = fetchState{size: h.Size, source: h.Address, ranges: f.ranges}
	r.setEndpoint(ep)
	r.peerID = uint64(h.ReqID)
	r.offset, r.step = 0, 0
	switch rv.answerTo(r, h, key) {
	case proto.ProtoAttach:
		w.stats.RndvPtr++
		r.proto = rndvPtr{}
	case proto.ProtoRead:
		w.stats.RndvGet++
		r.proto = rndvGet{}
	case proto.ProtoAskPut:
		f.target = rv.exposeMemory(r, r.data.Buf[:h.Size], w.rights.guards.put, ep.cfg.keys.put, uct.AccessRemotePut)
		r.proto = rndvRTR{}
	default:
		r.proto = rndvRTR{}
	}
	r.run()
}

// answerTo chooses the protocol that answers an offer. For a copy from the sender's memory it also
// maps that memory.
func (rv *rndvState) answerTo(r *Request, h *proto.RndvRTS, key []byte) proto.Protocol {
	c, class := r.ep.cfg, r.class()
	offer := proto.OfferAddress
	switch {
	case h.Address == 0:
		offer = proto.OfferPlain
	case len(key) > proto.MinRkeySize && len(c.maps) > 0 && c.rndv.Ask(class, proto.OfferKey).Lookup(h.Size) == proto.ProtoAttach:
		if r.fetch.attached = r.w.rndv.mapKey(r.ep, key, h.Address, h.Size); r.fetch.attached != nil {
			r.w.selection.countAsk(r, class, proto.OfferKey, h.Size)
			return proto.ProtoAttach
		}
	}
	if offer != proto.OfferPlain && anyKeyed(c.get) && !r.fetch.keys.read(r.w, key, c.get) {
		offer = proto.OfferPlain
	}
	p := c.rndv.Ask(class, offer).Lookup(h.Size)
	if p == proto.ProtoRead && !r.w.rights.shareHandles(r, c.get, c.rndv.GetShares(), h.Size, uct.AccessLocalWrite) {
		offer = proto.OfferPlain
		p = c.rndv.Ask(class, offer).Lookup(h.Size)
	}
	r.w.selection.countAsk(r, class, offer, h.Size)
	return p
}

// rndvRTR asks for the data with an RTR, and then waits for it in the endpoint's list outstanding.
type rndvRTR struct{ basics }

func (rndvRTR) about() protocolInfo { return protocolInfo{name: "rndv receive", kind: kindAsk} }

// progress sends the RTR. Over a transport that delivers inline, the data may arrive during the
// call, so the request is not touched after it.
func (rndvRTR) progress(r *Request) error {
	if !r.node.Linked() {
		r.await()
	}
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvRTR), r.hooks(), 0, nil)
	if err != nil && err != ucs.InProgress {
		return err
	}
	return nil
}

func (rndvRTR) pack(r *Request, dst []byte) int {
	h := proto.RndvRTR{
		SendReqID: proto.RequestID(r.peerID),
		RecvReqID: proto.RequestID(r.localID),
		Size:      r.fetch.size,
		Address:   r.fetch.target,
	}
	n := h.Put(dst)
	if h.Address == 0 {
		return n
	}
	return len(r.mem.appendKey(dst[:n]))
}

// onRndvData receives a part of a message.
func (rv *rndvState) onRndvData(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rv.w
	h, payload, err := proto.ParseRndvData(data)
	if err != nil {
		return w.logMalformed(err)
	}
	r := w.pool.requestIDs.Get(uint64(h.RecvReqID))
	if !r.is(kindAsk) {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, r.ep) {
		return nil
	}
	if h.Offset+len(payload) > r.fetch.size || !r.fetch.ranges.Add(h.Offset, len(payload)) {
		return w.logMalformed(ucs.ErrIO)
	}
	if err := unpackData(r, payload, h.Offset); err != nil {
		r.finish(err)
		return nil
	}
	rv.received(r, len(payload))
	return nil
}

// onRndvATP receives an ATP: the peer has written to the destination, or the data will not come.
func (rv *rndvState) onRndvATP(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rv.w
	h, err := proto.ParseRndvAck(data)
	if err != nil {
		return w.logMalformed(err)
	}
	r := w.pool.requestIDs.Get(uint64(h.ReqID))
	if !r.is(kindAsk) {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, r.ep) {
		return nil
	}
	if err := h.Status.Err(); err != nil {
		r.finish(err)
		return nil
	}
	if !h.HasSize {
		h.Size = r.fetch.size // an old peer sends a single ATP, without a size
	}
	rv.received(r, h.Size)
	return nil
}

// received counts bytes that are in place.
func (rv *rndvState) received(r *Request, n int) {
	f := r.fetch
	f.arrived += min(n, f.size-f.arrived)
	if f.arrived == f.size {
		r.finish(nil)
	}
}

// rndvGet reads the data of an offer from the sender's memory; rndvGetATS then sends the ATS. The
// receive is over only when the ATS has been sent, because a caller that has waited for the receive
// may not progress the worker for a while.
type rndvGet struct{ basics }

func (rndvGet) about() protocolInfo { return protocolInfo{name: "rndv get zero-copy", kind: kindRead} }

// progress reads over one lane after the other.
func (rndvGet) progress(r *Request) error {
	c, f := r.ep.cfg, r.fetch
	shares := c.rndv.GetShares()
	for ; int(r.step) < shares.Lanes(); r.step++ {
		k, _, end := shares.Part(int(r.step), f.size)
		l := &c.get[k]
		r.lane = l.lane
		ue := r.ep.remote(l.lane)
		for r.offset < end {
			var n int
			n, r.frag = r.data.Gather(r.w.rights.iovec(r), r.offset, min(end-r.offset, l.max))
			r.w.rights.addHandles(r, n, l.lane)
			r.comp.Count++
			err := ue.GetZcopy(r.iov[:n], f.source+uint64(r.offset), r.w.rndv.keyOf(r, &f.keys, c.get, k), &r.comp)
			if err := r.fragmentSent(err); err != nil {
				if err == ucs.ErrNoResource {
					return err
				}
				r.comp.Done(err) // completed sends an ATS with the error
				return nil
			}
		}
	}
	r.lane = r.ep.amLane()
	r.comp.Done(nil)
	return nil
}

func (rndvGet) completed(r *Request, err error) { r.w.rndv.fetched(r, err) }

// fetched goes on when the data has arrived, or with err when it will not come: it sends the ATS if
// the endpoint can still send.
func (rv *rndvState) fetched(r *Request, err error) {
	if gone := r.ep.gone(); gone != nil {
		if err == nil {
			err = gone
		}
		r.finish(err)
		return
	}
	r.fetch.result, r.lane = err, r.ep.amLane()
	r.proto = rndvGetATS{}
	r.comp.Count, r.comp.Err = 1, nil
	r.run()
}

// rndvGetATS sends the ATS, which tells the sender the result of the reading.
type rndvGetATS struct{ basics }

func (rndvGetATS) about() protocolInfo { return protocolInfo{name: "rndv get ats", kind: kindRead} }

func (t rndvGetATS) progress(r *Request) error {
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvATS), r.hooks(), 0, &r.comp)
	switch err {
	case nil:
		t.completed(r, nil)
		return nil
	case ucs.InProgress:
		return nil
	}
	return err
}

func (rndvGetATS) pack(r *Request, dst []byte) int {
	f := r.fetch
	return proto.RndvAck{ReqID: proto.RequestID(r.peerID), Status: ucs.StatusOf(f.result), Size: f.size, HasSize: true}.Put(dst)
}

// completed is called when the ATS has been sent.
func (rndvGetATS) completed(r *Request, err error) {
	if r.fetch.result != nil {
		err = r.fetch.result
	}
	r.finish(err)
}
