package ucp

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// onStreamData receives bytes of a stream.
func (w *Worker) onStreamData(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	h, data, err := proto.ParseStreamData(data)
	if err != nil {
		return w.malformed(err)
	}
	ep := w.endpoints.Get(uint64(h.EpID))
	if ep == nil || ep.err != nil || ep.life.Refuses() {
		w.stats.Dropped++
		return nil
	}
	if w.foreign(src, ep) || len(data) == 0 {
		return nil
	}
	s := ep.streaming()
	if r := s.recvs.head; r != nil && s.first == nil && !s.feeding {
		if r.data.class == DatatypeContig && r.portion(len(data)) == len(data) { // as feed does
			cpu.Copy(r.data.buf[r.offset:], data)
			if r.got(len(data)) {
				r.finish(nil)
			}
			return nil
		}
		return s.feedFrom(w.sourceOf(src), data)
	}
	return s.keep(w.sourceOf(src), data, desc)
}

// feedFrom fills receives from a packet, and keeps a copy of what is left: the callbacks of
// the receives may take it.
func (s *stream) feedFrom(from *source, data []byte) error {
	w := s.ep.w
	c := w.newChunk()
	c.data = data
	s.push(c)
	s.borrowed = true
	s.feed()
	var err error
	if s.borrowed {
		data = c.data
		w.putChunk(s.pop())
		err = s.keep(from, data, nil)
	}
	s.tell()
	return err
}

// keep stores bytes that no receive has taken. The result is the handler's.
func (s *stream) keep(from *source, data []byte, desc *uct.AMDesc) error {
	w, ep := s.ep.w, s.ep
	payer := from
	if s.payer != nil {
		payer = s.payer
	}
	if err := w.charge(payer, chunkSize+len(data)); err != nil {
		ep.overrun(err)
		return err
	}
	if ep.err != nil || ep.life.Stage == life.Gone {
		return nil // to make room
	}
	if s.recvs.head != nil {
		desc = nil // a receive may take it at once, before the transport has given it away
	}
	c := w.newChunk()
	kept := c.store(w, data, desc)
	s.charge(payer, c.size)
	s.push(c)
	if s.held > leastUnread && s.held > w.mostUnread() {
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
