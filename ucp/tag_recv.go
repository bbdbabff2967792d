package ucp

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TagRecv receives the next message whose tag equals tag in the bits of mask: the oldest
// that has arrived, or else the first to arrive. A message longer than buf ends the receive
// with ucs.ErrMessageTruncated; the contents of buf are then undefined, and the sender sees
// success. A shorter message is a success. If the message has already arrived the receive
// may be done in the call.
func (w *Worker) TagRecv(tag, mask Tag, buf []byte, p *RequestParams) (*Request, error) {
	if w == nil || p != nil || mask != FullMask || !w.owner.available() || !w.tag.on || !w.tag.empty() || !w.pool.hasRested() {
		return w.recvTag(tag, mask, buf, p)
	}
	// As postPlain, without a call. Nothing here calls back, so the worker is not marked.
	r := w.pool.takeRested()
	r.state = stateRecv | stateExpect
	r.setLife(lifeInFlight)
	r.data.Buf, r.data.Length = buf, len(buf)
	r.tag, r.mask = tag, FullMask
	w.tag.addExact(r)
	return r, nil
}

// recvTag is TagRecv for all but the shortest way.
//
//go:noinline
func (w *Worker) recvTag(tag, mask Tag, buf []byte, p *RequestParams) (*Request, error) {
	if w.missing() {
		return nil, errMissing("Worker.TagRecv", w == nil)
	}
	free := w.owner.available() // then only what may call back marks the worker
	if !free && !w.owner.tryAcquireSlow() {
		return w.tag.delegateRecv(tag, mask, buf, p)
	}
	if !w.tag.on || p != nil && !p.plainRecv() || w.tag.empty() && w.pool.empty() || w.pool.promised != nil {
		return w.tag.tagRecv(free, tag, mask, buf, p)
	}
	if w.tag.empty() {
		r := w.tag.postPlain(tag, mask, buf, p)
		if !free {
			w.owner.release()
		}
		return r, nil
	}
	d := w.tag.onlyMessage
	if d == nil || (d.tag^tag)&mask != 0 || d.kind != messageEager {
		return w.tag.tagRecv(free, tag, mask, buf, p)
	}
	w.stats.TagRecvs++
	w.tag.onlyMessage = nil
	w.owner.gate |= gateInside // take may acknowledge the message to its sender, which may be this worker
	err := w.tag.take(d, buf, p)
	w.owner.release()
	return nil, err
}

// tagRecv is TagRecv for all cases. free says that the worker is still to be marked.
func (ts *tagState) tagRecv(free bool, tag, mask Tag, buf []byte, p *RequestParams) (*Request, error) {
	ow := &ts.w.owner
	if free {
		ow.acquire()
	}
	r, err := ts.beginTagRecv(tag, mask, buf, p)
	ow.release()
	return r, err
}

// delegateRecv delegates a receive to the goroutine that owns the worker.
func (ts *tagState) delegateRecv(tag, mask Tag, buf []byte, p *RequestParams) (*Request, error) {
	c := ts.w.newCall(startTagRecv).with(p)
	c.tag, c.mask, c.buf, c.state, c.rule = tag, mask, buf, stateRecv, &callTagRecv
	return c.delegate()
}

// take receives a message that has arrived whole, without a request.
func (ts *tagState) take(d *TagMessage, buf []byte, p *RequestParams) (err error) {
	w := ts.w
	if len(d.data) > len(buf) {
		err = ucs.ErrMessageTruncated
		w.stats.Failed++
	} else {
		datatype.Copy(buf, d.data)
		if p != nil && p.TagInfo != nil {
			*p.TagInfo = d.Info()
		}
	}
	if d.sync {
		ts.sendSyncAck(d.from, d.epID, d.reqID, ucs.OK)
	}
	ts.putMessage(d)
	return err
}

// postPlain posts a receive without special parameters that no unexpected message matches.
func (ts *tagState) postPlain(tag, mask Tag, buf []byte, p *RequestParams) *Request {
	w := ts.w
	r := w.pool.takeIdle() // as getRequest, without what is set here
	r.state = stateRecv | stateExpect
	r.setLife(lifeInFlight)
	if p != nil {
		r.state |= stateParams
		r.onTagRecv, r.userData = p.OnTagRecv, p.UserData
	}
	r.data.Buf, r.data.Length = buf, len(buf)
	r.tag, r.mask = tag, mask
	ts.addExpected(r)
	return r
}

func startTagRecv(c *call) (*Request, error) { return c.w.tag.beginTagRecv(c.tag, c.mask, c.buf, c.p) }

func (ts *tagState) beginTagRecv(tag, mask Tag, buf []byte, p *RequestParams) (*Request, error) {
	w := ts.w
	if !ts.on {
		return nil, w.missingFeature("TagRecv", FeatureTag)
	}
	if w.pool.empty() && w.pool.promised == nil {
		w.pool.idle(w.pool.nextRequest()) // before matching: the RequestInit hook may receive, or send a message that matches
	}
	d := ts.findUnexpected(tag, mask)
	switch plain := p == nil || p.plainRecv(); {
	case !plain:
	case d == nil && !w.pool.empty() && w.pool.promised == nil:
		return ts.postPlain(tag, mask, buf, p), nil
	case d != nil && d.kind == messageEager:
		w.stats.TagRecvs++
		ts.removeUnexpected(d)
		return nil, ts.take(d, buf, p)
	}
	return ts.describeTagRecv(tag, mask, buf, p, d)
}

func (ts *tagState) describeTagRecv(tag, mask Tag, buf []byte, p *RequestParams, d *TagMessage) (*Request, error) {
	w := ts.w
	r, err := ts.useRecv(buf, p)
	if err != nil {
		return nil, err
	}
	r.tag, r.mask = tag, mask
	if p != nil && p.Flags&OpForceImmediate != 0 && (d == nil || d.kind != messageEager) {
		w.pool.dropRequest(r)
		return nil, ucs.ErrNoResource
	}
	if d == nil {
		ts.addExpected(r)
		r.state &^= stateInCall
		return r, nil
	}
	w.stats.TagRecvs++
	ts.removeUnexpected(d)
	ts.receive(r, d)
	return recvResult(r, p)
}

// cancelPosted cancels a receive that no message has matched, or a receive of a stream.
func (ts *tagState) cancelPosted(r *Request) {
	switch {
	case r.state&stateDone != 0:
	case r.state&stateStream != 0:
		r.ep.stream.cancel(r)
	case r.state&stateExpect != 0:
		ts.removeExpected(r)
		r.finish(ucs.ErrCanceled)
	}
}

// cancelReceives cancels all posted receives.
func (ts *tagState) cancelReceives() {
	for i := range ts.exact {
		for q := &ts.exact[i]; !q.Empty(); {
			ts.cancelPosted(q.Front().Value)
		}
	}
	for !ts.wild.Empty() {
		ts.cancelPosted(ts.wild.Front().Value)
	}
}

// useRecv checks the parameters of a receive and makes its request.
func (ts *tagState) useRecv(buf []byte, p *RequestParams) (*Request, error) {
	w := ts.w
	if !ts.on {
		return nil, w.missingFeature("TagRecv", FeatureTag)
	}
	if err := callTagRecv.check(buf, p); err != nil {
		return nil, err
	}
	r, err := w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	r.state |= stateRecv
	if p == nil || !p.Buffer.set {
		r.data.SetBytes(buf)
		return r, nil
	}
	if err := r.setBuffer(&p.Buffer, false); err != nil {
		w.pool.dropRequest(r)
		return nil, err
	}
	return r, nil
}

// recvResult is result for receives. It also fills in TagInfo if the receive has finished in the
// call with success.
func recvResult(r *Request, p *RequestParams) (*Request, error) {
	info := r.info
	req, err := r.result()
	if req == nil && err == nil && p != nil && p.TagInfo != nil {
		*p.TagInfo = info
	}
	return req, err
}

// receive passes an unexpected message to a receive.
func (ts *tagState) receive(r *Request, d *TagMessage) {
	w := ts.w
	sync, from, epID, reqID := d.sync, d.from, d.epID, d.reqID
	switch d.kind {
	case messageEager:
		ts.deliver(r, d.tag, d.data)
		ts.putMessage(d)
	case messageMulti:
		a := d.assembly
		r.info = TagRecvInfo{SenderTag: d.tag, Length: d.total}
		ts.putMessage(d)
		a.attach(r)
		a.check(w)
	case messageRndv:
		rts := d.rndv
		w.rndv.key = append(w.rndv.key[:0], d.data...)
		ts.putMessage(d)
		was := w.accounts.rndvSource
		w.accounts.rndvSource = from
		ts.fetchTagged(r, &rts, w.rndv.key)
		w.accounts.rndvSource = was
		return
	}
	if sync {
		ts.sendSyncAck(from, epID, reqID, ucs.OK)
	}
}

// deliver completes a receive with a whole message.
func (ts *tagState) deliver(r *Request, tag Tag, data []byte) {
	r.info = TagRecvInfo{SenderTag: tag, Length: len(data)}
	switch {
	case len(data) > r.data.Length:
		r.finish(ucs.ErrMessageTruncated)
	case r.data.Class != datatype.Contig:
		r.finish(unpackData(r, data, 0))
	default: // the same as finish, for a contiguous receive
		datatype.Copy(r.data.Buf, data)
		r.data.Buf = nil
		r.state |= stateDone | stateWhole
		if r.onTagRecv != nil || r.state&(stateFreed|stateWatched|stateUser) != 0 {
			ts.delivered(r)
		} else {
			r.setOver()
		}
	}
}

// delivered ends a receive for deliver. It is deliverResult with a short path for receives that
// have nothing but a callback.
func (ts *tagState) delivered(r *Request) {
	fn := r.onTagRecv
	if fn == nil || r.state&(stateInCall|stateFreed|stateWatched|stateUser) != 0 {
		r.deliverResult(nil)
		return
	}
	r.onTagRecv = nil
	r.setOver()
	r.w.callRecv(fn, r, nil, r.info, r.userData)
}

// onEagerOnly returns the handler of messages in one packet. The commonest of them, those that the first
// receive in their bucket gets, and whose request waits for nothing else, it delivers itself, the others
// are for onEagerOnlyRest. The handler is a function literal, not a method, because a call of a method
// value costs a second call. onEagerOnly is not inlined, because in an inlined copy of the literal the
// compiler would inline nothing.
//
//go:noinline
func (ts *tagState) onEagerOnly() uct.AMHandler {
	return func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		if len(data) < proto.EagerOnlySize {
			return ts.onEagerOnlyRest(src, data, desc)
		}
		tag := Tag(binary.LittleEndian.Uint64(data))
		r := ts.matchFirst(tag)
		if r == nil {
			return ts.onEagerOnlyRest(src, data, desc)
		}
		payload := data[proto.EagerOnlySize:]
		if len(payload) > r.data.Length || r.data.Class != datatype.Contig || r.onTagRecv != nil || r.state&(stateFreed|stateWatched|stateUser) != 0 {
			ts.deliver(r, tag, payload)
			return nil
		}
		r.info = TagRecvInfo{SenderTag: tag, Length: len(payload)} // as deliver, without a call
		datatype.Copy(r.data.Buf, payload)
		r.data.Buf = nil
		r.state |= stateDone | stateWhole
		r.setOver()
		return nil
	}
}

// onEagerOnlyRest receives the messages in one packet that onEagerOnly does not deliver.
//
//go:noinline
func (ts *tagState) onEagerOnlyRest(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	h, payload, err := proto.ParseEagerOnly(data)
	if err != nil {
		return ts.w.logMalformed(err)
	}
	if r := ts.searchExpected(Tag(h.Tag)); r != nil {
		ts.deliver(r, Tag(h.Tag), payload)
		return nil
	}
	_, err = ts.keepMessage(ts.w.accounts.sourceOf(src), Tag(h.Tag), payload, desc)
	return err
}

// onEagerSyncOnly receives a message in one packet whose sender waits for the match.
func (ts *tagState) onEagerSyncOnly(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	w := ts.w
	h, payload, err := proto.ParseEagerSyncOnly(data)
	if err != nil {
		return w.logMalformed(err)
	}
	from := w.accounts.sourceOf(src)
	if r := ts.matchExpected(Tag(h.Tag)); r != nil {
		ts.deliver(r, Tag(h.Tag), payload) // the callback may end the connection
		ts.sendSyncAck(from, h.EpID, h.ReqID, ucs.OK)
		return nil
	}
	d, err := ts.keepMessage(from, Tag(h.Tag), payload, desc)
	if d != nil {
		d.sync, d.epID, d.reqID = true, h.EpID, h.ReqID
	} else {
		ts.refuseSync(src, h.EpID, h.ReqID, err)
	}
	return err
}

// keepMessage stores a whole message until it is received. The error is the result of the
// transport's handler: ucs.InProgress if desc is kept.
func (ts *tagState) keepMessage(from *source, tag Tag, payload []byte, desc *uct.AMDesc) (*TagMessage, error) {
	w := ts.w
	if err := from.Charge(messageSize + len(payload)); err != nil {
		return nil, err
	}
	w.stats.Unexpected++
	if n := len(ts.free); n > 0 && desc == nil && len(payload) <= inlineBytes { // as newMessage, keep and addUnexpected, without calls
		d := ts.free[n-1]
		ts.free = ts.free[:n-1]
		d.from, d.tag, d.kind, d.total = from, tag, messageEager, len(payload)
		d.data = d.inline[:len(payload)]
		datatype.Copy(d.data, payload)
		from.AddBytes(messageSize)
		if ts.empty() {
			ts.onlyMessage = d
		} else {
			ts.addUnexpected(d)
		}
		return d, nil
	}
	d := ts.newMessage(from, tag, messageEager, len(payload))
	kept := d.keep(payload, desc)
	ts.addUnexpected(d)
	if kept {
		return d, ucs.InProgress
	}
	return d, nil
}

// onEagerFirst receives the first fragment of a message.
func (ts *tagState) onEagerFirst(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	w := ts.w
	h, payload, err := proto.ParseEagerFirst(data)
	if err != nil {
		return w.logMalformed(err)
	}
	_, err = w.eager.receive(src, taggedKey(h.MsgID), h.TotalLen, len(payload), func() error {
		_, err := ts.firstFragment(w.accounts.sourceOf(src), &h, payload, desc)
		return err
	})
	return err
}

// onEagerSyncFirst receives the first fragment of a message whose sender waits for the match.
func (ts *tagState) onEagerSyncFirst(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	w := ts.w
	h, payload, err := proto.ParseEagerSyncFirst(data)
	if err != nil {
		return w.logMalformed(err)
	}
	dropped, err := w.eager.receive(src, taggedKey(h.MsgID), h.TotalLen, len(payload), func() error {
		from := w.accounts.sourceOf(src)
		d, err := ts.firstFragment(from, &h.EagerFirst, payload, desc)
		switch {
		case d != nil:
			d.sync, d.epID, d.reqID = true, h.EpID, h.ReqID
		case err == nil:
			ts.sendSyncAck(from, h.EpID, h.ReqID, ucs.OK)
		default:
			ts.refuseSync(src, h.EpID, h.ReqID, err)
		}
		return err
	})
	if dropped {
		ts.refuseSync(src, h.EpID, h.ReqID, ucs.ErrExceedsLimit)
	}
	return err
}

// firstFragment matches a message in fragments. It returns the unexpected message, nil if a
// receive has matched, and the result of the transport's handler.
func (ts *tagState) firstFragment(from *source, h *proto.EagerFirst, payload []byte, desc *uct.AMDesc) (*TagMessage, error) {
	w := ts.w
	a := w.eager.assemblies[taggedKey(h.MsgID)]
	if a != nil && (a.total >= 0 || !a.setTotal(h.TotalLen)) {
		return nil, w.logMalformed(ucs.ErrIO)
	}
	if a == nil && len(payload) == h.TotalLen { // a message in one fragment
		if r := ts.matchExpected(Tag(h.Tag)); r != nil {
			ts.deliver(r, Tag(h.Tag), payload)
			return nil, nil
		}
		return ts.keepMessage(from, Tag(h.Tag), payload, desc)
	}
	created := a == nil
	if created {
		var err error
		if a, err = w.eager.newAssembly(from, taggedKey(h.MsgID), h.TotalLen); err != nil {
			return nil, err
		}
	}
	if r := ts.matchExpected(Tag(h.Tag)); r != nil {
		r.info = TagRecvInfo{SenderTag: Tag(h.Tag), Length: h.TotalLen}
		a.attach(r)
		return nil, a.add(from, 0, payload)
	}
	if err := from.Charge(messageSize + len(payload)); err != nil {
		if created { // a message without its beginning would never be complete
			w.eager.forget(a)
			w.eager.putAssembly(a)
		}
		return nil, err
	}
	if a.discard { // given up by charge to make room
		return nil, ucs.ErrExceedsLimit
	}
	w.stats.Unexpected++
	d := ts.newMessage(from, Tag(h.Tag), messageMulti, h.TotalLen)
	d.assembly, a.owner = a, d
	ts.addUnexpected(d)
	return d, a.add(from, 0, payload)
}

// onEagerMiddle receives a later fragment of a message.
func (ts *tagState) onEagerMiddle(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := ts.w
	h, payload, err := proto.ParseEagerMiddle(data)
	if err != nil {
		return w.logMalformed(err)
	}
	key := taggedKey(h.MsgID)
	_, err = w.eager.receive(src, key, -1, len(payload), func() error {
		return ts.laterFragment(w.accounts.sourceOf(src), key, h.Offset, payload)
	})
	return err
}

// laterFragment adds a fragment to its message.
func (ts *tagState) laterFragment(from *source, key assemblyKey, offset int, payload []byte) (err error) {
	w := ts.w
	a := w.eager.assemblies[key]
	created := a == nil
	if created {
		if a, err = w.eager.newAssembly(from, key, -1); err != nil {
			return err
		}
	}
	err = a.add(from, offset, payload)
	if err != nil && created {
		w.eager.forget(a)
	}
	return err
}

// The cancellation of a receive that a message in fragments has matched, while some of the
// fragments are missing. The message is detached from the receive. What has arrived is copied out
// of the receive's buffer into memory of the worker, which is charged to the connection that
// began the message, and the receive ends with ucs.ErrCanceled. Further fragments are
// added as they arrive. When the message is whole it is matched again, as if it had arrived at
// that moment: it goes to the oldest posted receive that takes its tag, or to the end of the
// unexpected queue.
//
//	posted ──► matched ──► done
//	   │          │  Cancel
//	   │          └──► detached ──► whole ──► matched, or unexpected
//	   └──► canceled         └──► lost with its connection
//
// The fragments that a sender sends over one lane arrive in order. So no later message of that
// lane arrives before the detached message is whole, and the order of the sender's messages is
// kept. Until then no receive can match the detached message. A message that will never be whole,
// because its sender has died, therefore does not keep a receive from later messages with the
// same tag.
//
// A detached message is not acknowledged a second time to a sender that waits for the match.

// Cancel requests the end of an operation. The operation either completes or ends with
// ucs.ErrCanceled, and the callback of the operation runs. No message is lost: either this
// receive gets it, or a later one.
//
// A tagged receive that no message has matched is canceled in the call, as in C UCX. So is a
// receive that has matched a message of several packets of which some are still to come: the data
// that has arrived is moved out of the receive's buffer, and when the message is complete it goes
// to another receive, as if the message had arrived then. The sender does not notice.
//
// A receive goes on, and ends with the message or with the endpoint, in these cases: its
// message is fetched from the sender (rendezvous), so that the peer or a device may be
// writing to the buffer; its datatype is generic; or the worker may keep no memory for its
// message (UCX_MAX_UNEXP_BYTES). A stream receive can always be canceled: the bytes
// received by then are in the buffer, Request.RecvLength gives their number, and the rest
// goes to the next receive. All other requests go on; they end at the latest with their
// endpoint.
func (w *Worker) Cancel(r *Request) {
	if r != nil {
		r.checkLive()
	}
	w.owner.acquire()
	w.tag.cancel(r)
	w.owner.release()
}

func (ts *tagState) cancel(r *Request) {
	w := ts.w
	if r != nil && r.w == w && r.state&(stateDone|stateNext) == stateNext {
		r.finish(ucs.ErrCanceled)
		return
	}
	if r == nil || r.w != w || r.state&(stateDone|stateRecv) != stateRecv {
		return
	}
	switch {
	case r.state&stateDelegated != 0:
		r.state |= stateUnwanted
	case r.state&(stateExpect|stateStream) == 0:
		ts.cancelMatched(r)
	default:
		ts.cancelPosted(r)
	}
}

// cancelMatched cancels the receive of a message in fragments of which some are missing, by
// detaching the message. A receive of another message is left alone, because the peer or a device
// may be writing data to its buffer.
func (ts *tagState) cancelMatched(r *Request) {
	w := ts.w
	a := w.eager.assemblies[taggedKey(r.msgID)]
	switch {
	case a == nil || a.req != r:
	case ts.detach(a):
		r.finish(ucs.ErrCanceled)
	case a.node.In(&w.accounts.unnamed.fragments) && !w.eager.hasSenders(): // no fragment will arrive any more
		w.eager.orphanMessages(&w.accounts.unnamed.fragments)
	}
}

// detach detaches the message from its receive, and reports whether it did. It does not if what
// has arrived cannot be read back, as from a generic datatype, or if the account has no room for
// the copy: nothing is evicted for a cancellation.
func (ts *tagState) detach(a *assembly) bool {
	w := ts.w
	r, from := a.req, a.charged
	if r.data.Class == datatype.Generic || !from.TryCharge(messageSize+a.got) {
		return false
	}
	d := ts.newMessage(from, r.info.SenderTag, messageMulti, a.total)
	d.assembly = a
	ts.detached.push(d, arrivalLinks)
	a.ranges.Each(func(off, n int) bool {
		b := w.buffers.Get(n)
		b = b[:n]
		packData(r, b, off)
		a.pieces = append(a.pieces, piece{off: off, buf: b, from: from})
		from.AddBytes(cap(b))
		return true
	})
	a.req, a.owner = nil, (*detachedMessage)(d)
	return true
}

// detachedMessage is a message that was detached from its receive and is not whole.
type detachedMessage TagMessage

var _ assemblyOwner = (*detachedMessage)(nil)

// message removes the message from the detached list and returns it as a TagMessage in no list.
func (d *detachedMessage) message() *TagMessage {
	d.w.tag.detached.remove((*TagMessage)(d), arrivalLinks)
	return (*TagMessage)(d)
}

// whole implements assemblyOwner: the message is matched again.
func (d *detachedMessage) whole() {
	w, m := d.w, d.message()
	m.assembly.owner = m
	if r := w.tag.matchExpected(m.tag); r != nil {
		w.tag.receive(r, m)
		return
	}
	w.stats.Unexpected++
	w.tag.addUnexpected(m)
}

// lose implements assemblyOwner: the message is dropped.
func (d *detachedMessage) lose(error) {
	w, m := d.w, d.message()
	w.eager.discard(m.assembly)
	w.tag.putMessage(m)
}
