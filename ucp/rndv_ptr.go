package ucp

import (
	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// A rendezvous whose offer has a key for memory that can be mapped here: the data
// is copied straight out of the sender's memory, to wherever it goes, and the
// sender told by an ATS (src/ucp/rndv/rndv_rkey_ptr.c).
//
//	RTS ──► map, once for all messages from that memory
//	        copy a piece … progress … copy a piece
//	   ◄── ATS
//
// Of a long message one piece is copied in a round of progress, so that other
// messages go on.

// rndvPtr copies; rndvTell then lets go of the sender.
type rndvPtr struct{ basics }

func (rndvPtr) about() protocolInfo {
	return protocolInfo{name: "rndv copy from mapped memory", kind: kindRead}
}

// stepTurn is the step of a message that is copied a piece a round.
const stepTurn = 1

// progress copies a message of one piece in the call if it is the only one. Longer
// ones stay at the head of those that take turns: messages are received one after
// the other.
func (rndvPtr) progress(r *Request) error {
	w, f := r.w, r.fetch
	if r.step != stepTurn && (w.copying.head != nil || f.size > w.pieceSize) {
		r.step = stepTurn
		w.copying.push(r)
		return nil
	}
	n := min(w.pieceSize, f.size-r.offset)
	a := f.attached
	src, err := w.mds[a.md].RkeyPtr(a.key, f.source+uint64(r.offset), n)
	var failed error // of the receiver's datatype
	if err == nil {
		failed, err = r.unpackMapped(src)
	}
	r.offset += n
	switch {
	case failed != nil:
		r.ep.sendATS(proto.RequestID(r.peerID), f.size, ucs.OK) // the sender is not to blame
		r.finish(failed)
	case err == nil && r.offset < f.size:
		w.copying.unpop(r)
	default:
		r.detach()
		r.fetched(err)
	}
	return nil
}

// release ends the use of the mapping.
func (rndvPtr) release(r *Request) {
	if r.fetch.attached != nil {
		r.detach()
	}
}

// unpackMapped stores what is at src, memory of the peer, which may take it away
// at any time. failed is the error of a datatype.
func (r *Request) unpackMapped(src []byte) (failed, err error) {
	defer fault.End(fault.Begin(), mapped{}, src, &err)
	return r.data.unpackAt(src, r.offset), nil
}

// mapped is the owner of memory that a sender may take away.
type mapped struct{}

// Fault implements fault.Owner.
func (mapped) Fault(addr uint64, mem []byte) error {
	if !fault.Within(addr, mem) {
		return nil
	}
	return statuserr.Errorf(ucs.ErrConnectionReset, "ucp: the sender has removed its memory: fault at %#x", addr)
}
