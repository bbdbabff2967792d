//go:build linux

package mlx5

import (
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// round is a request to post, and its completion.
type round struct {
	name string
	post func(q *qp, mem []byte)
	op   uint8 // of the completion
	code uint8
}

// rounds returns the requests that package verbs posts.
func rounds(s *srq) []round {
	list := []provider.SGE{piece64}
	write := toPeer(provider.WRRDMAWrite, provider.SendSignaled)
	write.Length = 64
	short := write
	short.Flags |= provider.SendInline
	short.Length = 8
	add := toPeer(provider.WRAtomicFetchAndAdd, provider.SendSignaled)
	inv := toPeer(provider.WRLocalInv, provider.SendSignaled)
	recv := []provider.RecvWR{{ID: 1, SGList: list}}
	return []round{
		{"write", func(q *qp, _ []byte) { q.Begin(&write, list); q.Ring(0) }, abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_RDMA_WRITE},
		{"inline", func(q *qp, mem []byte) {
			from, to, _ := q.Begin(&short, nil)
			copy(mem[from:to], "01234567")
			q.Ring(0)
		}, abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_RDMA_WRITE},
		{"gather", func(q *qp, _ []byte) { q.Begin(&write, nil); q.Gather(piece64); q.Ring(0) }, abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_RDMA_WRITE},
		{"add", func(q *qp, _ []byte) { q.Begin(&add, nil); q.Gather(piece8); q.Ring(0) }, abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_ATOMIC_FA},
		{"invalidate", func(q *qp, _ []byte) { q.Begin(&inv, nil); q.Ring(0) }, abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_UMR},
		{"receive", func(q *qp, _ []byte) { q.PostRecv(recv) }, abi.MLX5_CQE_RESP_SEND, 0},
		{"shared receive", func(*qp, []byte) { s.PostRecv(recv) }, abi.MLX5_CQE_RESP_SEND, 0},
	}
}

// rig returns a function that posts a request and polls its completion, as of a device that
// completes at once.
func (k *round) rig(t testing.TB, c *context) (step func() int) {
	cq := newCQ(t, c, 100)
	s := newSRQ(t, c, 100, 1)
	a := rc(cq, 100, 100)
	if k.name == "shared receive" {
		a.SRQ = s
	}
	q := newQP(t, a)
	for _, r := range rounds(s) {
		if r.name == k.name {
			k.post = r.post
		}
	}
	w := q.of(k.op, k.code, 0)
	cq.put(0, w)
	cq.put(cq.size, w)
	done := *cq.queue.at(0)
	cq.queue.at(0).OpOwn = 0xf0
	mem := q.sends()
	wc := make([]provider.WC, 1)
	posted := uint16(0)
	return func() int {
		at := uint16(q.post + (q.len+3)/4)
		if k.op != abi.MLX5_CQE_REQ {
			at = posted & 127
			posted++
			if a.SRQ != nil {
				at = uint16(s.head)
			}
		}
		k.post(q, mem)
		e := cq.queue.at(cq.next)
		*e = done
		e.WqeCounter.Put(at)
		e.OpOwn = k.op<<4 | uint8(cq.next>>cq.round&1)
		return cq.Poll(wc)
	}
}

func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	versions(t, func(t *testing.T, c *context) {
		for _, k := range rounds(nil) {
			step := k.rig(t, c)
			bad := 0
			n := testing.AllocsPerRun(1000, func() {
				if step() != 1 {
					bad++
				}
			})
			if n != 0 || bad != 0 {
				t.Errorf("%s allocates %v times; %d times nothing has completed", k.name, n, bad)
			}
		}
	})
}

func BenchmarkPostPoll(b *testing.B) {
	for _, k := range rounds(nil) {
		b.Run(k.name, func(b *testing.B) {
			step := k.rig(b, newContext(b))
			b.ReportAllocs()
			for b.Loop() {
				if step() != 1 {
					b.Fatal("nothing has completed")
				}
			}
		})
	}
}

// BenchmarkBatch posts 32 writes with one doorbell and polls them.
func BenchmarkBatch(b *testing.B) {
	cq := newCQ(b, newContext(b), 100)
	q := newQP(b, rc(cq, 100, 1))
	wr := toPeer(provider.WRRDMAWrite, 0)
	list := []provider.SGE{piece64}
	wc := make([]provider.WC, 32)
	for b.Loop() {
		for i := range 32 {
			w := q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_RDMA_WRITE, uint16(q.post+(q.len+3)/4))
			q.Begin(&wr, list)
			cq.put(cq.next+uint32(i), w)
		}
		q.Ring(0)
		if cq.Poll(wc) != 32 {
			b.Fatal("nothing has completed")
		}
	}
}

// BenchmarkEmpty polls an empty queue.
func BenchmarkEmpty(b *testing.B) {
	cq := newCQ(b, newContext(b), 100)
	wc := make([]provider.WC, 1)
	for b.Loop() {
		cq.Poll(wc)
	}
}
