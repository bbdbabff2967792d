package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// One-sided operations by messages, at the side that starts them:
//
//	put   PUT, PUT, … ──►  ◄── CMPL, CMPL, …           done when the last has been packed
//	get   GET_REQ ──►      ◄── GET_REP, GET_REP, …     done when all bytes are here

// putMessages writes by PUT messages, getMessages asks for data.
var putMessages, getMessages protocol

func init() {
	putMessages = protocol{name: "put by messages", progress: progressPutMessages, pack: packPut, piece: nextPieces}
	getMessages = protocol{name: "get by messages", progress: progressGetMessages, pack: packGetReq}
}

// progressPutMessages sends what the transport takes, as far as that is not too
// much for one round of progress.
func progressPutMessages(r *Request) error {
	for end := r.offset + copyPiece; r.offset < r.data.length; {
		if r.offset >= end {
			r.later()
			return nil
		}
		if err := sendPut(r, 0); err != nil {
			return err
		}
	}
	r.finish(nil)
	return nil
}

// sendPut sends the piece at the request's offset. The message is a copy: it
// does not matter when it leaves.
func sendPut(r *Request, flags uct.SendFlags) error {
	f := r.ep.flow()
	f.posted++ // before the call: the answer may come inside
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDPut), r, flags, nil)
	if err != nil && err != ucs.InProgress {
		f.posted--
		return err
	}
	if r.frag <= 0 {
		return r.packedNothing(r.offset)
	}
	r.offset += r.frag
	return nil
}

// packPut writes a PUT message with as much as fits.
func packPut(r *Request, dst []byte) int {
	n := proto.Put{
		Address: r.part.addr + uint64(r.offset),
		EpID:    r.ep.remoteID,
		MemType: uint32(r.key.key.MemType),
	}.Put(dst)
	room := min(len(dst), r.ep.cfg.maxBcopy) - n
	r.frag = r.data.packAt(dst[n:n+min(room, r.data.length-r.offset)], r.offset)
	return n + r.frag
}

// startAnswered starts an operation that the peer answers with data.
func (ep *Endpoint) startAnswered(r *Request) (*Request, error) {
	if r.localID = ep.w.requestIDs.Put(r); r.localID == 0 {
		ep.w.dropAccess(r)
		return nil, ucs.ErrNoMemory
	}
	ep.markMessages()
	ep.start(r, true)
	return r.result()
}

// progressGetMessages asks for the data. It may arrive inside the call, so
// nothing is done after it.
func progressGetMessages(r *Request) error {
	return sendAsking(r, proto.IDGetReq)
}

// sendAsking sends a message that is answered with data and waits for that, in
// the endpoint's list of outstanding requests.
func sendAsking(r *Request, id proto.AMID) error {
	if r.list == nil {
		r.ep.outstanding.push(r)
	}
	f := r.ep.flow()
	f.asked++
	_, err := r.ep.ue.AMBcopy(uct.AMID(id), r, 0, nil)
	if err != nil && err != ucs.InProgress {
		f.asked--
		return err
	}
	return nil
}

func packGetReq(r *Request, dst []byte) int {
	return proto.GetReq{
		Address: r.part.addr,
		Length:  r.data.length,
		EpID:    r.ep.remoteID,
		ReqID:   proto.RequestID(r.localID),
		MemType: uint32(r.key.key.MemType),
	}.Put(dst)
}

// onGetRep receives data that was asked for.
func (w *Worker) onGetRep(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, payload, err := proto.ParseGetRep(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.ReqID))
	if r == nil || r.proto != &getMessages {
		w.stats.Dropped++
		return nil
	}
	if h.Offset+len(payload) > r.data.length || !r.ranges.Add(h.Offset, len(payload)) {
		return w.malformed(errGetReply)
	}
	r.data.unpackAt(payload, h.Offset) // does not fail: not a generic datatype
	if r.arrived += len(payload); r.arrived == r.data.length {
		r.ep.finishAnswered(r)
	}
	return nil
}

// finishAnswered ends an operation whose answer is complete.
func (ep *Endpoint) finishAnswered(r *Request) {
	f := ep.flow()
	f.answered++
	r.finish(nil)
	f.advance()
}
