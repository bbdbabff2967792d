package ucp

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// stream is what an endpoint keeps of its stream: made when it is first used. There are
// unread bytes or posted receives; both only if the bytes are less than an element of
// the oldest receive.
type stream struct {
	links[stream] // with others that the same connection has filled

	ep      *Endpoint
	sending *Request // a piece whose packets are being sent (stream_send.go)

	first, last *chunk  // unread, in order
	unread      int     // bytes of them
	held        int     // memory that they take
	charged     *source // which is charged with that: who has brought the first of them
	stopped     *source // that is not read because of it (stream_send.go)

	recvs requestList // posted, in order
	ended requestList // whose end is to be told

	before, after *stream // in the ring of those with something to read

	borrowed bool // first is of the transport, for as long as its handler runs
	feeding  bool // receives are being filled, up the stack
}

// streaming returns the endpoint's stream.
func (ss *streamState) streaming(ep *Endpoint) *stream {
	if ep.stream == nil {
		ep.stream = &stream{ep: ep}
	}
	return ep.stream
}

// chunk is bytes that came in one packet.
type chunk struct {
	prev, next *chunk
	data       []byte // that are unread
	desc       *uct.AMDesc
	buf        []byte // pooled memory behind data
	size       int    // of memory that it is charged with
	times      uint32 // that it was given back by the application
	inline     [inlineBytes]byte
}

// maxFreeChunks bounds the idle chunks of a worker.
const maxFreeChunks = 4096

func (ss *streamState) newChunk() *chunk {
	c := ss.free
	if c == nil {
		return new(chunk)
	}
	ss.free, c.next = c.next, nil
	ss.idle--
	return c
}

// putChunk takes a chunk back with the memory it holds.
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
		c.next, ss.free = ss.free, c
		ss.idle++
	}
}

// store puts bytes into a chunk: in the transport's memory where it lets us keep it and
// there is not much more of it, in our own otherwise. It reports whether desc is kept.
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

// push puts a chunk at the end.
func (s *stream) push(c *chunk) {
	if s.last == nil {
		s.first = c
	} else {
		s.last.next = c
	}
	s.last = c
	s.unread += len(c.data)
}

// pop takes the first chunk out, and off the charge.
func (s *stream) pop() *chunk {
	c := s.first
	s.first, c.next = c.next, nil
	if s.first == nil {
		s.last = nil
	}
	s.unread -= len(c.data)
	s.borrowed = false
	if c.size > 0 {
		s.repay(c.size)
		c.size = 0
	}
	return c
}

// unpop puts back what was popped.
func (s *stream) unpop(c *chunk) {
	c.next = s.first
	if c.next == nil {
		s.last = c
	}
	s.first = c
	s.unread += len(c.data)
}

// take takes n bytes off the first chunk, which are at most all of it.
func (s *stream) take(n int) {
	c := s.first
	c.data = c.data[n:]
	s.unread -= n
	if len(c.data) == 0 {
		s.ep.w.stream.putChunk(s.pop())
	}
}

// discard throws away what is unread.
func (s *stream) discard() {
	for s.first != nil {
		s.ep.w.stream.putChunk(s.pop())
	}
}

// charge charges a connection with memory for the stream.
func (s *stream) charge(from *source, n int) {
	if s.charged == nil {
		s.charged = from
		link(&from.streams, s, (*stream).place)
	}
	s.held += n
	s.charged.take(n)
}

// repay takes memory off the charge, and goes on reading a connection when there is
// little left.
func (s *stream) repay(n int) {
	s.held -= n
	payer := s.charged
	if s.held == 0 {
		s.charged = nil
		unlink(&payer.streams, s, (*stream).place)
	}
	payer.give(n)
	if s.stopped != nil && s.held <= s.ep.w.stream.mostUnread()/2 {
		s.goOn()
	}
}

// relist sees to it that the stream is in the ring if there is something to read for the
// application.
func (s *stream) relist() {
	ready := s.first != nil && s.recvs.head == nil && s.ep.life.Held()
	head := &s.ep.w.stream.ready
	switch {
	case ready == (s.after != nil):
	case !ready:
		s.before.after, s.after.before = s.after, s.before
		if *head == s {
			*head = s.after
		}
		if *head == s {
			*head = nil
		}
		s.before, s.after = nil, nil
	case *head == nil:
		*head, s.before, s.after = s, s, s
	default: // it is told of last
		s.before, s.after = (*head).before, *head
		s.before.after, s.after.before = s, s
	}
}

// onStreamData receives bytes of a stream.
func (ss *streamState) onStreamData(src *uct.Source, data []byte, desc *uct.AMDesc) error {
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
	if r := s.recvs.head; r != nil && s.first == nil && !s.feeding {
		if r.data.class == DatatypeContig && ss.portion(r, len(data)) == len(data) { // as feed does
			cpu.Copy(r.data.buf[r.offset:], data)
			if ss.got(r, len(data)) {
				r.finish(nil)
			}
			return nil
		}
		return s.feedFrom(w.accounts.sourceOf(src), data)
	}
	return s.keep(w.accounts.sourceOf(src), data, desc)
}

// feedFrom fills receives from a packet, and keeps a copy of what is left: the callbacks of
// the receives may take it.
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
	s.tell()
	return err
}

// keep stores bytes that no receive has taken. The result is the handler's.
func (s *stream) keep(from *source, data []byte, desc *uct.AMDesc) error {
	w, ep := s.ep.w, s.ep
	payer := from
	if s.charged != nil {
		payer = s.charged
	}
	if err := w.accounts.charge(payer, chunkSize+len(data)); err != nil {
		ep.w.stream.overrun(ep, err)
		return err
	}
	if ep.err != nil || ep.life.Stage == life.Gone {
		return nil // to make room
	}
	if s.recvs.head != nil {
		desc = nil // a receive may take it at once, before the transport has given it away
	}
	c := w.stream.newChunk()
	kept := c.store(w, data, desc)
	s.charge(payer, c.size)
	s.push(c)
	if s.held > minUnread && s.held > w.stream.mostUnread() {
		s.stop(from)
	}
	if s.recvs.head != nil {
		s.feed()
		s.tell()
	} else {
		s.relist()
	}
	if kept {
		return ucs.InProgress
	}
	return nil
}
