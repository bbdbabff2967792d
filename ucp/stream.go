package ucp

import (
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// streamFamily is the family of streams. Each endpoint has one stream of bytes without boundaries
// in either direction. Each packet consists of the id of the peer's endpoint and a part of the
// bytes. All packets take the AM lane, so the order of the packets there is the order of the bytes:
// nothing of the same endpoint may get between the packets of one send.
//
// Bytes that arrive go straight to the oldest posted receive, or are kept (stream_queue.go). They
// are never dropped to make room, because a stream with a gap is worthless: a sender that sends
// more than the receiver reads has to wait.
type streamFamily struct{ noFamily }

func (streamFamily) about() familyInfo {
	return familyInfo{name: "stream", features: FeatureStream}
}

func (streamFamily) handlers(w *Worker) []handler {
	return []handler{{proto.IDStreamData, w.stream.onStreamData()}}
}

// streamTables are an endpoint's decision tables for streams.
type streamTables struct {
	tables *proto.MessageTables
	short  int // largest number of bytes that are sent inline
}

func (streamFamily) start(w *Worker) {
	w.stream.on = true
	w.stream.maxUnread = w.ctx.settings.StreamUnread.Int(defaultUnread)
}

func (streamFamily) halt(w *Worker) { w.stream.on = false }

// stop takes back the data that the application has not released, because some of it is in memory
// of a transport.
func (streamFamily) stop(w *Worker) error {
	for !w.stream.lent.Empty() {
		w.stream.releaseChunk(w.stream.lent.Front().Value)
	}
	w.stream.free = list.Stack[chunk]{}
	return nil
}

// configure makes the endpoint configuration's decision table for streams.
func (streamFamily) configure(c *epConfig, in *proto.ProtoInput) {
	t := proto.NewMessageTables(in, proto.MessageForm{
		Op: "stream message by ucp_stream_send*", Only: proto.StreamDataSize, First: proto.StreamDataSize, Short: true, Whole: true, OneLane: true,
	})
	c.stream.tables = t
	c.stream.short = max(min(t.Table(proto.DataContig, 0).MaxShort(), t.Table(proto.DataContig, proto.SendMulti).MaxShort()), 0)
}

// explain returns the decision table for contiguous memory.
func (streamFamily) explain(_ *Endpoint, c *epConfig) []proto.TableInfo {
	return []proto.TableInfo{c.stream.tables.Explain(proto.DataContig, 0)}
}

// claimed makes StreamPoll list the endpoint if bytes have arrived before the application had it.
func (streamFamily) claimed(ep *Endpoint) {
	if s := ep.stream; s != nil {
		s.relist()
	}
}

// closing drops the unread bytes, so that the peer may go on, and cancels the posted receives. It
// does so at once, because the close may wait for the peer, and nothing would read what arrives
// meanwhile.
func (streamFamily) closing(ep *Endpoint) {
	if s := ep.stream; s != nil {
		s.discard()
		abortAll(&s.recvs, ucs.ErrCanceled)
		s.relist()
	}
}

// closed does the same as closing, for an endpoint that is released without a close.
func (f streamFamily) closed(ep *Endpoint) { f.closing(ep) }

// purge ends the posted receives with err. If the endpoint has failed, the bytes that arrived
// before can still be read.
func (streamFamily) purge(ep *Endpoint, err error) {
	if s := ep.stream; s != nil {
		abortAll(&s.recvs, err)
		s.relist()
	}
}

// sourceGone clears the marks of streams that have stopped the reading of a connection, because
// the connection has ended.
func (streamFamily) sourceGone(from *source) {
	stopped := &from.w.stream.stopped
	for k := len(*stopped) - 1; k >= 0; k-- {
		if s := (*stopped)[k]; s.stopped == from {
			s.removeStopped()
		}
	}
}

// evict drops the unread bytes of the streams that are charged to a connection, and fails their
// endpoints.
func (streamFamily) evict(from *source, reason error) {
	for !from.streams.Empty() {
		s := from.streams.First().Value
		s.discard()
		s.ep.fail(reason)
	}
}

// streamState is the state of a worker for streams.
type streamState struct {
	on        bool              // streams may be used
	look      bool              // checkStopped is due: a message of a peer is expected, which may be on a connection that is not read
	ready     list.List[stream] // streams with unread bytes; the next one for StreamPoll comes first
	stopped   []*stream         // streams because of which a connection is not read
	lent      list.List[chunk]  // chunks that the application holds
	free      list.Stack[chunk] // idle chunks
	idle      int               // number of idle chunks
	maxUnread int               // bytes that a stream may hold before the reading of its connection stops
	w         *Worker
}

// expect is called when an operation starts to wait for a message of a peer. The next round of
// progress checks whether the peer's connection is one that is not read.
func (t *streamState) expect() {
	if len(t.stopped) > 0 {
		t.look = true
		t.w.due.Store(true)
	}
}

// StreamData is a piece of a stream in the library's memory, where it arrived. The zero
// value is empty.
type StreamData struct {
	data  []byte
	w     *Worker
	c     *chunk
	times uint32 // value of chunk.times when the data was handed out
}

// Bytes returns the bytes, nil if there are none. The bytes must not be changed, and are valid
// until Release, or until the worker is closed.
func (d StreamData) Bytes() []byte { return d.data }

// Release returns the memory to the library. In ThreadModeMulti any goroutine may call it,
// otherwise the worker's. A second Release of the same bytes does nothing.
func (d StreamData) Release() {
	if d.c == nil {
		return
	}
	d.w.owner.acquire()
	if d.c.times == d.times {
		d.w.stream.releaseChunk(d.c)
	}
	d.w.owner.release()
}

// StreamRecvData takes the unread rest of the next packet of the peer's stream, without copying
// the data. An empty result without an error means that nothing has arrived, or that what has
// arrived belongs to a posted receive. The peer and the transports decide where the stream is cut
// into packets, without regard to elements. The memory is the application's until
// StreamData.Release, and is no longer charged to the peer. On a failed endpoint the data that
// had arrived is returned first, then the error.
func (ep *Endpoint) StreamRecvData() (StreamData, error) {
	if ep.missing() {
		return StreamData{}, errMissing("Endpoint.StreamRecvData", ep == nil)
	}
	w := ep.w
	w.owner.acquire()
	d, err := ep.w.stream.streamData(ep)
	w.owner.release()
	return d, err
}

func (ss *streamState) streamData(ep *Endpoint) (StreamData, error) {
	w, s := ep.w, ep.stream
	switch {
	case !w.stream.on:
		return StreamData{}, w.missingFeature("StreamRecvData", FeatureStream)
	case ep.life.Refuses():
		return StreamData{}, ucs.ErrNotConnected
	case s == nil || s.chunks.Empty():
		return StreamData{}, ep.err
	case !s.recvs.Empty() || s.feeding:
		return StreamData{}, nil
	}
	c := s.pop()
	if s.chunks.Empty() {
		s.relist()
	}
	w.stream.lent.Push(&c.node)
	return StreamData{data: c.data, w: w, c: c, times: c.times}, nil
}

// releaseChunk takes back a chunk from the application.
func (ss *streamState) releaseChunk(c *chunk) {
	c.node.Remove()
	c.times++
	ss.putChunk(c)
}

// callStreamSend lists the flags and parameters that a stream send takes.
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
	if !w.owner.tryAcquire() {
		return w.stream.delegateSend(ep, buf, p)
	}
	if !ep.streamsShort(len(buf)) || p != nil && !p.plainSend() {
		r, err := ep.w.stream.describeStreamSend(ep, buf, p)
		w.owner.release()
		return r, err
	}
	r := w.pool.spare // as startStreamSend, without another call
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
	return uint(n-1) < uint(ep.cfg.stream.short) && ep.waiting.Empty() && ep.err == nil &&
		ep.life.Usable() && ep.state&epDraining == 0 && ep.needs&(needLanes|needID|needStream) == 0
}

// delegateSend delegates a send to the goroutine that owns the worker.
func (ss *streamState) delegateSend(ep *Endpoint, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	c := w.newCall(startStreamSend).with(p)
	c.ep, c.buf, c.rule = ep, buf, &callStreamSend
	c.detached = p == nil && len(buf) <= smallBytes && w.ctx.params.Features&FeatureStream != 0
	return c.delegate()
}

// startStreamSend starts a send of any kind.
func startStreamSend(c *call) (*Request, error) {
	ep := c.ep
	if !ep.streamsShort(len(c.buf)) || c.p != nil && !c.p.plainSend() {
		return ep.w.stream.describeStreamSend(ep, c.buf, c.p)
	}
	w := ep.w
	r := w.pool.spare
	err := ep.ue.AMShort(uct.AMID(proto.IDStreamData), uint64(ep.remoteID), c.buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.stats.StreamSends++
		return nil, nil
	}
	return ep.sentStreamShort(err, c.buf, c.p)
}

// sentStreamShort continues a short send for which the transport has returned err: ucs.InProgress
// if the bytes are not sent yet, another error if the transport has not taken them.
func (ep *Endpoint) sentStreamShort(err error, buf []byte, p *RequestParams) (*Request, error) {
	if err != ucs.InProgress {
		return ep.w.stream.describeStreamSend(ep, buf, p) // queues the send, or returns the error of the call
	}
	return ep.inFlightAfter(&streamForm, eagerShort{}, p), nil
}

func (ss *streamState) describeStreamSend(ep *Endpoint, buf []byte, p *RequestParams) (*Request, error) {
	if ep.w.ctx.params.Features&FeatureStream == 0 {
		return nil, ep.w.missingFeature("StreamSend", FeatureStream)
	}
	r, err := ep.describeSend(&callStreamSend, buf, p)
	if err != nil {
		return nil, err
	}
	r.bind(ep)
	r.op, r.form, r.offset = sendStream{}, &streamForm, 0
	switch {
	case r.data.Length == 0:
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
	s, last := ep.w.stream.streaming(ep), ep.waiting.Back()
	s.sending = r
	ep.needs |= needStream
	err := p.progress(r) // r may be complete, and serve another operation
	if s.sending == r && ep.waiting.Back() == last {
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
// worker hold, and are charged as unexpected messages are (package account). Unlike those messages,
// unread bytes cannot be dropped without ending the stream. So when a stream holds too many bytes
// from a connection, the worker no longer reads the connection, and TCP makes the peer wait. The
// worker reads the connection again when half of that memory is free.
//
// Everything else that arrives on the connection waits as well: an application that expects a
// tagged message behind unread bytes has to read those bytes first. But a message that an operation
// of this worker waits for (an answer to a flush, a rendezvous message, an acknowledgement) must
// arrive whatever the application reads. Otherwise two workers that wait for each other's answers
// would never go on. So no connection is stopped while its endpoint expects an answer, and a
// stopped connection is read again as soon as an operation starts that expects one. The data that
// arrives before the answer is limited by UCX_MAX_UNEXP_BYTES, as always. Beyond that limit the
// largest holder loses its connection, and its endpoint fails. An endpoint that is being closed
// keeps no bytes, so its connection is always read.
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

// unreadLimit returns how many bytes a stream may hold now before the reading of its connection
// stops.
func (ss *streamState) unreadLimit() int {
	w := ss.w
	if ledger.Total(ledger.Bytes) > int64(w.accounts.Limits.Bytes/2) {
		return min(ss.maxUnread, minUnread)
	}
	return ss.maxUnread
}

// stop stops the reading of a connection, if its transport can do so and no answer is expected
// from the peer.
func (s *stream) stop(from *source) {
	if s.stopped != nil || from.uct == nil || s.ep.w.stream.expects(s.ep) {
		return
	}
	p, ok := from.uct.Owner.(uct.Connection)
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

// resumeReading resumes the reading of the connection that the stream has stopped, unless it is stopped
// for another reason.
func (s *stream) resumeReading() {
	from := s.stopped
	s.removeStopped()
	from.stoppedStreams--
	from.ReadOn()
}

// removeStopped removes the stream from the list of streams because of which a connection is not read.
func (s *stream) removeStopped() {
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
			s.resumeReading()
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
	return ep.expectsAnswer() || anyEndpoint(ep.peer, (*Endpoint).expectsAnswer)
}

func (ep *Endpoint) expectsAnswer() bool { return ep.flushes > 0 || ep.waitsForPeer() }

// overrun fails an endpoint whose stream does not fit into memory any more.
func (ss *streamState) overrun(ep *Endpoint, err error) {
	ep.w.ctx.log.Debug("failing an endpoint: its stream exceeds the limit of unread bytes", zap.String("endpoint", ep.describe()), zap.Error(err))
	if ep.peer != nil { // nil if the peer is this worker
		ep.w.rma.reject(ep)
	}
	ep.fail(err)
}
