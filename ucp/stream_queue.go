package ucp

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// stream is the receiving side of an endpoint's stream, made when it is first used. It has unread
// bytes or posted receives; it has both only if the bytes are less than an element of the oldest
// receive.
type stream struct {
	ep      *Endpoint
	sending *Request // the piece whose packets are being sent (stream.go)

	chunks  list.Queue[chunk] // unread chunks, in order
	unread  int               // number of unread bytes
	held    int               // bytes of memory that the unread chunks take
	charged *source           // source charged with held bytes: the one that sent the first unread chunk
	stopped *source           // the source that is not read because of this stream (stream.go)

	recvs list.List[Request] // posted receives, in order
	ended list.List[Request] // completed receives whose callbacks have not run

	node     list.Node[stream]   // in the list of streams with something to read (streamState.ready)
	ofSource list.Member[stream] // in the set of the streams that are charged to one source

	borrowed bool // the first chunk is in memory of the transport, valid only until the transport's handler returns
	feeding  bool // feed is running up the stack
}

// streaming returns the endpoint's stream, and makes it if there is none.
func (ss *streamState) streaming(ep *Endpoint) *stream {
	if ep.stream == nil {
		s := &stream{ep: ep}
		s.node.Value, s.ofSource.Value = s, s
		ep.stream = s
	}
	return ep.stream
}

// chunk holds the bytes that arrived in one packet.
type chunk struct {
	node   list.Node[chunk]
	data   []byte // unread bytes
	desc   *uct.AMDesc
	buf    []byte // pooled memory behind data
	size   int    // bytes that are charged for the chunk, 0 if none
	times  uint32 // number of times that the application has released the chunk
	inline [inlineBytes]byte
}

// maxFreeChunks is the largest number of idle chunks of a worker.
const maxFreeChunks = 4096

func (ss *streamState) newChunk() *chunk {
	if ss.free.Empty() {
		c := new(chunk)
		c.node.Value = c
		return c
	}
	ss.idle--
	return ss.free.Pop()
}

// putChunk frees a chunk and the memory that it holds.
func (ss *streamState) putChunk(c *chunk) {
	w := ss.w
	if c.desc != nil {
		c.desc.Release()
		c.desc = nil
	}
	if c.buf != nil {
		w.buffers.Put(c.buf)
		c.buf = nil
	}
	c.data = nil
	if ss.idle < maxFreeChunks {
		ss.free.Push(&c.node)
		ss.idle++
	}
}

// store stores bytes in a chunk: in the transport's memory if desc is given and is not larger
// than maxWaste times the data, otherwise in the chunk or in pooled memory. It reports whether
// desc is kept.
func (c *chunk) store(w *Worker, data []byte, desc *uct.AMDesc) bool {
	c.size = chunkSize
	switch {
	case desc != nil && desc.Size <= maxWaste*len(data):
		c.data, c.desc = data, desc
		c.size += keeps(data, desc)
		return true
	case len(data) <= inlineBytes:
		c.data = c.inline[:copy(c.inline[:], data)]
	default:
		c.buf = w.buffers.Get(len(data))
		c.data = c.buf[:cpu.Copy(c.buf[:cap(c.buf)], data)]
		c.size += cap(c.buf)
	}
	return false
}

// push appends a chunk.
func (s *stream) push(c *chunk) {
	s.chunks.Push(&c.node)
	s.unread += len(c.data)
}

// pop removes the first chunk, and ends the charge for it.
func (s *stream) pop() *chunk {
	c := s.chunks.Pop()
	s.unread -= len(c.data)
	s.borrowed = false
	if c.size > 0 {
		s.repay(c.size)
		c.size = 0
	}
	return c
}

// unpop puts a chunk that was popped back in front.
func (s *stream) unpop(c *chunk) {
	s.chunks.PushFront(&c.node)
	s.unread += len(c.data)
}

// take removes n bytes from the first chunk, which has at least n.
func (s *stream) take(n int) {
	c := s.chunks.Front().Value
	c.data = c.data[n:]
	s.unread -= n
	if len(c.data) == 0 {
		s.ep.w.stream.putChunk(s.pop())
	}
}

// discard drops the unread bytes.
func (s *stream) discard() {
	for !s.chunks.Empty() {
		s.ep.w.stream.putChunk(s.pop())
	}
}

// charge charges memory for the stream to the source that the stream is charged to, or to from if
// there is none.
func (s *stream) charge(from *source, n int) {
	if s.charged == nil {
		s.charged = from
		from.streams.Add(&s.ofSource)
	}
	s.held += n
	s.charged.AddBytes(n)
}

// repay takes n bytes off the charge. It resumes the reading of the connection that the stream
// has stopped, if the stream holds no more than half of its limit.
func (s *stream) repay(n int) {
	s.held -= n
	account := s.charged
	if s.held == 0 {
		s.charged = nil
		s.ofSource.Remove()
	}
	account.SubBytes(n)
	if s.stopped != nil && s.held <= s.ep.w.stream.unreadLimit()/2 {
		s.resumeReading()
	}
}

// relist puts the stream into the list of streams with something to read, or takes it out. A
// stream is in the list if it has unread bytes, no posted receive, and an endpoint that the
// application may use.
func (s *stream) relist() {
	ready := !s.chunks.Empty() && s.recvs.Empty() && s.ep.life.Held()
	switch {
	case ready == s.node.Linked():
	case ready:
		s.ep.w.stream.ready.Push(&s.node)
	default:
		s.node.Remove()
	}
}

// onStreamData returns the handler of stream packets, a function literal like that of onEagerOnly. The
// commonest packets, those that a posted receive has room for, it delivers itself, the others are for
// onStreamDataRest.
//
//go:noinline
func (ss *streamState) onStreamData() uct.AMHandler {
	return func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		if len(data) <= proto.StreamDataSize {
			return ss.onStreamDataRest(src, data, desc)
		}
		w := ss.w
		ep := w.endpoints.Get(binary.LittleEndian.Uint64(data))
		if ep == nil || ep.err != nil || ep.stream == nil || ep.life.Refuses() || src != nil && w.admission.spoofed(src, ep) {
			return ss.onStreamDataRest(src, data, desc)
		}
		payload, s := data[proto.StreamDataSize:], ep.stream
		n := s.recvs.Front()
		if n == nil || !s.chunks.Empty() || s.feeding {
			return ss.onStreamDataRest(src, data, desc)
		}
		r := n.Value
		if r.data.Class != datatype.Contig || portion(r, len(payload)) != len(payload) {
			return ss.onStreamDataRest(src, data, desc)
		}
		datatype.Copy(r.data.Buf[r.offset:], payload) // the short path of feed
		switch {
		case !ss.got(r, len(payload)):
		case r.state&^stateFull == stateRecv|stateStream|stateUncounted: // as finish, without a call
			n.Remove()
			r.data.Buf = nil
			r.state |= stateDone
			r.setOver()
		default:
			r.finish(nil)
		}
		return nil
	}
}

// onStreamDataRest receives the packets of streams that onStreamData does not deliver.
//
//go:noinline
func (ss *streamState) onStreamDataRest(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	w := ss.w
	h, data, err := proto.ParseStreamData(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep := w.endpoints.Get(uint64(h.EpID))
	if ep == nil || ep.err != nil || ep.life.Refuses() {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, ep) || len(data) == 0 {
		return nil
	}
	s := ss.streaming(ep)
	if !s.recvs.Empty() && s.chunks.Empty() && !s.feeding {
		return s.feedFrom(w.accounts.sourceOf(src), data)
	}
	return s.keep(w.accounts.sourceOf(src), data, desc)
}

// feedFrom fills receives from a packet, and keeps a copy of the rest before it runs the
// receives' callbacks, because a callback may read the rest.
func (s *stream) feedFrom(from *source, data []byte) error {
	w := s.ep.w
	c := w.stream.newChunk()
	c.data = data
	s.push(c)
	s.borrowed = true
	s.feed()
	var err error
	if s.borrowed {
		data = c.data
		w.stream.putChunk(s.pop())
		err = s.keep(from, data, nil)
	}
	s.deliverEnded()
	return err
}

// keep stores bytes that no receive has taken. The result is for the transport's handler:
// ucs.InProgress if desc is kept.
func (s *stream) keep(from *source, data []byte, desc *uct.AMDesc) error {
	w, ep := s.ep.w, s.ep
	account := from
	if s.charged != nil {
		account = s.charged
	}
	if err := account.Charge(chunkSize + len(data)); err != nil {
		ep.w.stream.overrun(ep, err)
		return err
	}
	if ep.err != nil || ep.life.Stage == life.Gone {
		return nil // charge has ended the endpoint to make room
	}
	if !s.recvs.Empty() {
		desc = nil // a receive may take the bytes at once, before the transport knows that desc is kept
	}
	c := w.stream.newChunk()
	kept := c.store(w, data, desc)
	s.charge(account, c.size)
	s.push(c)
	if s.held > minUnread && s.held > w.stream.unreadLimit() {
		s.stop(from)
	}
	if !s.recvs.Empty() {
		s.feed()
		s.deliverEnded()
	} else {
		s.relist()
	}
	if kept {
		return ucs.InProgress
	}
	return nil
}
