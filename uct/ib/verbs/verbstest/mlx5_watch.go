//go:build linux

package verbstest

import (
	"maps"
	"slices"
)

// What a program has put where a device as of mlx5_ib looks, for tests that compare
// programs.

// MLX5Watch is told what programs say to a device as of mlx5_ib and to its driver, in the
// middle of things: it must not call anything of the network.
type MLX5Watch interface {
	// Made is told of something that was made or resized, with what the program has said
	// to the driver.
	Made(what string, in []byte)
	// Rang is told of a doorbell: in which page, counted from 0 as they were made for the
	// program, at what offset, and the 8 bytes there, big endian. What is written behind
	// them as BlueFlame it is not told.
	Rang(page, offset int, stored uint64)
}

// WatchMLX5 has w told of what happens at a device as of mlx5_ib, nil for nobody.
func (k *Kernel) WatchMLX5(w MLX5Watch) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.watch = w
}

// made tells of what was made.
func (x *mlx5File) made(what string, d uhw) {
	if w := x.f.k.watch; w != nil {
		w.Made(what, slices.Clone(d.in))
	}
}

// rang tells of a doorbell at an offset, 0 for none.
func (u *uar) rang(offset int, v uint64) {
	if w := u.x.f.k.watch; w != nil && v != 0 {
		w.Rang(int(u.id-firstUAR), offset, v)
	}
}

// MLX5Queue is a queue that a device as of mlx5_ib finds in a program's memory.
type MLX5Queue struct {
	Kind   string   // "sends", "receives", "shared" or "completions"
	Number uint32   // of the queue pair, or its own
	Record []uint32 // as it was
	Size   int      // bytes
	Entry  int      // bytes of an entry, or what it is counted in
	memory piece
}

// Memory is a copy of what is in the queue now. The queue must not have been destroyed.
func (q *MLX5Queue) Memory() []byte {
	b := make([]byte, q.Size)
	if q.Size > 0 {
		q.memory.read(0, b)
	}
	return b
}

// MLX5Queues are the queues of a device as of mlx5_ib, as programs have made them.
func (k *Kernel) MLX5Queues() (list []MLX5Queue) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	add := func(kind string, number uint32, buf, rec piece, entry int) {
		q := MLX5Queue{Kind: kind, Number: number, Size: buf.n, Entry: entry, memory: buf}
		for off := 0; off < rec.n; off += 4 {
			q.Record = append(q.Record, rec.be32(off))
		}
		list = append(list, q)
	}
	for _, f := range k.files {
		for _, h := range slices.Sorted(maps.Keys(f.objects)) {
			switch o := f.objects[h].(type) {
			case *cq:
				q := o.queue.(*mlx5CQ)
				add("completions", q.num, q.buf, q.rec, q.size)
			case *srq:
				q := o.queue.(*mlx5SRQ)
				add("shared", o.num, q.buf, q.rec, q.size)
			case *qp:
				s := o.sq.(*mlx5SQ)
				add("sends", o.num, s.buf, s.rec, block)
				if r, ok := o.rq.(*mlx5RQ); ok {
					buf := r.buf
					buf.n = int(r.n) << r.shift
					if buf.far == nil {
						buf.mem = buf.mem[:buf.n]
					}
					add("receives", o.num, buf, r.rec, 1<<r.shift)
				}
			}
		}
	}
	return list
}
