package ucp

import (
	"fmt"
	"runtime"
	"runtime/debug"

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

// rndvPtr copies; rndvGetATS then lets go of the sender.
var rndvPtr protocol

func init() {
	rndvPtr = protocol{name: "tag rndv copy from mapped memory", progress: progressRndvPtr, piece: (*Request).copyPiece}
}

// progressRndvPtr copies a message of one piece in the call if it is the only one.
func progressRndvPtr(r *Request) error {
	if w := r.w; w.copying.head != nil || r.part.n > w.pieceSize {
		w.copying.push(r)
		return nil
	}
	r.copyPiece()
	return nil
}

// copyPiece copies the next piece of a message, and ends the copying behind the
// last.
func (r *Request) copyPiece() {
	n := min(r.w.pieceSize, r.part.n-r.offset)
	a := r.attached
	src, err := r.w.mds[a.md].RkeyPtr(a.key, r.part.addr+uint64(r.offset), n)
	var failed error // of the receiver's datatype
	if err == nil {
		failed, err = r.unpackMapped(src)
	}
	r.offset += n
	if err == nil && failed == nil && r.offset < r.part.n {
		return
	}
	if r.list != nil {
		r.list.remove(r)
	}
	if failed != nil {
		r.ep.sendATS(proto.RequestID(r.peerID), r.part.n, ucs.OK) // the sender is not to blame
		r.finish(failed)
		return
	}
	r.detach()
	getDone(r, err)
}

// unpackMapped stores what is at src, memory of the peer, which may take it away
// at any time. failed is the error of a datatype.
func (r *Request) unpackMapped(src []byte) (failed, err error) {
	defer recoverFault(debug.SetPanicOnFault(true), src, &err)
	return r.data.unpackAt(src, r.offset), nil
}

// recoverFault ends a call that may have met a fault in mem. Any other panic goes
// on.
func recoverFault(old bool, mem []byte, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	f, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok || uint64(f.Addr())-memoryAddress(mem) >= uint64(len(mem)) {
		panic(r)
	}
	*err = fmt.Errorf("ucp: the sender has taken its memory away: fault at %#x: %w", f.Addr(), ucs.ErrConnectionReset)
}
