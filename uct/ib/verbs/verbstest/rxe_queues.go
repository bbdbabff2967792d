//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Contents of the rings of rdma_rxe.

// Sizes of the fixed parts of work requests, and of a scatter/gather element after one.
const (
	sendWQESize = 208
	recvWQESize = 40
	sgeSize     = 16
)

// Flags of a work request; enum ib_send_flags, ib_verbs.h.
const (
	flagSignaled  = 1 << 1
	flagSolicited = 1 << 2
	flagInline    = 1 << 3
)

// rxeCQ is a ring of completions.
type rxeCQ struct {
	x    *rxeFile
	ring *ring
}

func (q *rxeCQ) full() bool { return q.ring.full() }
func (q *rxeCQ) end()       { q.x.drop(q.ring) }

func (q *rxeCQ) put(c completion) {
	c.wc.WrId = c.tag.id
	copy(q.ring.at(q.ring.index), abi.Bytes(&c.wc))
	q.ring.produce()
}

// rxeSQ is a ring of sends.
type rxeSQ struct {
	x    *rxeFile
	ring *ring
	q    *qp
}

func (s *rxeSQ) waiting() bool { return s.ring.waiting() > 0 }
func (s *rxeSQ) end()          { s.x.drop(s.ring) }

func (s *rxeSQ) take() tag {
	t := tag{id: u64(s.ring.at(s.ring.index))}
	s.ring.consume()
	return t
}

func (s *rxeSQ) begin() {}

func (s *rxeSQ) reset() {
	for s.ring.waiting() > 0 {
		s.ring.consume()
	}
}

func (s *rxeSQ) read(w *request) {
	var wqe abi.RxeSendWqe
	b := s.ring.at(s.ring.index)
	fetch(&wqe, b)
	b = b[sendWQESize:]
	wr, d, cap := &wqe.Wr, &wqe.Dma, &s.q.cap
	w.tag.id, w.op, w.ex, w.length = wr.WrId, wr.Opcode, wr.Ex, d.Length
	w.signaled, w.solicited, w.inline = wr.SendFlags&flagSignaled != 0, wr.SendFlags&flagSolicited != 0, wr.SendFlags&flagInline != 0
	broken := false
	if w.inline {
		if broken = d.Length > cap.MaxInlineData || int(d.Length) > len(b); !broken {
			copy(w.data[:d.Length], b)
			w.sges[0] = sge{length: d.Length, inline: true}
			w.list = w.sges[:1]
		}
	} else {
		w.list, broken = gatherList(w.sges[:], d, b, cap.MaxSendSge)
	}
	if broken {
		w.status = wcLocLen
	}
	switch wr.Opcode {
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, abi.IB_UVERBS_WR_RDMA_READ:
		r := view[abi.RxeRdmaWr](wr)
		w.addr, w.rkey = r.RemoteAddr, r.Rkey
	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		a := view[abi.RxeAtomicWr](wr)
		w.addr, w.rkey, w.add, w.swap = a.RemoteAddr, a.Rkey, a.CompareAdd, a.Swap
	case abi.IB_UVERBS_WR_BIND_MW:
		b := view[abi.RxeMwWr](wr)
		w.bind = binding{window: b.MwRkey, key: b.Rkey, typ: 2, lkey: b.MrLkey, addr: b.Addr, start: b.Addr, length: b.Length, access: b.Access}
	}
	if s.q.typ == abi.IB_UVERBS_QPT_UD {
		u := view[abi.RxeUdWr](wr)
		w.qpn, w.qkey = u.RemoteQpn, u.RemoteQkey
		if a := s.x.f.k.ahs[u.AhNum]; a != nil && a.pd == s.q.pd {
			w.to = &a.path
		}
	}
}

// gatherList decodes the gather list in b into room and returns the used part of room; broken is
// true if the list is invalid.
func gatherList(room []sge, d *abi.RxeDmaInfo, b []byte, most uint32) (list []sge, broken bool) {
	n := int(d.NumSge)
	if d.NumSge > most || n > len(room) || n*sgeSize > len(b) {
		return nil, true
	}
	total := uint64(0)
	for i := range n {
		s := b[i*sgeSize:]
		room[i] = sge{addr: u64(s), length: u32(s[8:]), lkey: u32(s[12:])}
		total += uint64(room[i].length)
	}
	return room[:n], total != uint64(d.Length) || d.Resid != d.Length || d.CurSge != 0 || d.SgeOffset != 0
}

// rxeRQ is a ring of receives.
type rxeRQ struct {
	x    *rxeFile
	ring *ring
	sges uint32 // scatter/gather elements of a receive
}

func (r *rxeRQ) waiting() uint32 { return r.ring.waiting() }
func (r *rxeRQ) end()            { r.x.drop(r.ring) }

func (r *rxeRQ) take() tag {
	t := tag{id: u64(r.ring.at(r.ring.index))}
	r.ring.consume()
	return t
}

func (r *rxeRQ) reset() {
	for r.ring.waiting() > 0 {
		r.ring.consume()
	}
}

func (r *rxeRQ) read(w *receive) {
	var wqe abi.RxeRecvWqe
	b := r.ring.at(r.ring.index)
	fetch(&wqe, b)
	w.length = uint64(wqe.Dma.Length)
	w.list, w.broken = gatherList(w.sges[:], &wqe.Dma, b[recvWQESize:], r.sges)
	w.tag = r.take()
}
