package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// The eager protocols: the message goes at once, in one packet or several. They
// are filled in by init because their functions refer to them.
var eagerShort, eagerBcopy, eagerZcopy, eagerMultiBcopy, eagerMultiZcopy protocol

func init() {
	eagerShort = protocol{name: "tag eager short", progress: progressShort, completed: sent}
	eagerBcopy = protocol{name: "tag eager copy-in", progress: progressBcopy, completed: sent, pack: packEager}
	eagerZcopy = protocol{name: "tag eager zero-copy", progress: progressZcopy, completed: sent, pack: packEagerHeader}
	eagerMultiBcopy = protocol{name: "tag eager multi copy-in", progress: progressMultiBcopy, completed: sent, pack: packEager}
	eagerMultiZcopy = protocol{name: "tag eager multi zero-copy", progress: progressMultiZcopy, completed: sent, pack: packEagerHeader}
}

// progressShort sends a short message that could not go at once.
func progressShort(r *Request) error {
	err := r.ep.ue.AMShort(uct.AMID(proto.IDEagerOnly), uint64(r.tag), r.data.buf, 0, &r.comp)
	return singleSent(r, err, &r.w.stats.EagerShort)
}

// progressBcopy sends a message in one copied packet.
func progressBcopy(r *Request) error {
	_, err := r.ep.ue.AMBcopy(r.eagerID(), r, 0, &r.comp)
	if (err == nil || err == ucs.InProgress) && r.frag < r.data.length {
		r.comp.Fail(r.packedNothing(r.frag)) // what there was is on its way
	}
	return singleSent(r, err, &r.w.stats.EagerBcopy)
}

// progressZcopy sends a message in one packet from the user's memory.
func progressZcopy(r *Request) error {
	n, _ := r.data.gather(r.iovec(), 0, r.data.length)
	r.addHandles(n, amLane)
	err := r.ep.ue.AMZcopy(r.eagerID(), r, r.iov[:n], 0, &r.comp)
	return singleSent(r, err, &r.w.stats.EagerZcopy)
}

// singleSent turns the result of the one transport call of a protocol into the
// result of its progress.
func singleSent(r *Request, err error, counter *uint64) error {
	if err != nil && err != ucs.InProgress {
		return err
	}
	*counter++
	if err == nil {
		sent(r, r.comp.Err)
	}
	return nil
}

// progressMultiBcopy sends the fragments of a message, copied.
func progressMultiBcopy(r *Request) error {
	for r.offset < r.data.length {
		r.frag = 0
		r.comp.Count++
		_, err := r.ep.ue.AMBcopy(r.eagerID(), r, 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.w.stats.EagerMulti++
	r.comp.Done(nil)
	return nil
}

// progressMultiZcopy sends the fragments of a message from the user's memory.
func progressMultiZcopy(r *Request) error {
	for r.offset < r.data.length {
		var n int
		n, r.frag = r.data.gather(r.iovec(), r.offset, r.ep.cfg.maxZcopy-r.eagerHeaderSize())
		r.addHandles(n, amLane)
		r.comp.Count++
		err := r.ep.ue.AMZcopy(r.eagerID(), r, r.iov[:n], 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.w.stats.EagerMulti++
	r.comp.Done(nil)
	return nil
}

// fragmentSent accounts for one transport call among several. The completion
// was told to count it.
func (r *Request) fragmentSent(err error) error {
	if err != ucs.InProgress {
		r.comp.Count--
	}
	if err != nil && err != ucs.InProgress {
		return err
	}
	if r.frag <= 0 && r.data.length > 0 {
		return r.packedNothing(r.offset)
	}
	r.offset += r.frag
	return nil
}

// packedNothing is the error of a datatype that gives up before the end.
//
//go:noinline
func (r *Request) packedNothing(offset int) error {
	return fmt.Errorf("ucp: the datatype packed nothing at offset %d of %d: %w", offset, r.data.length, ucs.ErrInvalidParam)
}

// sent is told that all bytes of an eager message have left.
func sent(r *Request, err error) {
	if err != nil || r.state&stateSync == 0 {
		r.finish(err)
		return
	}
	if err := r.ep.gone(); err != nil { // inside the call that delivered it
		r.finish(err)
		return
	}
	r.state |= stateSent
	if r.state&stateReply != 0 {
		r.finish(r.err)
		return
	}
	r.ep.outstanding.push(r)
}

// eagerID is the id of the packet about to be sent.
func (r *Request) eagerID() uct.AMID {
	id := proto.IDEagerOnly
	switch {
	case r.single():
		if r.state&stateSync != 0 {
			id = proto.IDEagerSyncOnly
		}
	case r.offset > 0:
		id = proto.IDEagerMiddle
	case r.state&stateSync != 0:
		id = proto.IDEagerSyncFirst
	default:
		id = proto.IDEagerFirst
	}
	return uct.AMID(id)
}

// single reports whether the message goes in one packet.
func (r *Request) single() bool {
	return r.proto != &eagerMultiBcopy && r.proto != &eagerMultiZcopy
}

// eagerHeaderSize is the size of the header packEagerHeader writes.
func (r *Request) eagerHeaderSize() int {
	switch sync := r.state&stateSync != 0; {
	case r.single() && sync:
		return proto.EagerSyncOnlySize
	case r.single():
		return proto.EagerOnlySize
	case r.offset > 0:
		return proto.EagerMiddleSize
	case sync:
		return proto.EagerSyncFirstSize
	default:
		return proto.EagerFirstSize
	}
}

// packEagerHeader writes the header of the packet at the request's offset.
func packEagerHeader(r *Request, dst []byte) int {
	sync := r.state&stateSync != 0
	if r.single() {
		if !sync {
			return proto.EagerOnly{Tag: r.tag}.Put(dst)
		}
		return proto.EagerSyncOnly{Tag: r.tag, EpID: r.ep.remoteID, ReqID: proto.RequestID(r.localID)}.Put(dst)
	}
	if r.offset > 0 {
		return proto.EagerMiddle{MsgID: r.msgID, Offset: r.offset}.Put(dst)
	}
	first := proto.EagerFirst{Tag: r.tag, TotalLen: r.data.length, MsgID: r.msgID}
	if !sync {
		return first.Put(dst)
	}
	return proto.EagerSyncFirst{EagerFirst: first, EpID: r.ep.remoteID, ReqID: proto.RequestID(r.localID)}.Put(dst)
}

// packEager writes header and payload of the packet at the request's offset.
func packEager(r *Request, dst []byte) int {
	n := packEagerHeader(r, dst)
	room := min(len(dst), r.ep.cfg.maxBcopy) - n
	r.frag = r.data.packAt(dst[n:n+min(room, r.data.length-r.offset)], r.offset)
	return n + r.frag
}

// iovec returns the request's scatter-gather list, as long as the transport
// takes them.
func (r *Request) iovec() []uct.IOV {
	if n := r.ep.cfg.maxIOV; len(r.iov) < n {
		r.iov = make([]uct.IOV, n)
	}
	return r.iov
}

// onEagerSyncAck is told that a synchronous message was matched.
func (w *Worker) onEagerSyncAck(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseEagerSyncAck(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.ReqID))
	if r == nil || r.state&stateSync == 0 || r.proto == &rndvRTS {
		w.stats.Dropped++
		return nil
	}
	w.requestIDs.Remove(r.localID)
	r.localID = 0
	r.state |= stateReply
	r.err = h.Status.Err()
	if r.state&stateSent != 0 {
		r.finish(r.err)
	}
	return nil
}
