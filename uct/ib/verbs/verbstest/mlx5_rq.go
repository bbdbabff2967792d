//go:build linux

package verbstest

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// mlx5RQ is the receive queue of a queue pair in a program's memory. Nobody tells the
// device of receives: it reads the record when it needs one.
type mlx5RQ struct {
	q     *qp
	buf   piece
	rec   piece // of the queue pair
	n     uint16
	shift uint
	next  uint16 // to be taken; runs free
	wrong bool   // the record was, and that has been said
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
		r.q.f.broke("QP %#x: a record of %#x, with %d receives of which the next is %#x", r.q.num, r.rec.be32(0), r.n, r.next)
	}
	return 0
}

func (r *mlx5RQ) take() tag {
	t := tag{place: r.next}
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

// receiveList reads the pieces of a receive, up to one that ends the list or to the end
// of the entry.
func receiveList(w *receive, b []byte) (wrong string) {
	w.length, w.broken = 0, false
	n := 0
	for ; len(b) >= segment && n < len(w.sges); b = b[segment:] {
		s := sge{length: binary.BigEndian.Uint32(b), lkey: binary.BigEndian.Uint32(b[4:]), addr: binary.BigEndian.Uint64(b[8:])}
		if s.length == 0 {
			if s.lkey != abi.MLX5_INVALID_LKEY || s.addr != 0 {
				w.broken, wrong = true, "a piece of 0 bytes, which are 2 GiB"
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

// mlx5SRQ is a shared receive queue in a program's memory: entries that each name the
// next.
type mlx5SRQ struct {
	s     *srq
	buf   piece
	rec   piece
	n     uint32 // entries
	size  int    // of an entry
	place uint16 // of the next one
	count uint16 // that were taken; runs free
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
		r.s.f.broke("shared receive queue %#x: a record of %#x, with %d entries of which %d were taken", r.s.num, r.rec.be32(0), r.n, r.count)
	}
	return 0
}

func (r *mlx5SRQ) take() tag {
	b := r.room[:segment]
	r.buf.read(int(r.place)*r.size, b)
	t := tag{place: r.place}
	next := binary.BigEndian.Uint16(b[2:])
	if uint32(next) >= r.n || next == r.place {
		r.s.f.broke("shared receive queue %#x: entry %#x with the next %#x, of %d", r.s.num, r.place, next, r.n)
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
		why = "something in what is reserved of it"
	}
	if why != "" {
		r.s.f.broke("shared receive queue %#x: entry %#x: %s", r.s.num, r.place, why)
	}
	w.tag = r.take()
}

func (*mlx5SRQ) reset() {}
func (r *mlx5SRQ) end() { r.freed() }
