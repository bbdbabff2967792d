//go:build linux

package verbstest

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

const (
	block    = abi.MLX5_SEND_WQE_BB
	segment  = 16 // bytes: the unit of an entry's length
	maxEntry = 63 * segment
)

// mlx5SQ is the send queue of a queue pair in a program's memory. Indices count blocks and are not
// reduced to the size of the queue.
type mlx5SQ struct {
	q      *qp
	uidx   uint32 // number of the queue pair in its completions
	buf    piece
	rec    piece // doorbell record of the queue pair
	blocks uint16
	page   *uar
	reg    int  // register for the doorbells of the queue pair, -1: any of the page
	shared bool // other queue pairs use the same register, and may overwrite a doorbell of this one
	ended  bool

	next            uint16 // index of the next block to execute
	upto            uint16 // index after the last block that was passed to the device
	last            uint16 // index after the last entry that a doorbell was rung for
	doorbellSeen    bool   // a doorbell was rung since noticed was called
	missingDoorbell bool   // no doorbell was rung for the last entry yet
	fence           bool   // the next entry must have a fence flag
	reportedAt      int    // index of the next entry if its error has been reported, else -1

	entry [maxEntry]byte
	path  path // path to the last address, which is av
	av    abi.Mlx5WqeAv
	to    abi.Mlx5WqeAv // address in the entry that is being decoded
	freed func()
}

// after returns the distance from index b to index a in blocks, which is negative if a is before b.
func after(a, b uint16) int { return int(int16(a - b)) }

func (s *mlx5SQ) broke(format string, args ...any) {
	s.q.f.broke("QP %#x: "+format, append([]any{s.q.num}, args...)...)
}

// beginPoll is called before the doorbells that a poll has found are handled. It resets the fields
// named and last.
func (s *mlx5SQ) beginPoll() { s.doorbellSeen, s.last = false, s.next }

// rung handles a doorbell, which is the first 8 bytes of the last entry. The doorbell record must
// already cover the entry, and the entry must be in the queue.
func (s *mlx5SQ) rung(v uint64) {
	index, blocks := uint16(v>>40), uint16(v&63+3)/4
	if s.q.attr.QpState < stateRTS {
		s.broke("a doorbell in state %d", s.q.attr.QpState)
	}
	rec := s.record()
	if after(index, rec) >= 0 {
		s.broke("a doorbell of the entry at block %#x, but the doorbell record is %#x", index, rec)
		return
	}
	if after(index, s.next) < 0 {
		// The entry was executed after an earlier doorbell, because the record already covered it.
		if index+max(blocks, 1) == s.upto {
			s.missingDoorbell = false
		}
		return
	}
	if there := s.first(index); there != v && s.record() == rec {
		s.broke("a doorbell %#016x differs from the beginning of the entry at block %#x, %#016x", v, index, there)
	}
	if end := index + max(blocks, 1); !s.doorbellSeen || after(end, s.last) > 0 {
		s.last = end
	}
	s.doorbellSeen = true
}

// endPoll is called after the doorbells that a poll has found have been handled. It takes the end of
// the queue from the doorbell record.
func (s *mlx5SQ) endPoll() {
	if s.ended {
		return
	}
	rec := s.record()
	n := after(rec, s.next)
	if n < 0 || n > int(s.blocks) {
		s.broke("invalid doorbell record %#x: queue of %d blocks, next block %#x", rec, s.blocks, s.next)
		return
	}
	if s.q.attr.QpState >= stateRTS {
		s.upto = rec
	}
	if s.doorbellSeen || s.shared {
		s.missingDoorbell = !s.shared && s.last != rec
	}
}

// record returns the index after the last entry, from the doorbell record.
func (s *mlx5SQ) record() uint16 { return uint16(s.rec.be32(4)) }

// at returns the offset of a block in the memory of the queue.
func (s *mlx5SQ) at(index uint16) int { return int(index&(s.blocks-1)) * block }

// first returns the first 8 bytes of a block.
func (s *mlx5SQ) first(index uint16) uint64 {
	b := s.entry[:8]
	s.buf.read(s.at(index), b)
	return binary.BigEndian.Uint64(b)
}

// sent returns the length of an entry in segments and its operation, from the first 8 bytes.
func sent(first uint64) (segments int, op uint8) { return int(first & 63), uint8(first >> 32) }

func (s *mlx5SQ) waiting() bool { return s.next != s.upto }

// take removes the first entry from the queue.
func (s *mlx5SQ) take() tag {
	n, op := sent(s.first(s.next))
	t := tag{index: s.next, op: op}
	s.next += uint16(max(n+3, 4) / 4)
	s.reportedAt = -1
	s.fence = op == abi.MLX5_OPCODE_UMR
	if after(s.next, s.upto) > 0 {
		s.broke("an entry at block %#x of %d segments exceeds the doorbell record %#x", t.index, n, s.upto)
		s.next = s.upto
	}
	return t
}

func (s *mlx5SQ) reset() {
	s.reportMissing()
	s.next, s.upto, s.last, s.doorbellSeen, s.missingDoorbell, s.fence, s.reportedAt = 0, 0, 0, false, false, false, -1
}

// begin is called when the queue pair leaves the reset state, in which nothing can be posted.
func (s *mlx5SQ) begin() {
	if r, t := s.rec.be32(0), s.rec.be32(4); r|t != 0 {
		s.broke("doorbell records %#x and %#x before anything was posted", r, t)
	}
}

func (s *mlx5SQ) end() {
	s.reportMissing()
	s.ended = true
	s.freed()
}

// reportMissing is called when the queue is reset or destroyed. It reports a missing doorbell, without
// access to the memory of the queue, which may be unmapped.
func (s *mlx5SQ) reportMissing() {
	if s.missingDoorbell {
		s.broke("no doorbell for the last entry, which ends at block %#x", s.upto)
	}
}

// copyEntry copies n bytes of the entry at a block. The entry may wrap around to the beginning of
// the queue.
func (s *mlx5SQ) copyEntry(index uint16, n int) []byte {
	b := s.entry[:n]
	at := s.at(index)
	head := min(n, int(s.blocks)*block-at)
	s.buf.read(at, b[:head])
	s.buf.read(0, b[head:])
	return b
}

// mlx5RQ is the receive queue of a queue pair in a program's memory. No doorbell announces
// receives. The device reads the doorbell record when it needs a receive.
type mlx5RQ struct {
	q     *qp
	buf   piece
	rec   piece // doorbell record of the queue pair
	n     uint16
	shift uint
	next  uint16 // index of the next receive, not reduced to the size of the queue
	wrong bool   // an invalid doorbell record has been reported
	room  [1024]byte
}

func (r *mlx5RQ) waiting() uint32 {
	n := uint16(r.rec.be32(0)) - r.next
	if n <= r.n {
		r.wrong = false
		return uint32(n)
	}
	if !r.wrong {
		r.wrong = true
		r.q.f.broke("QP %#x: invalid doorbell record %#x: queue of %d receives, next index %#x", r.q.num, r.rec.be32(0), r.n, r.next)
	}
	return 0
}

func (r *mlx5RQ) take() tag {
	t := tag{index: r.next}
	r.next++
	return t
}

func (r *mlx5RQ) read(w *receive) {
	b := r.room[:1<<r.shift]
	r.buf.read(int(r.next%r.n)<<r.shift, b)
	if why := receiveList(w, b); why != "" {
		r.q.f.broke("QP %#x: receive %#x: %s", r.q.num, r.next, why)
	}
	w.tag = r.take()
}

func (r *mlx5RQ) reset() { r.next, r.wrong = 0, false }
func (*mlx5RQ) end()     {}

// receiveList decodes the pieces of memory of a receive into w, up to the terminating piece or the
// end of the entry. It returns a description of an invalid piece, "" if there is none.
func receiveList(w *receive, b []byte) (wrong string) {
	w.length, w.broken = 0, false
	n := 0
	for ; len(b) >= segment && n < len(w.sges); b = b[segment:] {
		s := sge{length: binary.BigEndian.Uint32(b), lkey: binary.BigEndian.Uint32(b[4:]), addr: binary.BigEndian.Uint64(b[8:])}
		if s.length == 0 {
			if s.lkey != abi.MLX5_INVALID_LKEY || s.addr != 0 {
				w.broken, wrong = true, "a piece of 0 bytes, which means 2 GiB"
			}
			break
		}
		if s.length > 1<<31 {
			w.broken, wrong = true, "a piece of more than 2 GiB"
			break
		}
		w.sges[n] = s
		w.length += uint64(s.length)
		n++
	}
	w.list = w.sges[:n]
	return wrong
}

// mlx5SRQ is a shared receive queue in a program's memory. Its entries form a linked list.
type mlx5SRQ struct {
	s     *srq
	buf   piece
	rec   piece
	n     uint32 // number of entries
	size  int    // bytes of an entry
	place uint16 // index of the next entry
	count uint16 // number of entries taken, modulo 1<<16
	wrong bool
	freed func()
	room  [1024]byte
}

func (r *mlx5SRQ) waiting() uint32 {
	n := uint16(r.rec.be32(0)) - r.count
	if uint32(n) < r.n {
		r.wrong = false
		return uint32(n)
	}
	if !r.wrong {
		r.wrong = true
		r.s.f.broke("shared receive queue %#x: invalid doorbell record %#x: queue of %d entries, %d taken", r.s.num, r.rec.be32(0), r.n, r.count)
	}
	return 0
}

func (r *mlx5SRQ) take() tag {
	b := r.room[:segment]
	r.buf.read(int(r.place)*r.size, b)
	t := tag{index: r.place}
	next := binary.BigEndian.Uint16(b[2:])
	if uint32(next) >= r.n || next == r.place {
		r.s.f.broke("shared receive queue %#x: entry %#x names the next entry %#x, the queue has %d", r.s.num, r.place, next, r.n)
		next = 0
	}
	r.count++
	r.place = next
	return t
}

func (r *mlx5SRQ) read(w *receive) {
	b := r.room[:r.size]
	r.buf.read(int(r.place)*r.size, b)
	var head abi.Mlx5WqeSrqNextSeg
	copy(raw(&head), b)
	why := receiveList(w, b[segment:])
	if why == "" && !r.s.f.k.cfg.MLX5.Loose && (head.Signature != 0 || head.Rsvd0 != [2]uint8{} || head.Rsvd1 != [11]uint8{}) {
		why = "reserved bytes are set"
	}
	if why != "" {
		r.s.f.broke("shared receive queue %#x: entry %#x: %s", r.s.num, r.place, why)
	}
	w.tag = r.take()
}

func (*mlx5SRQ) reset() {}
func (r *mlx5SRQ) end() { r.freed() }
