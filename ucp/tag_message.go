package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// messageKind says how much of an unexpected message has arrived.
type messageKind uint8

const (
	messageEager  messageKind = iota // the whole message has arrived
	messageMulti                     // in fragments; the first one has arrived, and maybe all
	messageRndv                      // offered; the data is fetched from the sender
	messageOrphan                    // fragments whose first one has not arrived
)

// TagMessage is a message that arrived before a receive was posted for it, and that
// Worker.TagTake has taken out. The message belongs to its worker's goroutine. After the message
// was received or discarded, or its worker closed, Recv gives ucs.ErrInvalidParam.
type TagMessage struct {
	_ noCopy

	w    *Worker
	from *source // the source that is charged with the message, unless owned is set
	tag  Tag

	kind    messageKind
	sync    bool // the sender waits for the match
	removed bool // taken by the application, not yet received or discarded
	seen    bool // was taken by the application: the object is not reused
	owned   bool // the application holds all of the message, and from is not charged

	total int    // bytes of the whole message
	data  []byte // data of a messageEager, or packed key of a messageRndv
	desc  *uct.AMDesc

	assembly *assembly // fragments of a messageMulti

	rndv proto.RndvRTS

	epID  proto.EndpointID // the endpoint of this worker that leads to the sender
	reqID proto.RequestID  // the sender's request

	links  [3]messageLinks
	buf    []byte // pooled memory behind data
	inline [inlineBytes]byte
}

// inlineBytes is the length, in bytes, of the longest message kept in the message object itself.
const inlineBytes = 64

// newMessage takes a message object from the worker's free list, or makes one, and charges its
// source.
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
	from.AddBytes(messageSize)
	return d
}

// putMessage frees a message object and the memory that it holds, and ends the charge for both.
func (ts *tagState) putMessage(d *TagMessage) {
	n := messageSize
	if d.desc != nil || d.buf != nil || d.assembly != nil {
		n += ts.dropContents(d)
	}
	if !d.owned {
		d.from.SubBytes(n)
	}
	d.from = nil
	d.sync, d.removed = false, false
	if d.seen { // the application may still hold d, which must not become another message
		return
	}
	if len(ts.free) < maxFreeMessages {
		ts.free = append(ts.free, d)
	}
}

// dropContents frees the memory behind a message that does not hold all of its data inline. It
// returns the number of bytes of that memory that are charged.
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

// whole implements assemblyOwner: a message that the application has taken is no longer charged.
func (d *TagMessage) whole() {
	if d.removed {
		d.own()
	}
}

// own ends the charge for a message that the application has taken. How long the message is kept is
// then the application's decision, for which the sender must not be evicted. A message in fragments
// stays charged until all fragments have arrived.
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
	d.from.SubBytes(n)
}

// maxFreeMessages bounds the idle message objects of a worker.
const maxFreeMessages = 4096

// keeps returns the number of bytes that are charged while data is kept in desc.
func keeps(data []byte, desc *uct.AMDesc) int { return max(len(data), desc.Size) }

// maxWaste bounds the transport's memory in which a message is kept, as a multiple of the
// message's length. A copy of a shorter message costs less than that much memory.
const maxWaste = 8

// keep stores the bytes of an eager message: in the transport's memory if desc is given and is
// not larger than maxWaste times the data, otherwise in the message object or in pooled memory.
// It reports whether desc is kept.
func (d *TagMessage) keep(data []byte, desc *uct.AMDesc) bool {
	if desc != nil && desc.Size <= maxWaste*len(data) {
		d.data, d.desc = data, desc
		d.from.AddBytes(keeps(data, desc))
		return true
	}
	if len(data) <= inlineBytes {
		d.data = d.inline[:len(data)]
		datatype.Copy(d.data, data)
		return false
	}
	d.buf = d.w.buffers.Get(len(data))
	d.from.AddBytes(cap(d.buf))
	d.data = d.buf[:cpu.Copy(d.buf[:cap(d.buf)], data)]
	return false
}

// lose implements assemblyOwner. A message that the application has taken stays; its receive then
// ends with err.
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

// discardMessage drops an unexpected message.
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

// releaseMessage takes a message back from the application.
func (ts *tagState) releaseMessage(d *TagMessage) {
	d.removed = false
	ts.taken.remove(d, arrivalLinks)
}

// dropMessages drops all messages that were not received, including those that the application
// has taken. Some are kept in memory of a transport, which must have that memory back before it
// is closed.
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

// Messages that have arrived without a receive can be looked at, or taken out and received later.
// A message that was taken belongs to the application, which receives or discards it.
// Worker.Close discards the messages that are left.

// TagPeek looks for the message that a receive of tag and mask would get, and describes it.
// TagPeek does not progress the worker. The length is that of the whole message, even if parts
// are still to come. Until all parts have arrived the length is the peer's claim, and may be up
// to 128 TiB: check it before you allocate memory.
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

// TagTake takes out the message that a receive of tag and mask would get, without progress: no
// receive will match that message any more. The application must receive or discard the message.
// The memory of the message is the application's until then, and no longer counts for
// UCX_MAX_UNEXP_BYTES once the message is complete.
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

// probe returns the message that a receive with tag and mask would get, nil if there is none or
// tagged messages are off.
func (ts *tagState) probe(tag, mask Tag) *TagMessage {
	if !ts.on {
		return nil
	}
	return ts.findUnexpected(tag, mask)
}

// Recv receives the message, as Worker.TagRecv does. The message must not be used afterwards,
// unless the parameters were refused or OpForceImmediate gave ucs.ErrNoResource: then the message
// is still the caller's.
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
	return recvResult(r, p)
}

var errNoMessage = fmt.Errorf("ucp: the message was received or discarded before: %w", ucs.ErrInvalidParam)

// Discard drops the message. The sender sees success. The message must not be used afterwards; a
// second Discard does nothing.
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

// discardTaken drops a message that the application has taken.
func (ts *tagState) discardTaken(d *TagMessage) {
	w := ts.w
	ts.releaseMessage(d)
	sync, from, epID, reqID := d.sync, d.from, d.epID, d.reqID
	switch d.kind {
	case messageMulti:
		a := d.assembly
		ts.putMessage(d)
		a.dropPieces()
		a.owner, a.discard = nil, true // later fragments are only counted
		a.check(w)
	case messageRndv:
		was := w.accounts.rndvSource
		w.accounts.rndvSource = from
		ts.forgoOffer(&d.rndv)
		w.accounts.rndvSource = was
		ts.putMessage(d)
	default:
		ts.putMessage(d)
	}
	if sync {
		ts.sendSyncAck(from, epID, reqID, ucs.OK)
	}
}

// forgoOffer tells the sender of an offer that its request is done, without fetching the data.
func (ts *tagState) forgoOffer(h *proto.RndvRTS) {
	w := ts.w
	if ep := w.endpoints.Get(uint64(h.EpID)); ep != nil && ep.err == nil {
		ep.w.rndv.sendATS(ep, h.ReqID, h.Size, ucs.OK)
	}
}
