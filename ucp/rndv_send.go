package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Rendezvous, sending side. The offer (RTS) names the request. The receiver
// answers with where the data goes (RTR), once for the whole message or in
// parts, or with the end (ATS). A destination with an address is written by the
// transport and followed by an ATP on the same connection; one without gets the
// data in messages.
//
//	RTS ──► …wait… ◄── RTR ──► put, put, … ATP ──► done when the transport is
//	                      └──► data, data, …  ──► done when the transport is
//	               ◄── ATS                        done

// part is what one RTR asks for.
type part struct {
	reqID  proto.RequestID // the receiver's
	addr   uint64          // 0: not writable
	off, n int             // in the message
}

// maxParts bounds the parts of a message that wait for the one being sent.
// Receivers ask for one per lane, or for pipelined fragments of half a megabyte.
const maxParts = 4096

// The protocols of the sending side. rndvRTS offers the message and then waits,
// in the endpoint's list of outstanding requests; the others carry out an RTR.
var rndvRTS, rndvPut, rndvZcopy, rndvBcopy protocol

func init() {
	rndvRTS = protocol{name: "tag rndv", progress: progressRTS, pack: packRTS}
	rndvPut = protocol{name: "tag rndv put zero-copy", progress: progressRndvPut, completed: putDone, pack: packATP}
	rndvZcopy = protocol{name: "tag rndv am zero-copy", progress: progressRndvZcopy, completed: partSent, pack: packRndvHeader}
	rndvBcopy = protocol{name: "tag rndv am copy-in", progress: progressRndvBcopy, completed: partSent, pack: packRndvData}
}

// progressRTS offers the message. Over a transport that delivers inline the
// whole rendezvous may happen inside the call, so nothing is done after it.
func progressRTS(r *Request) error {
	if r.list == nil {
		r.ep.outstanding.push(r)
		r.part = part{}
		if r.data.class == DatatypeContig && r.data.length > 0 && len(r.ep.cfg.get) > 0 {
			r.expose(r.data.buf, r.w.guards.get, uct.AccessRemoteGet)
		}
		if r.region != nil && r.data.length > 0 {
			r.part.addr = memoryAddress(r.data.buf)
		}
	}
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvRTS), r, 0, nil)
	if err != nil && err != ucs.InProgress {
		return err
	}
	return nil
}

// packRTS makes the offer. It gives the address of the data where a lane can read
// it, with a key that names no domain: such lanes need none. For memory that the
// peer may map the key names its domain.
func packRTS(r *Request, dst []byte) int {
	r.w.stats.RndvSends++
	h := proto.RndvRTS{
		Header: uint64(r.tag),
		EpID:   r.ep.remoteID,
		ReqID:  proto.RequestID(r.localID),
		Size:   r.data.length,
		Op:     proto.RndvTag,
	}
	if r.part.addr == 0 {
		return h.Put(dst)
	}
	h.Address = r.part.addr
	n := h.Put(dst)
	if r.region != nil {
		return n + copy(dst[n:], r.region.Rkey)
	}
	return n + copy(dst[n:], emptyRkey)
}

// onRndvRTR is told where data of ours shall go.
func (w *Worker) onRndvRTR(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, key, err := proto.ParseRndvRTR(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.SendReqID))
	if !r.offersData() {
		w.stats.Dropped++
		return nil
	}
	p := part{reqID: h.RecvReqID, addr: h.Address, off: h.Offset, n: h.Size}
	if p.n == 0 && p.off == 0 {
		p.n = r.data.length // 1.13.1 does not say, for scattered destinations
	}
	if p.off+p.n > r.data.length || p.n == 0 && p.off != 0 || len(r.parts) == maxParts || !r.ranges.Add(p.off, p.n) {
		return w.malformed(ucs.ErrIO)
	}
	if len(key) > 0 {
		if _, _, err := proto.ParseRkey(key); err != nil {
			return w.malformed(err)
		}
	} else if p.addr != 0 {
		p.addr = 0 // a destination without key cannot be written
	}
	if r.ranges.Prefix() == r.data.length {
		w.requestIDs.Remove(r.localID) // nothing more can be asked for
		r.localID = 0
	}
	if r.proto != &rndvRTS {
		r.parts = append(r.parts, p)
		return nil
	}
	r.sendPart(p)
	return nil
}

// sendPart starts on what an RTR asked for.
func (r *Request) sendPart(p part) {
	if r.list != nil {
		r.list.remove(r)
	}
	r.part, r.offset, r.step = p, 0, 0
	c := r.ep.cfg
	r.proto = protocolOf[c.rndv.Answer(r.class(), p.addr != 0).Lookup(p.n)]
	if r.proto == &rndvPut && !r.shareHandles(c.put, c.rndv.PutShares(), p.n, uct.AccessLocalRead) ||
		r.proto == &rndvZcopy && !r.laneHandles(amLane, nil, uct.AccessLocalRead) {
		r.proto = protocolOf[c.rndv.Answer(proto.DataGeneric, p.addr != 0).Lookup(p.n)]
	}
	if r.proto == &rndvPut {
		r.w.stats.RndvPut++
	} else {
		r.w.stats.RndvAM++
	}
	r.run()
}

// stepATP is the last step of a rendezvous put: its data is in place, or on the
// way on the connection of the ATP. The steps before are one write for each
// lane, then one flush for each.
const stepATP = 255

// progressRndvPut writes the part to the receiver's memory, over one lane after
// the other, and sends the ATP behind it. One ATP for all: a 1.13.1 receiver takes
// the first as the end. Lanes whose writes the ATP could overtake are flushed
// first.
func progressRndvPut(r *Request) error {
	c := r.ep.cfg
	shares := c.rndv.PutShares()
	lanes := shares.Lanes()
	for ; int(r.step) < lanes; r.step++ {
		k, _, end := shares.Part(int(r.step), r.part.n)
		l := &c.put[k]
		r.lane = l.lane
		for r.offset < end {
			var n int
			n, r.frag = r.data.gather(r.iovec(), r.part.off+r.offset, min(end-r.offset, l.max))
			r.addHandles(n, l.lane)
			r.comp.Count++
			err := r.ep.remote(l.lane).PutZcopy(r.iov[:n], r.part.addr+uint64(r.offset), nil, &r.comp)
			if err := r.fragmentSent(err); err != nil {
				return err
			}
		}
	}
	if !c.putInOrder && r.step != stepATP {
		for ; int(r.step) < 2*lanes; r.step++ {
			k, _, _ := shares.Part(int(r.step)-lanes, r.part.n)
			r.lane = c.put[k].lane
			r.comp.Count++
			if err := r.ep.lane(r.lane).Flush(uct.FlushRemote, &r.comp); err != ucs.InProgress {
				r.comp.Count--
				if err != nil {
					return err
				}
			}
		}
		r.lane = amLane
		r.comp.Done(nil) // putDone goes on
		return nil
	}
	r.step, r.lane = stepATP, amLane
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvATP), r, 0, nil)
	if err != nil && err != ucs.InProgress {
		return err
	}
	r.comp.Done(nil)
	return nil
}

// putDone is told that all writes, and flushes, are done.
func putDone(r *Request, err error) {
	if err != nil || r.step == stepATP {
		partSent(r, err)
		return
	}
	r.step = stepATP
	r.comp.Count = 1
	r.run()
}

func packATP(r *Request, dst []byte) int {
	return proto.RndvAck{ReqID: r.part.reqID, Size: r.part.n, HasSize: true}.Put(dst)
}

// progressRndvZcopy sends the part in messages from the user's memory. A part
// without bytes takes a message too: 1.13.1 asks for the data of an empty
// message and waits for it.
func progressRndvZcopy(r *Request) error {
	for first := true; first || r.offset < r.part.n; first = false {
		var n int
		n, r.frag = r.data.gather(r.iovec(), r.part.off+r.offset, min(r.part.n-r.offset, r.ep.cfg.maxZcopy-proto.RndvDataSize))
		r.addHandles(n, amLane)
		r.comp.Count++
		err := r.ep.ue.AMZcopy(uct.AMID(proto.IDRndvData), r, r.iov[:n], 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

// progressRndvBcopy sends the part in copied messages, at least one.
func progressRndvBcopy(r *Request) error {
	for first := true; first || r.offset < r.part.n; first = false {
		r.comp.Count++
		_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvData), r, 0, &r.comp)
		accepted := err == nil || err == ucs.InProgress
		if err := r.fragmentSent(err); err != nil {
			if accepted { // the datatype gave up: the receiver must not wait for the rest
				r.ep.sendAbort(r.part.reqID, r.part.n-r.offset)
			}
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

func packRndvHeader(r *Request, dst []byte) int {
	return proto.RndvData{RecvReqID: r.part.reqID, Offset: r.offset}.Put(dst)
}

func packRndvData(r *Request, dst []byte) int {
	n := packRndvHeader(r, dst)
	room := min(len(dst), r.ep.cfg.maxBcopy) - n
	r.frag = r.data.packAt(dst[n:n+min(room, r.part.n-r.offset)], r.part.off+r.offset)
	return n + r.frag
}

// offersData reports whether r is a send that the peer may ask the data of.
func (r *Request) offersData() bool {
	return r != nil && (r.proto == &rndvRTS || r.proto == &rndvPut || r.proto == &rndvZcopy || r.proto == &rndvBcopy)
}

// partSent is told that the transport is done with a part.
func partSent(r *Request, err error) {
	r.arrived += r.part.n
	if err != nil || r.arrived >= r.data.length {
		r.finish(err)
		return
	}
	r.comp.Count = 1
	if len(r.parts) > 0 {
		p := r.parts[0]
		r.parts = r.parts[1:]
		r.sendPart(p)
		return
	}
	if err := r.ep.gone(); err != nil {
		r.finish(err)
		return
	}
	r.proto = &rndvRTS
	r.ep.outstanding.push(r)
}

// onRndvATS is told that the receiver is done with a message of ours: it read
// it, or does not want it.
func (w *Worker) onRndvATS(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseRndvAck(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.ReqID))
	if r == nil || r.proto != &rndvRTS {
		w.stats.Dropped++
		return nil
	}
	r.finish(h.Status.Err())
	return nil
}
