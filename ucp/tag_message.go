package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// messageKind says how the rest of an unexpected message comes.
type messageKind uint8

const (
	messageEager  messageKind = iota // whole message here
	messageMulti                     // fragments, some here
	messageRndv                      // offered; to be fetched
	messageOrphan                    // fragments whose first one has not arrived
)

// TagMessage is a message that arrived before a receive was posted for it, and that
// Worker.TagTake has taken out. It belongs to its worker's goroutine. After it was received
// or discarded, or its worker closed, Recv gives ucs.ErrInvalidParam.
type TagMessage struct {
	_ noCopy

	w    *Worker
	from *source // which pays for it
	tag  Tag

	kind    messageKind
	sync    bool // the sender waits for the match
	removed bool // in the hands of the user
	seen    bool // has been there
	owned   bool // nobody is charged with it, the user has all of it

	total int    // bytes of the whole message
	data  []byte // messageEager
	desc  *uct.AMDesc

	assembly *assembly // messageMulti

	rndv proto.RndvRTS

	epID  proto.EndpointID // the endpoint of ours that leads to the sender
	reqID proto.RequestID  // the sender's request

	links  [3]messageLinks
	buf    []byte // pooled memory behind data
	inline [inlineBytes]byte
}

// inlineBytes is the longest message kept in the message object itself.
const inlineBytes = 64

// newMessage takes a message object from the worker's free list.
func (ts *tagState) newMessage(from *source, tag Tag, kind messageKind, total int) *TagMessage {
	w := ts.w
	var d *TagMessage
	if n := len(ts.free); n > 0 {
		d = ts.free[n-1]
		ts.free = ts.free[:n-1]
	} else {
		d = &TagMessage{w: w}
	}
	d.from, d.tag, d.kind, d.total = from, tag, kind, total
	from.take(messageSize)
	return d
}

// putMessage takes a message object back with the memory it holds.
func (ts *tagState) putMessage(d *TagMessage) {
	n := messageSize
	if d.desc != nil || d.buf != nil || d.assembly != nil {
		n += ts.dropContents(d)
	}
	if !d.owned {
		d.from.give(n)
	}
	d.from = nil
	d.sync, d.removed = false, false
	if d.seen { // a message that was taken, so that it is never mistaken for the next one
		return
	}
	if len(ts.free) < maxFreeMessages {
		ts.free = append(ts.free, d)
	}
}

// dropContents gives back the memory behind a message that has not all of it in
// itself, and returns how much that was.
func (ts *tagState) dropContents(d *TagMessage) (n int) {
	w := ts.w
	if d.desc != nil {
		n = keeps(d.data, d.desc)
		d.desc.Release()
		d.desc = nil
	}
	if d.buf != nil {
		n += cap(d.buf)
		w.buffers.Put(d.buf)
		d.buf = nil
	}
	d.data, d.assembly = nil, nil
	return n
}

// whole implements assemblyOwner.
func (d *TagMessage) whole() {
	if d.removed {
		d.own()
	}
}

// own takes a message that the user has off its sender's charge: how long it is kept is
// not the sender's doing any more, who would have to give way for it. What is on its
// way of one in fragments is charged until it is all here.
func (d *TagMessage) own() {
	if d.owned {
		return
	}
	n := messageSize
	if d.desc != nil {
		n += keeps(d.data, d.desc)
	}
	if d.buf != nil {
		n += cap(d.buf)
	}
	if a := d.assembly; a != nil {
		if a.got != a.total && a.err == nil {
			return
		}
		a.own()
	}
	d.owned = true
	d.from.give(n)
}

// maxFreeMessages bounds the idle message objects of a worker.
const maxFreeMessages = 4096

// keeps is the memory that keeping data in desc takes.
func keeps(data []byte, desc *uct.AMDesc) int { return max(len(data), desc.Size) }

// maxWaste is how many times its length a message may take that is kept in the
// transport's memory. A copy of a shorter one costs less than so much memory.
const maxWaste = 8

// keep stores the bytes of an eager message: in the transport's memory where it
// lets us keep it and there is not much more of it, in our own otherwise. It
// reports whether desc is kept.
func (d *TagMessage) keep(data []byte, desc *uct.AMDesc) bool {
	if desc != nil && desc.Size <= maxWaste*len(data) {
		d.data, d.desc = data, desc
		d.from.take(keeps(data, desc))
		return true
	}
	if len(data) <= inlineBytes {
		d.data = d.inline[:len(data)]
		copyMessage(d.data, data)
		return false
	}
	d.buf = d.w.buffers.Get(len(data))
	d.from.take(cap(d.buf))
	d.data = d.buf[:cpu.Copy(d.buf[:cap(d.buf)], data)]
	return false
}

// lose implements assemblyOwner. A message in the hands of the user stays, and
// says so when it is received.
func (d *TagMessage) lose(err error) {
	w, a := d.w, d.assembly
	if !d.removed {
		w.tag.discardMessage(d)
		return
	}
	w.eager.forget(a)
	a.dropPieces()
	a.err = err
	d.own()
}

// discardMessage gives up an unexpected message.
func (ts *tagState) discardMessage(d *TagMessage) {
	w := ts.w
	ts.removeUnexpected(d)
	if a := d.assembly; a != nil {
		w.eager.discard(a)
	}
	ts.putMessage(d)
}

// Info returns the sender's tag and the length of the whole message. Both are the sender's
// claims: check the length before you allocate memory, see Worker.TagPeek.
func (d *TagMessage) Info() TagRecvInfo { return TagRecvInfo{SenderTag: d.tag, Length: d.total} }

// release takes a message back from the user.
func (ts *tagState) releaseMessage(d *TagMessage) {
	d.removed = false
	ts.taken.remove(d, arrivalLinks)
}

// dropMessages gives up the messages nobody has received, those that were taken
// too. Some are kept in
// memory of a transport, which must have it back before it is closed.
func (ts *tagState) dropMessages() {
	w := ts.w
	for d := ts.oldest(); d != nil; d = ts.oldest() {
		ts.discardMessage(d)
	}
	for d := ts.detached.head; d != nil; d = ts.detached.head {
		ts.detached.remove(d, arrivalLinks)
		w.eager.discard(d.assembly)
		ts.putMessage(d)
	}
	for d := ts.taken.head; d != nil; d = ts.taken.head {
		ts.releaseMessage(d)
		if a := d.assembly; a != nil {
			w.eager.discard(a)
		}
		ts.putMessage(d)
	}
}

// Messages that have arrived without a receive can be looked at, or taken out and
// received later. A message that was taken belongs to the user, who receives or
// discards it; Worker.Close gives up those that are left.

// TagPeek looks for the message that a receive of tag and mask would get, and describes it.
// It does not progress the worker. The length is that of the whole message, even if parts
// are still to come. Until they have arrived it is the peer's claim, and may be up to 128
// TiB: check it before you allocate memory.
func (w *Worker) TagPeek(tag, mask Tag) (TagRecvInfo, bool) {
	w.owner.acquire()
	var info TagRecvInfo
	d := w.tag.probe(tag, mask)
	if d != nil {
		info = d.Info()
	}
	w.owner.release()
	return info, d != nil
}

// TagTake takes out the message that a receive of tag and mask would get, without progress:
// no receive will match it any more. It must be received or discarded. Its memory is the
// application's until then, and no longer counts for UCX_MAX_UNEXP_BYTES once the message
// is complete.
func (w *Worker) TagTake(tag, mask Tag) (*TagMessage, bool) {
	w.owner.acquire()
	d := w.tag.probe(tag, mask)
	if d != nil {
		w.tag.removeUnexpected(d)
		w.tag.taken.push(d, arrivalLinks)
		d.removed, d.seen = true, true
		d.own()
	}
	w.owner.release()
	return d, d != nil
}

// probe finds the message that a receive would get.
func (ts *tagState) probe(tag, mask Tag) *TagMessage {
	if !ts.on {
		return nil
	}
	return ts.findUnexpected(tag, mask)
}

// Recv receives the message, as Worker.TagRecv does. The message must not be used
// afterwards, unless the parameters were refused or OpForceImmediate gave
// ucs.ErrNoResource: then it is still the caller's.
func (d *TagMessage) Recv(buf []byte, p *RequestParams) (*Request, error) {
	if d.missing() {
		return nil, errMissing("TagMessage.Recv", d == nil)
	}
	w := d.w
	w.owner.acquire()
	r, err := d.recv(buf, p)
	w.owner.release()
	return r, err
}

func startRecv(c *call) (*Request, error) { return c.msg.recv(c.buf, c.p) }

func (d *TagMessage) recv(buf []byte, p *RequestParams) (*Request, error) {
	if !d.removed {
		return nil, errNoMessage
	}
	w := d.w
	r, err := w.tag.useRecv(buf, p)
	if err != nil {
		return nil, err
	}
	if p != nil && p.Flags&OpForceImmediate != 0 && d.kind != messageEager {
		w.pool.dropRequest(r)
		return nil, ucs.ErrNoResource
	}
	r.tag, r.mask = d.tag, FullMask
	w.stats.TagRecvs++
	w.tag.releaseMessage(d)
	w.tag.receive(r, d)
	return r.w.tag.recvResult(r, p)
}

var errNoMessage = fmt.Errorf("ucp: the message was received or discarded before: %w", ucs.ErrInvalidParam)

// Discard drops the message. Its sender sees success. The message must not be used
// afterwards; a second Discard does nothing.
func (d *TagMessage) Discard() {
	if d.missing() {
		return
	}
	w := d.w
	w.owner.acquire()
	if d.removed {
		w.tag.discardTaken(d)
	}
	w.owner.release()
}

// discardTaken gives up a message that was in the hands of the user.
func (ts *tagState) discardTaken(d *TagMessage) {
	w := ts.w
	ts.releaseMessage(d)
	sync, from, epID, reqID := d.sync, d.from, d.epID, d.reqID
	switch d.kind {
	case messageMulti:
		a := d.assembly
		ts.putMessage(d)
		a.dropPieces()
		a.owner, a.discard = nil, true // the rest is only counted
		a.check(w)
	case messageRndv:
		was := w.accounts.offerSource
		w.accounts.offerSource = from
		ts.forgoOffer(&d.rndv)
		w.accounts.offerSource = was
		ts.putMessage(d)
	default:
		ts.putMessage(d)
	}
	if sync {
		ts.sendSyncAck(from, epID, reqID)
	}
}

// forgoOffer lets the sender of a message go on that nobody will fetch.
func (ts *tagState) forgoOffer(h *proto.RndvRTS) {
	w := ts.w
	if ep := w.endpoints.Get(uint64(h.EpID)); ep != nil && ep.err == nil {
		ep.w.rndv.sendATS(ep, h.ReqID, h.Size, ucs.OK)
	}
}
