//go:build linux

package verbstest

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

const (
	block    = abi.MLX5_SEND_WQE_BB
	segment  = 16 // bytes: what entries are counted in
	maxEntry = 63 * segment
)

// mlx5SQ is the send queue of a queue pair in a program's memory. Indices count blocks
// and run free.
type mlx5SQ struct {
	q      *qp
	uidx   uint32 // of the queue pair, as its completions name it
	buf    piece
	rec    piece // of the queue pair
	blocks uint16
	page   *uar
	reg    int  // that it was given, -1 for any of the page
	shared bool // another queue pair's doorbell may have taken the place of one of this
	ended  bool

	next   uint16 // block to be done
	upto   uint16 // up to where the device was told
	last   uint16 // up to where doorbells have named entries
	named  bool   // there is a doorbell that was not looked at
	owed   bool   // the last entry has not been named by a doorbell
	fence  bool   // the next entry has to wait for the one before
	judged int    // the block of the entry that was found wrong, -1 for none

	entry [maxEntry]byte
	way   way // that the last address led
	av    abi.Mlx5WqeAv
	to    abi.Mlx5WqeAv // that is read
	freed func()
}

// after is how far a is behind b, in blocks.
func after(a, b uint16) int { return int(int16(a - b)) }

func (s *mlx5SQ) broke(format string, args ...any) {
	s.q.f.broke("QP %#x: "+format, append([]any{s.q.num}, args...)...)
}

// noticed begins a look at the doorbells.
func (s *mlx5SQ) noticed() { s.named, s.last = false, s.next }

// rung is a doorbell: the first 8 bytes of the last entry. What it names the record has
// to tell of already, and it has to be there.
func (s *mlx5SQ) rung(v uint64) {
	index, blocks := uint16(v>>40), uint16(v&63+3)/4
	if s.q.attr.QpState < stateRTS {
		s.broke("a doorbell in state %d", s.q.attr.QpState)
	}
	rec := s.record()
	if after(index, rec) >= 0 {
		s.broke("a doorbell of the entry at block %#x, with the record at %#x", index, rec)
		return
	}
	if after(index, s.next) < 0 {
		// It was done when another doorbell was seen, since the record had told of it.
		if index+max(blocks, 1) == s.upto {
			s.owed = false
		}
		return
	}
	if there := s.first(index); there != v && s.record() == rec {
		s.broke("a doorbell of %#016x, and the entry at block %#x begins with %#016x", v, index, there)
	}
	if end := index + max(blocks, 1); !s.named || after(end, s.last) > 0 {
		s.last = end
	}
	s.named = true
}

// told ends a look at the doorbells: the record says how far the queue goes.
func (s *mlx5SQ) told() {
	if s.ended {
		return
	}
	rec := s.record()
	n := after(rec, s.next)
	if n < 0 || n > int(s.blocks) {
		s.broke("a record of %#x, with %d blocks of which the next is %#x", rec, s.blocks, s.next)
		return
	}
	if s.q.attr.QpState >= stateRTS {
		s.upto = rec
	}
	if s.named || s.shared {
		s.owed = !s.shared && s.last != rec
	}
}

// record is the index behind the last entry.
func (s *mlx5SQ) record() uint16 { return uint16(s.rec.be32(4)) }

// at is where a block is.
func (s *mlx5SQ) at(index uint16) int { return int(index&(s.blocks-1)) * block }

// first are the first 8 bytes at a block.
func (s *mlx5SQ) first(index uint16) uint64 {
	b := s.entry[:8]
	s.buf.read(s.at(index), b)
	return binary.BigEndian.Uint64(b)
}

// sent are a control segment's length in segments and operation.
func sent(first uint64) (segments int, op uint8) { return int(first & 63), uint8(first >> 32) }

func (s *mlx5SQ) waiting() bool { return s.next != s.upto }

// take gives the first entry back.
func (s *mlx5SQ) take() tag {
	n, op := sent(s.first(s.next))
	t := tag{place: s.next, op: op}
	s.next += uint16(max(n+3, 4) / 4)
	s.judged = -1
	s.fence = op == abi.MLX5_OPCODE_UMR
	if after(s.next, s.upto) > 0 {
		s.broke("an entry at block %#x of %d segments, where the record says that there are no more than to %#x", t.place, n, s.upto)
		s.next = s.upto
	}
	return t
}

func (s *mlx5SQ) reset() {
	s.left()
	s.next, s.upto, s.last, s.named, s.owed, s.fence, s.judged = 0, 0, 0, false, false, false, -1
}

// begin is said when the queue pair leaves the state in which nothing can be posted.
func (s *mlx5SQ) begin() {
	if r, t := s.rec.be32(0), s.rec.be32(4); r|t != 0 {
		s.broke("records of %#x and %#x, where nothing was posted yet", r, t)
	}
}

func (s *mlx5SQ) end() {
	s.left()
	s.ended = true
	s.freed()
}

// left is said when nothing more comes. The memory of the queue may be gone.
func (s *mlx5SQ) left() {
	if s.owed {
		s.broke("the last entry, up to block %#x, was never named by a doorbell", s.upto)
	}
}

// copyEntry copies n bytes of the entry at a block, which may go on at the beginning of
// the queue.
func (s *mlx5SQ) copyEntry(index uint16, n int) []byte {
	b := s.entry[:n]
	at := s.at(index)
	head := min(n, int(s.blocks)*block-at)
	s.buf.read(at, b[:head])
	s.buf.read(0, b[head:])
	return b
}
