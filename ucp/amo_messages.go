package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Atomic operations by messages: ATOMIC_REQ, answered by a CMPL when no result
// is wanted and by an ATOMIC_REP otherwise.

// sendPost sends an operation without result.
func sendPost(r *Request, flags uct.SendFlags) error {
	f := r.ep.flow()
	f.posted++ // before the call: the answer may come inside
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDAtomicReq), r, flags, nil)
	if err != nil && err != ucs.InProgress {
		f.posted--
		return err
	}
	return nil
}

func packAtomicReq(r *Request, dst []byte) int {
	return proto.AtomicReq{
		Address: r.part.addr,
		EpID:    r.ep.remoteID,
		ReqID:   proto.RequestID(r.localID), // 0 without a result
		Size:    r.amo.size,
		Op:      proto.AtomicOp(r.amo.op),
		Value:   r.amo.value,
		Compare: r.amo.compare,
	}.Put(dst)
}

// onAtomicReq changes a word of ours.
func (w *Worker) onAtomicReq(source *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseAtomicReq(data)
	if err != nil {
		return w.malformed(err)
	}
	if h.ReqID != 0 && w.serving >= maxServing {
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
	r := ep.control(&atomicReply)
	r.peerID = uint64(h.ReqID)
	a := r.atomic()
	a.size = h.Size
	storeWord(a.packed[:h.Size], old)
	w.serve(ep, r, nil)
	return nil
}

// applyAtomic does what a checked request asks for and returns the old value.
func applyAtomic(b []byte, h *proto.AtomicReq) (old uint64) {
	switch {
	case h.Op == proto.AtomicCSwap && h.Size == 4:
		return uint64(word.CompareSwap32(b, uint32(h.Compare), uint32(h.Value)))
	case h.Op == proto.AtomicCSwap:
		return word.CompareSwap64(b, h.Compare, h.Value)
	case h.Size == 4:
		v, _ := word.Do32(b, word.Op(h.Op), uint32(h.Value))
		return uint64(v)
	}
	old, _ = word.Do64(b, word.Op(h.Op), h.Value)
	return old
}

// atomicReply returns the value from before.
var atomicReply protocol

func init() {
	atomicReply = protocol{name: "atomic reply",
		progress: func(r *Request) error {
			err := r.ep.ue.AMShort(uct.AMID(proto.IDAtomicRep), r.peerID, r.amo.packed[:r.amo.size], 0, nil)
			return controlSent(r, err)
		},
	}
}

// onAtomicRep receives the value from before an operation of ours.
func (w *Worker) onAtomicRep(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseAtomicRep(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.ReqID))
	if r == nil || r.proto != &atomicFetch {
		w.stats.Dropped++
		return nil
	}
	if h.Size != r.amo.size {
		return w.malformed(errAtomicReply)
	}
	storeWord(r.data.buf, h.Value)
	r.ep.finishAnswered(r)
	return nil
}
