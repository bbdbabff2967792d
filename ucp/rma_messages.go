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

// putMessages writes by PUT messages.
type putMessages struct{ basics }

func (putMessages) about() protocolInfo {
	return protocolInfo{name: "put by messages", kind: kindMessages, needs: needID | needFence}
}

// progress sends what the transport takes, as far as that is not too much for one
// round of progress.
func (putMessages) progress(r *Request) error {
	return r.inPieces(func(int) error { return sendPut(r, 0) })
}

// release ends the count of an operation in pieces.
func (putMessages) release(r *Request) { r.unsplit() }

// sendPut sends the piece at the request's offset. The message is a copy: it
// does not matter when it leaves.
func sendPut(r *Request, flags uct.SendFlags) error {
	f := r.ep.flow()
	f.posted++ // before the call: the answer may come inside
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDPut), r.hooks(), flags, nil)
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

// pack writes a PUT message with as much as fits.
func (putMessages) pack(r *Request, dst []byte) int {
	a := r.access
	n := proto.Put{
		Address: a.addr + uint64(r.offset),
		EpID:    r.ep.remoteID,
		MemType: uint32(a.key.key.MemType),
	}.Put(dst)
	return n + r.packFragment(dst, n, r.data.length-r.offset, r.offset)
}

// askedFor gives an operation that the peer answers with data an id for that.
func (r *Request) askedFor() error {
	if r.localID = r.w.requestIDs.Put(r); r.localID == 0 {
		return ucs.ErrNoMemory
	}
	r.ep.markMessages()
	return nil
}

// ask sends a message that is answered with data and waits for that, in the
// endpoint's list of outstanding requests. The data may arrive inside the call, so
// nothing is done after it.
func (r *Request) ask(id proto.AMID) error {
	if r.list == nil {
		r.await()
	}
	f := r.ep.flow()
	f.asked++
	_, err := r.ep.ue.AMBcopy(uct.AMID(id), r.hooks(), 0, nil)
	if err != nil && err != ucs.InProgress {
		f.asked--
		return err
	}
	return nil
}

// answered ends an operation whose answer is complete.
func (r *Request) answered() {
	f := r.ep.flow()
	f.answered++
	r.finish(nil)
	f.advance()
}

// getMessages asks for data.
type getMessages struct{ basics }

func (getMessages) about() protocolInfo {
	return protocolInfo{name: "get by messages", kind: kindGet, needs: needID | needFence}
}

func (getMessages) progress(r *Request) error { return r.ask(proto.IDGetReq) }

func (getMessages) pack(r *Request, dst []byte) int {
	return proto.GetReq{
		Address: r.access.addr,
		Length:  r.data.length,
		EpID:    r.ep.remoteID,
		ReqID:   proto.RequestID(r.localID),
		MemType: uint32(r.access.key.key.MemType),
	}.Put(dst)
}

// onGetRep receives data that was asked for.
func (w *Worker) onGetRep(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, payload, err := proto.ParseGetRep(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.ReqID))
	if !r.is(kindGet) {
		w.stats.Dropped++
		return nil
	}
	if w.foreign(src, r.ep) {
		return nil
	}
	a := r.access
	if h.Offset+len(payload) > r.data.length || !a.ranges.Add(h.Offset, len(payload)) {
		return w.malformed(errGetReply)
	}
	r.data.unpackAt(payload, h.Offset) // does not fail: not a generic datatype
	if a.arrived += len(payload); a.arrived == r.data.length {
		r.answered()
	}
	return nil
}

var errGetReply = &proto.FormatError{What: "get reply", Reason: "not what was asked for", Status: ucs.ErrIO}
