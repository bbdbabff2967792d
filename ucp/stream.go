package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// streamFamily is the family of streams. Each endpoint has one stream of bytes without boundaries
// in either direction. Each packet consists of the peer's id of the endpoint and bytes. All
// packets take the AM lane, so the order of the packets there is the order of the bytes: nothing
// of the same endpoint may get between the packets of one send (stream_send.go).
//
// Bytes that arrive go straight to the oldest posted receive, or are kept (stream_queue.go). They
// are never dropped to make room, because a stream with a gap is worthless: a sender that sends
// more than the receiver reads has to wait (stream_send.go).
type streamFamily struct{ noFamily }

func (streamFamily) about() familyInfo {
	return familyInfo{name: "stream", features: FeatureStream}
}

func (streamFamily) handlers(w *Worker) []handler {
	return []handler{{proto.IDStreamData, w.stream.onStreamData}}
}

// streamTables are an endpoint's decision tables for streams.
type streamTables struct {
	tables *proto.MessageTables
	short  int // largest number of bytes that are sent inline
}

func (streamFamily) start(w *Worker) {
	w.stream.on = true
	w.stream.most = w.ctx.settings.StreamUnread.Int(defaultUnread)
}

func (streamFamily) halt(w *Worker) { w.stream.on = false }

// stop takes back the data that the application has not released, because some of it is in memory
// of a transport.
func (streamFamily) stop(w *Worker) error {
	for c := w.stream.lent; c != nil; c = w.stream.lent {
		w.stream.releaseChunk(c)
	}
	w.stream.free = nil
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
		s.recvs.end(ucs.ErrCanceled)
		s.relist()
	}
}

// closed is closing for an endpoint whose end was not announced.
func (f streamFamily) closed(ep *Endpoint) { f.closing(ep) }

// purge ends the posted receives with err. If the endpoint has failed, the bytes that arrived
// before can still be read.
func (streamFamily) purge(ep *Endpoint, err error) {
	if s := ep.stream; s != nil {
		s.recvs.end(err)
		s.relist()
	}
}

// sourceGone clears the marks of streams that have stopped the reading of a connection, because
// the connection has ended.
func (streamFamily) sourceGone(from *source) {
	list := &from.w.stream.stopped
	for k := len(*list) - 1; k >= 0; k-- {
		if s := (*list)[k]; s.stopped == from {
			s.forgetStop()
		}
	}
}

// evict drops the unread bytes of the streams that are charged to a connection, and fails their
// endpoints.
func (streamFamily) evict(from *source, reason error) {
	for s := from.streams; s != nil; s = from.streams {
		s.discard()
		s.ep.fail(reason)
	}
}

// streamState is the state of a worker for streams.
type streamState struct {
	on      bool      // streams may be used
	look    bool      // checkStopped is due: a message of a peer is expected, which may be on a connection that is not read
	ready   *stream   // a ring of the streams with something to read, at the one that StreamPoll lists next
	stopped []*stream // streams because of which a connection is not read
	lent    *chunk    // a list of the chunks that the application holds
	free    *chunk    // idle chunks
	idle    int       // number of idle chunks
	most    int       // bytes that a stream may hold before the reading of its connection stops
	w       *Worker
}

// expect is called when an operation starts to wait for a message of a peer. The next round of
// progress checks whether the peer's connection is one that is not read.
func (t *streamState) expect() {
	if len(t.stopped) > 0 {
		t.look = true
	}
}

// StreamData is a piece of a stream in the library's memory, where it arrived. The zero
// value is empty.
type StreamData struct {
	data  []byte
	w     *Worker
	c     *chunk
	times uint32 // value of times in the chunk when it was handed out
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
		return StreamData{}, w.lacks("StreamRecvData", FeatureStream)
	case ep.life.Refuses():
		return StreamData{}, ucs.ErrNotConnected
	case s == nil || s.first == nil:
		return StreamData{}, ep.err
	case s.recvs.head != nil || s.feeding:
		return StreamData{}, nil
	}
	c := s.pop()
	if s.first == nil {
		s.relist()
	}
	if c.next = w.stream.lent; c.next != nil {
		c.next.prev = c
	}
	w.stream.lent = c
	return StreamData{data: c.data, w: w, c: c, times: c.times}, nil
}

// releaseChunk takes back a chunk from the application.
func (ss *streamState) releaseChunk(c *chunk) {
	if c.prev == nil {
		ss.lent = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	c.times++
	ss.putChunk(c)
}
