package ucp

import (
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// callStreamSend says what belongs to the call.
var callStreamSend = callRule{"a stream send", opFlagsAll, paramBuffer | paramOnSend | paramMemoryType | paramMemory}

// StreamSend appends buf to the stream of the endpoint. Done means that buf may be reused,
// not that the peer has read it. The bytes arrive in the order of the sends (in
// ThreadModeMulti, of the sends of one goroutine) but without their boundaries: the peer
// may read them in other pieces. An empty buf succeeds, and nothing arrives. If a datatype
// fails to pack, the send ends with an error, and what was packed before may be part of the
// stream.
//
// If the peer does not read, the sender has to wait once the buffers of the transports and
// of the peer's worker are full. Over shared memory they are large; see
// UCX_STREAM_MAX_UNREAD.
func (ep *Endpoint) StreamSend(buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.StreamSend", ep == nil)
	}
	w := ep.w
	if p != nil && !p.plainSend() || !w.owner.acquireFast() {
		return ep.w.stream.streamSend(ep, buf, p)
	}
	if !ep.streamsShort(len(buf)) {
		r, err := ep.w.stream.describeStreamSend(ep, buf, p)
		w.owner.release()
		return r, err
	}
	r := w.pool.spare // sendStreamShort, without another call
	err := ep.ue.AMShort(uct.AMID(proto.IDStreamData), uint64(ep.remoteID), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.stats.StreamSends++
		w.owner.release()
		return nil, nil
	}
	r, err = ep.sentStreamShort(err, buf, p)
	w.owner.release()
	return r, err
}

// MaxStreamNow returns the largest number of bytes that StreamSend may send with
// OpForceImmediate: in one packet, by copying. It is 0 while the endpoint is not connected.
func (ep *Endpoint) MaxStreamNow() (n int) {
	ep.w.owner.acquireRead()
	if t := ep.cfg.stream.tables; t != nil && ep.needs&needLanes == 0 {
		n = max(t.Table(proto.DataContig, 0).MaxCopied(), 0)
	}
	ep.w.owner.releaseRead()
	return n
}

// streamsShort reports whether n bytes may go in one call of the transport.
func (ep *Endpoint) streamsShort(n int) bool {
	return uint(n-1) < uint(ep.cfg.stream.short) && ep.waiting.head == nil && ep.err == nil &&
		ep.life.Usable() && ep.state&epDraining == 0 && ep.needs&(needLanes|needID|needStream) == 0
}

// streamSend is StreamSend in general.
func (ss *streamState) streamSend(ep *Endpoint, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if !w.owner.tryAcquire() {
		c := w.newCall(startStreamSend).with(p)
		c.ep, c.buf, c.rule = ep, buf, &callStreamSend
		c.detached = p == nil && len(buf) <= smallBytes && w.ctx.params.Features&FeatureStream != 0
		return c.delegate()
	}
	r, err := ep.beginStreamSend(buf, p)
	w.owner.release()
	return r, err
}

func startStreamSend(c *call) (*Request, error) { return c.ep.beginStreamSend(c.buf, c.p) }

func (ep *Endpoint) beginStreamSend(buf []byte, p *RequestParams) (*Request, error) {
	if p != nil && !p.plainSend() || !ep.streamsShort(len(buf)) {
		return ep.w.stream.describeStreamSend(ep, buf, p)
	}
	w := ep.w
	r := w.pool.spare
	err := ep.ue.AMShort(uct.AMID(proto.IDStreamData), uint64(ep.remoteID), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.stats.StreamSends++
		return nil, nil
	}
	return ep.sentStreamShort(err, buf, p)
}

// sentStreamShort goes on where the transport has not taken it, or not sent it yet.
func (ep *Endpoint) sentStreamShort(err error, buf []byte, p *RequestParams) (*Request, error) {
	if err != ucs.InProgress {
		return ep.w.stream.describeStreamSend(ep, buf, p) // queues it, or says what is wrong
	}
	return ep.shortGoes(&streamForm, p), nil
}

func (ss *streamState) describeStreamSend(ep *Endpoint, buf []byte, p *RequestParams) (*Request, error) {
	if ep.w.ctx.params.Features&FeatureStream == 0 {
		return nil, ep.w.lacks("StreamSend", FeatureStream)
	}
	r, err := ep.describeSend(&callStreamSend, buf, p)
	if err != nil {
		return nil, err
	}
	r.bind(ep)
	r.op, r.form, r.offset = sendStream{}, &streamForm, 0
	switch {
	case r.data.length == 0:
		r.finish(nil)
	case p.flags()&OpForceImmediate != 0:
		return ep.sendMessageNow(r)
	default:
		ep.submit(r)
	}
	return r.result()
}

// streamForm is what streams look like on the wire: all packets are alike.
var streamForm = messageForm{
	name:   "stream",
	only:   streamPacket,
	first:  streamPacket,
	middle: streamPacket,
	word:   func(r *Request) uint64 { return proto.StreamData{EpID: r.ep.remoteID}.Word() },
	sends:  func(s *Stats) *uint64 { return &s.StreamSends },
	tables: func(c *epConfig) *proto.MessageTables { return c.stream.tables },
	needs:  needID | needStream,

	oneLane: true,
}

var streamPacket = packetForm{id: proto.IDStreamData, size: proto.StreamDataSize, put: func(r *Request, dst []byte) int {
	return proto.StreamData{EpID: r.ep.remoteID}.Put(dst)
}}

// sendStream is the operation of sending a piece of a stream.
type sendStream struct{ sendMessage }

// choose sees to it that pieces in several packets stay in one.
func (sendStream) choose(r *Request) (protocol, error) {
	p, err := sendMessage{}.choose(r)
	switch p.(type) {
	case eagerMultiBcopy:
		return streamMultiBcopy{}, nil
	case eagerMultiZcopy:
		return streamMultiZcopy{}, nil
	}
	return p, err
}

// Packets do not say which piece they are of. While one waits for the transport the
// queue of the lane holds back what is sent later. But a transport may deliver inside of
// the call, and what the receiver, who is this worker, starts in a callback must not
// get between two packets. It waits until the piece has gone.
type (
	streamMultiBcopy struct{ eagerMultiBcopy }
	streamMultiZcopy struct{ eagerMultiZcopy }
)

func (p streamMultiBcopy) progress(r *Request) error {
	return r.w.stream.inOnePiece(r, p.eagerMultiBcopy)
}
func (p streamMultiZcopy) progress(r *Request) error {
	return r.w.stream.inOnePiece(r, p.eagerMultiZcopy)
}

func (streamMultiBcopy) release(r *Request) { r.w.stream.pieceOver(r) }
func (streamMultiZcopy) release(r *Request) { r.w.stream.pieceOver(r) }

// inOnePiece is the progress of a piece, which p does.
func (ss *streamState) inOnePiece(r *Request, p protocol) error {
	ep := r.ep
	s, last := ep.w.stream.streaming(ep), ep.waiting.tail
	s.sending = r
	ep.needs |= needStream
	err := p.progress(r) // r may be over, and serve another operation
	if s.sending == r && ep.waiting.tail == last {
		s.sending = nil
		ep.needs &^= needStream
	} // else what was started meanwhile goes on at the end of the piece
	return err
}

// pieceOver lets go on what has waited for the end of a piece.
func (ss *streamState) pieceOver(r *Request) {
	ep := r.ep
	if s := ep.stream; s != nil && s.sending == r {
		s.sending = nil
		ep.resolveNeed(needStream)
	}
}

// Streams that the application does not read. What is unread is memory that the peer
// makes us hold, and is charged as unexpected messages are (account.go). Unlike those it
// cannot be thrown away without an end of the stream. So a connection is not read any
// more when a stream holds much that it has brought, and TCP tells the peer to wait; it
// is read again when half of that is free.
//
// All else that comes on the connection waits as well: who expects a tagged message
// behind unread bytes has to read those first. But what an operation of ours waits for,
// an answer to a flush, a rendezvous, an acknowledgement, must come whatever the
// application reads, or two workers that wait for each other's answers would do so for
// ever. So no connection is stopped while the endpoint expects an answer, and one that
// is stopped is read again as soon as something is started that does. What comes until
// the answer is here is held within UCX_MAX_UNEXP_BYTES, as ever: beyond it who holds
// most loses its connection, and its endpoint fails. An endpoint that is being closed
// keeps nothing, and so is always read.
//
// Two peers that stop each other wait for their applications, as with any stream. Sends
// do not: they expect no answer.
//
// Shared memory has one ring for all peers of a worker, whom it does not tell apart, and
// for it not to be read would stop them all. There the budget of the process is the
// limit. A stream that does not fit into it is over: its endpoint fails, what came before
// can be read, and the peer is told.

const (
	defaultUnread = 1 << 20  // UCX_STREAM_MAX_UNREAD=auto
	minUnread     = 64 << 10 // where the process holds much
)

// mostUnread is what a stream may hold now before its connection is stopped.
func (ss *streamState) mostUnread() int {
	w := ss.w
	if ledger.Total(ledger.Bytes) > int64(w.accounts.maxHeld/2) {
		return min(ss.most, minUnread)
	}
	return ss.most
}

// stop stops the reading of a connection, if it can be and nothing is expected from
// there.
func (s *stream) stop(from *source) {
	if s.stopped != nil || from.uct == nil || s.ep.w.stream.expects(s.ep) {
		return
	}
	p, ok := from.uct.Owner.(uct.SourcePauser)
	if !ok {
		return
	}
	w := s.ep.w
	s.stopped = from
	from.stoppedStreams++
	w.stream.stopped = append(w.stream.stopped, s)
	w.stats.Stopped++
	p.PauseSource()
}

// goOn ends that.
func (s *stream) goOn() {
	from := s.stopped
	s.forgetStop()
	from.stoppedStreams--
	from.readOn()
}

// forgetStop takes the stream off the list.
func (s *stream) forgetStop() {
	list := &s.ep.w.stream.stopped
	*list = slices.DeleteFunc(*list, func(o *stream) bool { return o == s })
	s.stopped = nil
}

// checkStopped goes on reading the connections of peers from which something is
// expected, and returns their number.
func (ss *streamState) checkStopped() (n int) {
	ss.look = false
	for k := len(ss.stopped) - 1; k >= 0; k-- {
		if s := ss.stopped[k]; ss.expects(s.ep) {
			s.goOn()
			n++
		}
	}
	return n
}

// expects reports whether an answer of the endpoint's peer is expected, by this or
// another endpoint: also one of its transport.
func (ss *streamState) expects(ep *Endpoint) bool {
	if ep.peer == nil {
		return ep.expectsAnswer()
	}
	return ep.expectsAnswer() || slices.ContainsFunc(ep.peer.endpoints, (*Endpoint).expectsAnswer)
}

func (ep *Endpoint) expectsAnswer() bool { return ep.flushes > 0 || ep.waitsForPeer() }

// overrun ends an endpoint whose stream does not fit any more.
func (ss *streamState) overrun(ep *Endpoint, err error) {
	ep.w.ctx.log.Debug("a stream ends: no memory", zap.String("endpoint", ep.describe()), zap.Error(err))
	if ep.peer != nil { // or it is this worker
		ep.w.rma.reject(ep)
	}
	ep.fail(err)
}
