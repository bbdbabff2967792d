package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Rendezvous, sending side. The offer (RTS) names the request. The receiver answers with the
// destination of the data (RTR), once for the whole message or for each part of it, or ends the
// rendezvous (ATS). A destination with an address is written by the transport, followed by an ATP
// on the same connection. A destination without an address gets the data in messages.
//
//	RTS ──► …wait… ◄── RTR ──► put, put, … ATP ──► done when the transport is
//	                      └──► data, data, …  ──► done when the transport is
//	               ◄── ATS                        done

// offerState is the sender's state of a rendezvous.
type offerState struct {
	addr  uint64       // address of the data that the peer may read or map, 0 for none
	asked rangeset.Set // bytes that the receiver has asked for
	sent  int          // bytes of the parts that are done
	part  part         // the part being sent
	parts []part       // the parts to be sent after it
}

// part is the part of a message that one RTR asks for.
type part struct {
	reqID  proto.RequestID // the receiver's request
	addr   uint64          // destination, 0 if it is not writable
	off, n int             // offset and length in the message
	keys   peerKeys        // keys for the lanes that write
}

// maxParts bounds the parts of a message that wait for the one being sent.
// Receivers ask for one per lane, or for pipelined fragments of half a megabyte.
const maxParts = 4096

// rndvOffer offers the message, and then waits in the endpoint's list outstanding. The other
// protocols of this file carry out an RTR.
type rndvOffer struct{ basics }

func (rndvOffer) about() protocolInfo {
	return protocolInfo{name: "rndv", kind: kindOffer, needs: needID}
}

// progress sends the RTS. Over a transport that delivers inline, the whole rendezvous may happen
// during the call, so the request is not touched after it.
func (rndvOffer) progress(r *Request) error {
	if !r.node.Linked() {
		r.await()
		r.w.rndv.exposeOffer(r)
	}
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvRTS), r.hooks(), 0, nil)
	if err != nil && err != ucs.InProgress {
		return err
	}
	return nil
}

// newOffer resets the offer state of the request, to that of an unanswered offer.
func (rv *rndvState) newOffer(r *Request) {
	if r.offer == nil {
		r.offer = new(offerState)
	}
	r.offer.asked.Reset()
	*r.offer = offerState{asked: r.offer.asked}
}

// exposeOffer opens the data to the peer, if a lane can read it. Data in a region that the peer may
// map is open already; exposeOffer sets its address.
func (rv *rndvState) exposeOffer(r *Request) {
	if r.data.Class == datatype.Contig && r.data.Length > 0 && len(r.ep.cfg.get) > 0 {
		r.offer.addr = rv.exposeMemory(r, r.data.Buf, r.w.rights.guards.get, r.ep.cfg.keys.get, uct.AccessRemoteGet)
	}
	if r.region != nil && r.data.Length > 0 {
		r.offer.addr = word.Address(r.data.Buf)
	}
}

// pack writes the offer. If the peer may read or map the data, the offer contains its address and a
// packed key. The key names the domains whose lanes need one to read, and no domain if none does.
// For memory that the peer may map it is the key of the region.
func (rndvOffer) pack(r *Request, dst []byte) int {
	r.countSent(&r.w.stats.RndvSends)
	h := proto.RndvRTS{
		EpID:    r.ep.remoteID,
		ReqID:   proto.RequestID(r.localID),
		Address: r.offer.addr,
		Size:    r.data.Length,
	}
	h.Op, h.Header = r.form.offer(r)
	n := h.Put(dst)
	switch {
	case h.Address == 0:
	case r.region != nil:
		n += copy(dst[n:], r.region.Rkey)
	default:
		n = len(r.mem.appendKey(dst[:n]))
	}
	if r.form.active {
		n += copy(dst[n:], r.am.header)
	}
	return n
}

// onRndvRTR receives an RTR: the destination of data of this worker.
func (rv *rndvState) onRndvRTR(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rv.w
	h, key, err := proto.ParseRndvRTR(data)
	if err != nil {
		return w.logMalformed(err)
	}
	r := w.pool.requestIDs.Get(uint64(h.SendReqID))
	if !r.is(kindOffer) && !r.is(kindWrite) {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, r.ep) {
		return nil
	}
	o := r.offer
	p := part{reqID: h.RecvReqID, addr: h.Address, off: h.Offset, n: h.Size}
	if p.n == 0 && p.off == 0 {
		p.n = r.data.Length // 1.13.1 sends no size for scattered destinations
	}
	if p.off+p.n > r.data.Length || p.n == 0 && p.off != 0 || len(o.parts) == maxParts || !o.asked.Add(p.off, p.n) {
		return w.logMalformed(ucs.ErrIO)
	}
	if len(key) > 0 {
		if _, _, err := proto.ParseRkey(key); err != nil {
			return w.logMalformed(err)
		}
	}
	if p.addr != 0 && !p.keys.read(w, key, r.ep.cfg.put) {
		p.addr = 0 // without its key the destination cannot be written
	}
	if o.asked.Prefix() == r.data.Length {
		w.pool.requestIDs.Remove(r.localID) // nothing more can be asked for
		r.localID = 0
	}
	if r.region != nil {
		r.ep.state |= epUnmapped
	}
	if r.is(kindWrite) {
		o.parts = append(o.parts, p)
		return nil
	}
	rv.sendPart(r, p)
	return nil
}

// sendPart starts sending the part that an RTR asked for.
func (rv *rndvState) sendPart(r *Request, p part) {
	if r.node.Linked() {
		r.node.Remove()
	}
	r.offer.part, r.offset, r.step = p, 0, 0
	c := r.ep.cfg
	class := r.class()
	way := c.rndv.Answer(class, p.addr != 0).Lookup(p.n)
	if way == proto.ProtoDataPut && !r.w.rights.shareHandles(r, c.put, c.rndv.PutShares(), p.n, uct.AccessLocalRead) ||
		way == proto.ProtoDataZcopy && !r.w.rights.laneHandles(r, r.ep.amLane(), uct.AccessLocalRead) {
		class = proto.DataGeneric
		way = c.rndv.Answer(class, p.addr != 0).Lookup(p.n)
	}
	r.w.selection.countAnswer(r, class, p.addr != 0, p.n)
	if way == proto.ProtoDataPut {
		r.w.stats.RndvPut++
	} else {
		r.w.stats.RndvAM++
	}
	r.proto = protocolOf[way]
	r.run()
}

// stepATP is the last step of a rendezvous put: its data is in place, or in flight on the
// connection of the ATP. The steps before it are the writes of each lane, then one flush for each
// lane.
const stepATP = 255

// rndvPut writes the part to the receiver's memory and then sends the ATP.
type rndvPut struct{ basics }

func (rndvPut) about() protocolInfo {
	return protocolInfo{name: "rndv put zero-copy", kind: kindWrite}
}

// progress writes over one lane after the other. It sends one ATP for all lanes, because a 1.13.1
// receiver takes the first as the end. If the ATP could overtake writes, the lanes are flushed
// first.
func (rndvPut) progress(r *Request) error {
	c, p := r.ep.cfg, &r.offer.part
	shares := c.rndv.PutShares()
	lanes := shares.Lanes()
	for ; int(r.step) < lanes; r.step++ {
		k, _, end := shares.Part(int(r.step), p.n)
		l := &c.put[k]
		r.lane = l.lane
		ue := r.ep.remote(l.lane)
		for r.offset < end {
			var n int
			n, r.frag = r.data.Gather(r.w.rights.iovec(r), p.off+r.offset, min(end-r.offset, l.max))
			r.w.rights.addHandles(r, n, l.lane)
			r.comp.Count++
			err := ue.PutZcopy(r.iov[:n], p.addr+uint64(r.offset), r.w.rndv.keyOf(r, &p.keys, c.put, k), &r.comp)
			if err := r.fragmentSent(err); err != nil {
				return err
			}
		}
	}
	if !c.putInOrder && r.step != stepATP {
		for ; int(r.step) < 2*lanes; r.step++ {
			k, _, _ := shares.Part(int(r.step)-lanes, p.n)
			r.lane = c.put[k].lane
			r.comp.Count++
			if err := r.ep.lane(r.lane).Flush(uct.FlushRemote, &r.comp); err != ucs.InProgress {
				r.comp.Count--
				if err != nil {
					return err
				}
			}
		}
		r.lane = r.ep.amLane()
		r.comp.Done(nil) // completed continues with the ATP
		return nil
	}
	r.step, r.lane = stepATP, r.ep.amLane()
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvATP), r.hooks(), 0, nil)
	if err != nil && err != ucs.InProgress {
		return err
	}
	r.comp.Done(nil)
	return nil
}

// completed is called when the writes, and flushes if any, are done. If the ATP has not been sent
// yet, it is sent now.
func (rndvPut) completed(r *Request, err error) {
	if err != nil || r.step == stepATP {
		r.w.rndv.partSent(r, err)
		return
	}
	r.step = stepATP
	r.comp.Count = 1
	r.run()
}

func (rndvPut) pack(r *Request, dst []byte) int {
	p := &r.offer.part
	return proto.RndvAck{ReqID: p.reqID, Size: p.n, HasSize: true}.Put(dst)
}

// rndvZcopy sends the part in zero-copy messages from the application's memory.
type rndvZcopy struct{ basics }

func (rndvZcopy) about() protocolInfo {
	return protocolInfo{name: "rndv am zero-copy", kind: kindWrite}
}

// progress sends at least one message: 1.13.1 asks for the data of an empty message, and waits for
// it.
func (rndvZcopy) progress(r *Request) error {
	p := &r.offer.part
	for first := true; first || r.offset < p.n; first = false {
		var n int
		n, r.frag = r.data.Gather(r.w.rights.iovec(r), p.off+r.offset, min(p.n-r.offset, r.ep.cfg.maxZcopy-proto.RndvDataSize))
		r.w.rights.addHandles(r, n, r.ep.amLane())
		r.comp.Count++
		err := r.ep.ue.AMZcopy(uct.AMID(proto.IDRndvData), r.hooks(), r.iov[:n], 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

func (rndvZcopy) completed(r *Request, err error) { r.w.rndv.partSent(r, err) }

func (rndvZcopy) pack(r *Request, dst []byte) int { return packRndvHeader(r, dst) }

// rndvBcopy sends the part in copied messages, at least one.
type rndvBcopy struct{ basics }

func (rndvBcopy) about() protocolInfo { return protocolInfo{name: "rndv am copy-in", kind: kindWrite} }

func (rndvBcopy) progress(r *Request) error {
	p := &r.offer.part
	for first := true; first || r.offset < p.n; first = false {
		r.comp.Count++
		_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvData), r.hooks(), 0, &r.comp)
		accepted := err == nil || err == ucs.InProgress
		if err := r.fragmentSent(err); err != nil {
			if accepted { // the datatype packed nothing: the receiver must not wait for the rest
				r.ep.w.rndv.sendAbort(r.ep, p.reqID, p.n-r.offset)
			}
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

func (rndvBcopy) completed(r *Request, err error) { r.w.rndv.partSent(r, err) }

func (rndvBcopy) pack(r *Request, dst []byte) int {
	n := packRndvHeader(r, dst)
	p := &r.offer.part
	return n + r.packFragment(dst, n, p.n-r.offset, p.off+r.offset)
}

func packRndvHeader(r *Request, dst []byte) int {
	return proto.RndvData{RecvReqID: r.offer.part.reqID, Offset: r.offset}.Put(dst)
}

// partSent is called when the transport is done with a part. It starts the next part, ends the
// request after the last, or waits for further RTRs.
func (rv *rndvState) partSent(r *Request, err error) {
	o := r.offer
	o.sent += o.part.n
	if err != nil || o.sent >= r.data.Length {
		r.finish(err)
		return
	}
	r.comp.Count = 1
	if len(o.parts) > 0 {
		p := o.parts[0]
		o.parts = o.parts[1:]
		rv.sendPart(r, p)
		return
	}
	if err := r.ep.gone(); err != nil {
		r.finish(err)
		return
	}
	r.proto = rndvOffer{}
	r.await()
}

// onRndvATS receives an ATS: the receiver is done with a message of this worker. The receiver has
// read the message, does not want it, or has failed.
func (rv *rndvState) onRndvATS(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rv.w
	h, err := proto.ParseRndvAck(data)
	if err != nil {
		return w.logMalformed(err)
	}
	r := w.pool.requestIDs.Get(uint64(h.ReqID))
	if !r.is(kindOffer) {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, r.ep) {
		return nil
	}
	r.finish(h.Status.Err())
	return nil
}
