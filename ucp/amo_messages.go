package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Atomic operations by messages: ATOMIC_REQ, answered by a CMPL when no result
// is wanted and by an ATOMIC_REP otherwise.

// atomicPost asks for an operation without result.
type atomicPost struct{ basics }

func (atomicPost) about() protocolInfo {
	return protocolInfo{name: "atomic by messages", kind: kindMessages, needs: needID | needFence}
}

func (atomicPost) progress(r *Request) error {
	if err := sendPost(r, 0); err != nil {
		return err
	}
	r.finish(nil)
	return nil
}

func (atomicPost) pack(r *Request, dst []byte) int { return packAtomicReq(r, dst) }

// atomicFetch asks for an operation with result.
type atomicFetch struct{ basics }

func (atomicFetch) about() protocolInfo {
	return protocolInfo{name: "fetching atomic by messages", kind: kindFetch, needs: needID | needFence}
}

func (atomicFetch) progress(r *Request) error { return r.ask(proto.IDAtomicReq) }

func (atomicFetch) pack(r *Request, dst []byte) int { return packAtomicReq(r, dst) }

// sendPost sends an operation without result.
func sendPost(r *Request, flags uct.SendFlags) error {
	f := r.ep.flow()
	f.posted++ // before the call: the answer may come inside
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDAtomicReq), r.hooks(), flags, nil)
	if err != nil && err != ucs.InProgress {
		f.posted--
		return err
	}
	return nil
}

func packAtomicReq(r *Request, dst []byte) int {
	a := &r.access.atomic
	return proto.AtomicReq{
		Address: r.access.addr,
		EpID:    r.ep.remoteID,
		ReqID:   proto.RequestID(r.localID), // 0 without a result
		Size:    a.size,
		Op:      a.op,
		Value:   a.value,
		Compare: a.compare,
	}.Put(dst)
}

// onAtomicReq changes a word of ours.
func (w *Worker) onAtomicReq(source *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseAtomicReq(data)
	if err != nil {
		return w.malformed(err)
	}
	from := w.sourceOf(source)
	if h.ReqID != 0 && from.mayNotAsk() {
		return w.malformed(errServing)
	}
	ep, mem, b, err := w.target(source, h.EpID, h.Address, int(h.Size), uct.AccessRemoteAtomic)
	if err != nil {
		return err
	}
	old := applyAtomic(b, &h)
	mem.Release()
	w.stats.Served++
	if h.ReqID == 0 {
		ep.oweCompletion()
		return nil
	}
	r := ep.control(atomicReply{})
	r.peerID = uint64(h.ReqID)
	a := &r.accessing().atomic
	a.size = h.Size
	storeWord(a.packed[:h.Size], old)
	w.serve(from, ep, r, nil)
	return nil
}

// applyAtomic does what a checked request asks for and returns the old value.
func applyAtomic(b []byte, h *proto.AtomicReq) (old uint64) {
	switch {
	case h.Op == uct.AtomicCSwap && h.Size == 4:
		return uint64(word.CompareSwap32(b, uint32(h.Compare), uint32(h.Value)))
	case h.Op == uct.AtomicCSwap:
		return word.CompareSwap64(b, h.Compare, h.Value)
	case h.Size == 4:
		v, _ := h.Op.Do32(b, uint32(h.Value))
		return uint64(v)
	}
	old, _ = h.Op.Do64(b, h.Value)
	return old
}

// atomicReply returns the value from before.
type atomicReply struct{ answer }

func (atomicReply) about() protocolInfo {
	return protocolInfo{name: "atomic reply", kind: kindAnswer, needs: needID}
}

func (atomicReply) progress(r *Request) error {
	a := &r.access.atomic
	err := r.ep.ue.AMShort(uct.AMID(proto.IDAtomicRep), r.peerID, a.packed[:a.size], 0, nil)
	return controlSent(r, err)
}

// onAtomicRep receives the value from before an operation of ours.
func (w *Worker) onAtomicRep(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseAtomicRep(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.ReqID))
	if !r.is(kindFetch) {
		w.stats.Dropped++
		return nil
	}
	if w.foreign(src, r.ep) {
		return nil
	}
	if h.Size != r.access.atomic.size {
		return w.malformed(errAtomicReply)
	}
	storeWord(r.data.buf, h.Value)
	r.answered()
	return nil
}

var errAtomicReply = &proto.FormatError{What: "atomic reply", Reason: "of another size than asked for", Status: ucs.ErrIO}
