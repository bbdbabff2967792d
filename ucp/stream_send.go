package ucp

import (
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// callStreamSend says which flags and parameters a stream send takes.
var callStreamSend = callRule{"a stream send", opFlagsAll, paramBuffer | paramOnSend | paramMemoryType | paramMemory}

// StreamSend appends buf to the stream of the endpoint. Done means that buf may be reused, not
// that the peer has read the bytes. The bytes arrive in the order of the sends (in
// ThreadModeMulti, of the sends of one goroutine) but without their boundaries: the peer may read
// them in other pieces. An empty buf succeeds, and nothing arrives. If a datatype fails to pack,
// the send ends with an error, and what was packed before may be part of the stream.
//
// If the peer does not read, the sender has to wait once the buffers of the transports and of the
// peer's worker are full. Over shared memory these buffers are large; see UCX_STREAM_MAX_UNREAD.
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
	r := w.pool.spare // as beginStreamSend, without another call
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
// OpForceImmediate: in one packet, by copying. The number is 0 while the endpoint is not
// connected.
func (ep *Endpoint) MaxStreamNow() (n int) {
	ep.w.owner.acquireRead()
	if t := ep.cfg.stream.tables; t != nil && ep.needs&needLanes == 0 {
		n = max(t.Table(proto.DataContig, 0).MaxCopied(), 0)
	}
	ep.w.owner.releaseRead()
	return n
}

// streamsShort reports whether n bytes may be sent now by one short call of the transport.
func (ep *Endpoint) streamsShort(n int) bool {
	return uint(n-1) < uint(ep.cfg.stream.short) && ep.waiting.head == nil && ep.err == nil &&
		ep.life.Usable() && ep.state&epDraining == 0 && ep.needs&(needLanes|needID|needStream) == 0
}

// streamSend is StreamSend for all cases: if another goroutine owns the worker, the call is
// delegated.
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

// sentStreamShort continues a short send for which the transport has returned err: ucs.InProgress
// if the bytes are not sent yet, another error if the transport has not taken them.
func (ep *Endpoint) sentStreamShort(err error, buf []byte, p *RequestParams) (*Request, error) {
	if err != ucs.InProgress {
		return ep.w.stream.describeStreamSend(ep, buf, p) // queues the send, or returns the error of the call
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

// streamForm is the form of stream packets, which are all alike.
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

// sendStream is the operation of a stream send. The bytes of one send are called a piece.
type sendStream struct{ sendMessage }

// choose looks up the protocol. It makes sure that the packets of a piece are sent without
// anything between them.
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

// Packets do not say to which piece they belong. While a piece waits for the transport, the queue
// of the lane holds back later sends. But a transport may deliver packets inside the call, if the
// receiver is this worker. What the receiver then starts in a callback must not get between two
// packets: it waits until the whole piece has been sent.
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

// inOnePiece calls p to make progress on a piece, and holds back the sends that are started
// meanwhile.
func (ss *streamState) inOnePiece(r *Request, p protocol) error {
	ep := r.ep
	s, last := ep.w.stream.streaming(ep), ep.waiting.tail
	s.sending = r
	ep.needs |= needStream
	err := p.progress(r) // r may be complete, and serve another operation
	if s.sending == r && ep.waiting.tail == last {
		s.sending = nil
		ep.needs &^= needStream
	} // else: sends that were started meanwhile continue at the end of the piece
	return err
}

// pieceOver starts the sends that have waited for the end of a piece.
func (ss *streamState) pieceOver(r *Request) {
	ep := r.ep
	if s := ep.stream; s != nil && s.sending == r {
		s.sending = nil
		ep.resolveNeed(needStream)
	}
}

// Streams that the application does not read. Unread bytes are memory that the peer makes this
// worker hold, and are charged as unexpected messages are (account.go). Unlike those messages,
// unread bytes cannot be dropped without ending the stream. So when a stream holds too much that
// a connection has brought, the connection is no longer read, and TCP makes the peer wait. The
// connection is read again when half of that memory is free.
//
// Everything else that arrives on the connection waits as well: an application that expects a
// tagged message behind unread bytes has to read those bytes first. But a message that an
// operation of this worker waits for (an answer to a flush, a rendezvous message, an
// acknowledgement) must arrive whatever the application reads. Otherwise two workers that wait
// for each other's answers would wait for ever. So no connection is stopped while its endpoint
// expects an answer, and a stopped connection is read again as soon as an operation starts that
// expects one. What arrives until the answer does is held within UCX_MAX_UNEXP_BYTES, as always.
// Beyond that limit the largest holder loses its connection, and its endpoint fails. An endpoint
// that is being closed keeps no bytes, so its connection is always read.
//
// Two peers that stop each other wait for their applications, as with any stream. Sends do not
// start the reading again, because they expect no answer.
//
// Shared memory has one ring for all peers of a worker and does not tell them apart. If the ring
// were not read, all peers would be stopped. There the budget of the process is the limit. A
// stream that does not fit into the budget ends: its endpoint fails, what arrived before can be
// read, and the peer is told.

const (
	defaultUnread = 1 << 20  // UCX_STREAM_MAX_UNREAD=auto
	minUnread     = 64 << 10 // limit when the process holds more than half of UCX_MAX_UNEXP_BYTES
)

// mostUnread returns how many bytes a stream may hold now before the reading of its connection
// stops.
func (ss *streamState) mostUnread() int {
	w := ss.w
	if ledger.Total(ledger.Bytes) > int64(w.accounts.maxHeld/2) {
		return min(ss.most, minUnread)
	}
	return ss.most
}

// stop stops the reading of a connection, if its transport can do so and no answer is expected
// from the peer.
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

// goOn resumes the reading of the connection that the stream has stopped, unless it is stopped
// for another reason.
func (s *stream) goOn() {
	from := s.stopped
	s.forgetStop()
	from.stoppedStreams--
	from.readOn()
}

// forgetStop removes the stream from the list of streams that stop a connection.
func (s *stream) forgetStop() {
	list := &s.ep.w.stream.stopped
	*list = slices.DeleteFunc(*list, func(o *stream) bool { return o == s })
	s.stopped = nil
}

// checkStopped resumes the reading of the connections from which an answer is expected, and
// returns the number of streams that had stopped one.
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

// expects reports whether an answer of the endpoint's peer is expected, by this endpoint or by
// another endpoint to the same peer. Answers of the peer's transport, as to a flush, count as
// well.
func (ss *streamState) expects(ep *Endpoint) bool {
	if ep.peer == nil {
		return ep.expectsAnswer()
	}
	return ep.expectsAnswer() || slices.ContainsFunc(ep.peer.endpoints, (*Endpoint).expectsAnswer)
}

func (ep *Endpoint) expectsAnswer() bool { return ep.flushes > 0 || ep.waitsForPeer() }

// overrun fails an endpoint whose stream does not fit into memory any more.
func (ss *streamState) overrun(ep *Endpoint, err error) {
	ep.w.ctx.log.Debug("a stream ends: no memory", zap.String("endpoint", ep.describe()), zap.Error(err))
	if ep.peer != nil { // nil if the peer is this worker
		ep.w.rma.reject(ep)
	}
	ep.fail(err)
}
