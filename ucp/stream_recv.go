package ucp

import (
	"context"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// StreamRecvFlags modify a stream receive (enum ucp_stream_recv_flags_t).
type StreamRecvFlags uint32

// StreamRecvWaitAll ends a receive only when its buffer is full.
const StreamRecvWaitAll StreamRecvFlags = 1 << 0

// callStreamRecv lists the flags and parameters that a stream receive takes.
var callStreamRecv = callRule{"a stream receive", accessFlags, paramBuffer | paramOnStreamRecv | paramMemoryType | paramStreamFlags}

// StreamRecv takes bytes of the peer's stream: as many as have arrived and fit, at least one, or
// with StreamRecvWaitAll as many as fit. Receives of an endpoint are filled in the order in which
// they were started. n is the number of bytes if the receive was done in the call, which is the
// case if there is neither a request nor an error; otherwise Request.RecvLength and OnStreamRecv
// give that number. A receive into an empty buffer is done in the call.
//
// With Elements, a receive without StreamRecvWaitAll takes whole elements only; a partial
// element stays in the stream. If a datatype fails to unpack, the receive ends with its
// error, and the bytes that the datatype was given are lost.
//
// When the endpoint fails, bytes that had arrived can still be read. Receives that these
// bytes do not complete end with the error; Request.RecvLength tells how many bytes are in
// their buffers, and the rest stays in the stream. Closing the endpoint discards unread
// bytes and cancels the receives at once, however long the close takes.
func (ep *Endpoint) StreamRecv(buf []byte, p *RequestParams) (n int, r *Request, err error) {
	if ep.missing() || !ep.w.owner.available() {
		return recvStream(ep, buf, p)
	}
	w, s := ep.w, ep.stream
	if s == nil || !s.chunks.Empty() || s.feeding || len(buf) == 0 || p != nil && !p.onlyStreamFlags() ||
		!w.stream.on || ep.err != nil || !ep.life.Usable() || !w.pool.hasRested() {
		return recvStream(ep, buf, p)
	}
	// As describeStreamRecv, for a receive that has nothing to receive yet. Nothing here calls back, so the
	// worker is not marked.
	r = w.pool.takeRested()
	r.state = stateRecv | stateStream | stateUncounted
	if p != nil && p.StreamFlags != 0 {
		r.state |= stateFull
	}
	r.setLife(lifeInFlight)
	r.ep, r.offset, r.frag, r.info = ep, 0, 1, TagRecvInfo{}
	r.data.Buf, r.data.Length = buf, len(buf)
	s.recvs.Push(&r.node)
	w.stats.StreamRecvs++
	return 0, r, nil
}

// recvStream is StreamRecv for all but the shortest way.
//
//go:noinline
func recvStream(ep *Endpoint, buf []byte, p *RequestParams) (n int, r *Request, err error) {
	if ep.missing() {
		return 0, nil, errMissing("Endpoint.StreamRecv", ep == nil)
	}
	w := ep.w
	if !w.owner.tryAcquire() {
		return w.stream.delegateRecv(ep, buf, p)
	}
	n, r, err = ep.beginStreamRecv(buf, p)
	w.owner.release()
	return n, r, err
}

// onlyStreamFlags reports whether p has nothing but valid stream flags.
func (p *RequestParams) onlyStreamFlags() bool {
	return p.Flags == 0 && p.StreamFlags&^StreamRecvWaitAll == 0 && !p.Buffer.set && p.OnStreamRecv == nil && p.Request == nil &&
		p.OnSend == nil && p.OnTagRecv == nil && p.OnAMRecv == nil && p.TagInfo == nil && p.RecvLength == nil && p.AMFlags == 0 &&
		p.MemoryType <= ucs.MemoryHost && p.Memory == nil && p.ReplyBuffer == nil && p.CloseFlags == 0
}

// plainStreamRecv is plainRecv for stream receives: p has nothing that matters if the receive
// finishes in the call.
func (p *RequestParams) plainStreamRecv() bool {
	return p.Flags&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost && p.StreamFlags == 0 &&
		p.given()&^callStreamRecv.takes == 0
}

// delegateRecv delegates a receive to the goroutine that owns the worker.
func (ss *streamState) delegateRecv(ep *Endpoint, buf []byte, p *RequestParams) (n int, r *Request, err error) {
	c := ep.w.newCall(startStreamRecv).with(p)
	c.ep, c.buf, c.state, c.rule = ep, buf, stateRecv|stateStream, &callStreamRecv
	r, left, err := c.tryDelegate()
	if !left {
		n = c.info.Length
		c.drop()
	}
	return n, r, err
}

func startStreamRecv(c *call) (r *Request, err error) {
	c.info.Length, r, err = c.ep.beginStreamRecv(c.buf, c.p)
	return r, err
}

func (ep *Endpoint) beginStreamRecv(buf []byte, p *RequestParams) (int, *Request, error) {
	w := ep.w
	if !w.stream.on {
		return 0, nil, w.missingFeature("StreamRecv", FeatureStream)
	}
	s := ep.stream
	if s == nil || s.chunks.Empty() || !s.recvs.Empty() || s.feeding || len(buf) == 0 || p != nil && !p.plainStreamRecv() {
		return w.stream.describeStreamRecv(ep, buf, p)
	}
	w.stats.StreamRecvs++
	n := 0
	for n < len(buf) && !s.chunks.Empty() {
		k := cpu.Copy(buf[n:], s.chunks.Front().Value.data)
		s.take(k)
		n += k
	}
	if s.chunks.Empty() {
		s.relist()
	}
	return n, nil, nil
}

func (ss *streamState) describeStreamRecv(ep *Endpoint, buf []byte, p *RequestParams) (int, *Request, error) {
	w := ep.w
	if err := callStreamRecv.check(buf, p); err != nil {
		return 0, nil, err
	}
	if ep.life.Refuses() {
		return 0, nil, ucs.ErrNotConnected
	}
	r, err := w.pool.useRequest(p)
	if err != nil {
		return 0, nil, err
	}
	r.state |= stateRecv | stateStream | stateUncounted
	r.ep, r.offset, r.frag, r.info = ep, 0, 1, TagRecvInfo{}
	if p == nil {
		p = &noParams
	}
	if r.data.SetBytes(buf); p.Buffer.set {
		if err = r.setBuffer(&p.Buffer, false); err == nil && r.data.Class == datatype.Contig {
			r.frag = p.Buffer.elem
		}
	}
	if p.StreamFlags&StreamRecvWaitAll != 0 {
		r.state |= stateFull
	}
	s := ss.streaming(ep)
	switch {
	case err != nil:
	case s.suffices(r):
	case ep.life.Stage == life.Gone:
		err = ucs.ErrNotConnected // a datatype has closed the endpoint
	case ep.err != nil:
		err = ep.err
	case p.Flags&OpForceImmediate != 0:
		err = ucs.ErrNoResource
	}
	if err != nil {
		w.pool.dropRequest(r)
		return 0, nil, err
	}
	w.stats.StreamRecvs++
	if r.data.Length == 0 {
		r.finish(nil)
	} else {
		s.recvs.Push(&r.node)
		s.feed()
		s.deliverEnded()
	}
	n := r.info.Length
	r, err = r.result()
	if r != nil || err != nil {
		n = 0
	}
	return n, r, err
}

// suffices reports whether the unread bytes complete a new receive.
func (s *stream) suffices(r *Request) bool {
	switch {
	case r.data.Length == 0:
		return true
	case !s.recvs.Empty() || s.feeding:
		return false
	case r.state&stateFull != 0:
		return s.unread >= r.data.Length
	}
	return portion(r, s.unread) > 0
}

// portion returns how many of n bytes a receive takes now.
func portion(r *Request, n int) int {
	n = min(n, r.data.Length-r.offset)
	if r.frag > 1 && r.state&stateFull == 0 {
		n -= n % r.frag
	}
	return n
}

// got adds n bytes, at least one, to what a receive has received. It reports whether the receive
// is complete.
func (ss *streamState) got(r *Request, n int) bool {
	r.offset += n
	r.info.Length = r.offset
	return r.state&stateFull == 0 || r.offset == r.data.Length
}

// feed fills the posted receives from the unread bytes. Completed receives go to the list ended.
// The method deliverEnded runs their callbacks later, when the stream is in a consistent state.
func (s *stream) feed() {
	if s.feeding {
		return // called from inside a datatype
	}
	s.feeding = true
	for !s.chunks.Empty() && !s.recvs.Empty() {
		r := s.recvs.Front().Value
		if r.data.Class == datatype.Generic {
			s.unpack(r)
			continue
		}
		n := portion(r, s.unread)
		if n == 0 {
			break
		}
		for left := n; left > 0; {
			data := s.chunks.Front().Value.data
			k := min(left, len(data))
			_ = unpackData(r, data[:k], r.offset+n-left) // only generic datatypes fail
			s.take(k)
			left -= k
		}
		if r.w.stream.got(r, n) {
			r.node.Remove()
			s.ended.Push(&r.node)
		}
	}
	s.feeding = false
	s.relist()
}

// unpack passes a chunk to a datatype. The datatype may call the library, so meanwhile neither
// the chunk nor the receive is in a queue.
func (s *stream) unpack(r *Request) {
	w := s.ep.w
	borrowed := s.borrowed
	c := s.pop()
	n := portion(r, len(c.data))
	r.node.Remove()
	err := unpackData(r, c.data[:n], r.offset)
	gone := s.ep.gone()
	if gone == nil && s.ep.life.Refuses() {
		gone = ucs.ErrCanceled // the datatype has closed the endpoint
	}
	c.data = c.data[n:]
	if len(c.data) == 0 || s.ep.life.Refuses() {
		w.stream.putChunk(c)
	} else { // the rest is no longer charged, see pop
		s.unpop(c)
		s.borrowed = borrowed
	}
	switch {
	case err != nil:
		r.err = err
		s.ended.Push(&r.node)
	case r.w.stream.got(r, n):
		s.ended.Push(&r.node)
	case gone != nil:
		r.err = gone
		s.ended.Push(&r.node)
	default:
		s.recvs.PushFront(&r.node)
	}
}

// deliverEnded finishes the completed receives, and runs their callbacks.
func (s *stream) deliverEnded() {
	for !s.ended.Empty() {
		r := s.ended.Pop()
		r.finish(r.err)
	}
}

// cancel cancels a posted receive. The bytes that it has received stay in its buffer.
func (s *stream) cancel(r *Request) {
	if !r.node.In(&s.recvs) {
		return // the receive is complete, or is being filled
	}
	r.node.Remove()
	r.err = ucs.ErrCanceled
	s.ended.Push(&r.node)
	s.feed() // the unread bytes may be less than an element of r, but enough for the others
	s.deliverEnded()
}

// StreamSendWait sends buf as StreamSend does and waits until it may be reused. If ctx ends
// first, StreamSendWait behaves as TagSendWait does; if part of buf has been sent, all of it is
// appended to the stream.
func (ep *Endpoint) StreamSendWait(ctx context.Context, buf []byte) error {
	if ep.missing() {
		return errMissing("Endpoint.StreamSendWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startStreamSend)
	if err != nil {
		return err
	}
	c.ep, c.use, c.buf = ep, memoryRead, buf
	return c.wait(ctx)
}

// StreamRecvWait receives bytes as StreamRecv does and waits for at least one. If ctx ends
// first, nothing has been received, no bytes are lost, buf is the caller's again, and the
// error matches ucs.ErrCanceled.
func (ep *Endpoint) StreamRecvWait(ctx context.Context, buf []byte) (int, error) {
	if ep.missing() {
		return 0, errMissing("Endpoint.StreamRecvWait", ep == nil)
	}
	return ep.w.stream.streamRecvWait(ep, ctx, buf, 0)
}

// StreamRecvFullWait waits until buf is full. With an error, the first n bytes of buf have
// been received, and the next receive continues behind them. If ctx ends first the error
// matches ucs.ErrCanceled and buf is the caller's again.
func (ep *Endpoint) StreamRecvFullWait(ctx context.Context, buf []byte) (n int, err error) {
	if ep.missing() {
		return 0, errMissing("Endpoint.StreamRecvFullWait", ep == nil)
	}
	return ep.w.stream.streamRecvWait(ep, ctx, buf, StreamRecvWaitAll)
}

func (ss *streamState) streamRecvWait(ep *Endpoint, ctx context.Context, buf []byte, flags StreamRecvFlags) (int, error) {
	c, err := ep.w.waitingCall(startStreamRecv)
	if err != nil {
		return 0, err
	}
	c.ep, c.use, c.buf = ep, memoryWritten, buf
	if flags != 0 {
		c.p = &c.params
		c.p.StreamFlags = flags
	}
	lost, err := c.await(ctx)
	if lost {
		return 0, err
	}
	n := c.info.Length
	c.drop()
	return n, err
}

// StreamReady is an endpoint with unread bytes of its stream.
type StreamReady struct {
	Endpoint *Endpoint
	UserData any // the UserData of the endpoint
}

// StreamPoll fills list with endpoints that have unread stream bytes and no posted receive, each
// once, and returns their number. StreamPoll does not progress the worker. An endpoint is listed
// as long as it has something to read; endpoints that were not listed for the longest time come
// first. Bytes that arrived before the application made the endpoint count as well. There may be
// fewer bytes than an element of the next receive.
func (w *Worker) StreamPoll(list []StreamReady) (int, error) {
	if w.missing() {
		return 0, errMissing("Worker.StreamPoll", w == nil)
	}
	w.owner.acquire()
	n, err := w.stream.pollStreams(list)
	w.owner.release()
	return n, err
}

func (ss *streamState) pollStreams(list []StreamReady) (n int, err error) {
	w := ss.w
	if !ss.on {
		return 0, w.missingFeature("StreamPoll", FeatureStream)
	}
	first := ss.ready.Front()
	for ; n < len(list) && !ss.ready.Empty() && (n == 0 || ss.ready.Front() != first); n++ {
		s := ss.ready.Pop()
		ss.ready.Push(&s.node) // it comes last in the next call
		list[n] = StreamReady{Endpoint: s.ep, UserData: s.ep.userData}
	}
	return n, nil
}
