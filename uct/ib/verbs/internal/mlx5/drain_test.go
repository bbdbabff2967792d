//go:build linux

package mlx5

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// three returns a completion queue of three queue pairs, each with 10 sends and 10 receives posted,
// at different indices. The second uses a shared receive queue.
func three(t *testing.T, c *context, at uint32) (*cq, [3]*qp, *srq) {
	t.Helper()
	cq := newCQ(t, c, 20) // 32 entries
	s := newSRQ(t, c, 15, 1)
	var qps [3]*qp
	for i := range qps {
		a := rc(cq, 16, 16)
		if i == 1 {
			a.SRQ = s
		}
		qps[i] = newQPN(t, a, provider.QPN(testQPN+i))
		for k := range 10 {
			qps[i].send(t, provider.WR{ID: uint64(100*i + k), Opcode: provider.WRSend})
			wr := []provider.RecvWR{{ID: uint64(100*i + 50 + k)}}
			if i == 1 {
				s.PostRecv(wr)
			} else {
				qps[i].PostRecv(wr)
			}
		}
	}
	cq.next = at
	for i := range cq.size { // a previous round
		cq.put(at-cq.size+i, completion{op: abi.MLX5_CQE_REQ})
	}
	return cq, qps, s
}

// TestDrain checks that the unread completions of a queue pair that is closed or reset are polled
// before those of others, wherever in the queue they are, and that shared receives are freed.
func TestDrain(t *testing.T) {
	versions(t, func(t *testing.T, c *context) {
		for _, at := range []uint32{0, 1, 20, 28, 31, 0xffffffff} {
			for target := range 3 {
				for _, reset := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d of %d, reset %v", target, at, reset), func(t *testing.T) {
						cq, qps, s := three(t, c, at)
						var want, others []uint64
						n := uint32(0)
						for k := range 5 {
							for i, q := range qps {
								cq.put(at+n, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, uint16(k)))
								cq.put(at+n+1, q.of(abi.MLX5_CQE_RESP_SEND, 0, uint16(k)))
								n += 2
								list := &others
								if i == target {
									list = &want
								}
								if n > 2 { // the first was polled before
									*list = append(*list, uint64(100*i+k))
								}
								*list = append(*list, uint64(100*i+50+k))
							}
						}
						cq.Poll(make([]provider.WC, 1))
						if reset {
							qps[target].Reset()
						} else {
							qps[target].Detach()
						}
						left := uint32(len(others))
						if counter(cq.rec, 0) != (at+n-left)&0xffffff {
							t.Errorf("the record is %d, with %d left of %d from %d", counter(cq.rec, 0), left, n, at)
						}
						want = append(want, others...)
						wc := make([]provider.WC, 40)
						got := ids(wc[:cq.Poll(wc[:3])])
						if got = append(got, ids(wc[:cq.Poll(wc)])...); !slices.Equal(got, want) {
							t.Errorf("%d, want %d", got, want)
						}
						// Later completions are found.
						q := qps[(target+1)%3]
						cq.put(cq.next, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 7))
						if wc := cq.poll(); len(wc) != 1 {
							t.Errorf("%+v behind them", wc)
						}
						for i := range qps {
							qps[i].Detach()
						}
						s.Detach()
						cq.Detach()
					})
				}
			}
		}
	})
}

// TestDrainShared checks that the entries of shared receives whose queue pair is closed are free
// again.
func TestDrainShared(t *testing.T) {
	versions(t, func(t *testing.T, c *context) {
		cq := newCQ(t, c, 20)
		s := newSRQ(t, c, 7, 1)
		for round := range 5 {
			a := rc(cq, 1, 0)
			a.SRQ = s
			q := newQP(t, a)
			if n, err := s.PostRecv(make([]provider.RecvWR, 7)); n != 7 || err != nil {
				t.Fatalf("round %d: %d: %v", round, n, err)
			}
			for i := range uint32(8) {
				if s.requests[i].posted {
					op := []uint8{abi.MLX5_CQE_RESP_SEND, abi.MLX5_CQE_RESP_ERR}[i%2]
					cq.put(cq.next+cq.unread(), q.of(op, 0, uint16(i)))
				}
			}
			q.Detach()
			wc, failed := cq.poll(), 0
			for k := range wc {
				if wc[k].Status != provider.WCSuccess {
					failed++
				}
			}
			if len(wc) != 7 || failed < 3 || failed > 4 {
				t.Fatalf("round %d: %+v", round, wc)
			}
		}
	})
}

// TestNumbersAgain checks that a queue pair which reuses the number of a closed one does not get
// its completions.
func TestNumbersAgain(t *testing.T) {
	versions(t, func(t *testing.T, c *context) {
		one, two := newCQ(t, c, 10), newCQ(t, c, 10)
		for i := range 10 {
			a := rc(one, 4, 4)
			a.RecvCQ = two
			if i%2 == 1 {
				a.SendCQ, a.RecvCQ = two, one
			}
			q := newQP(t, a)
			q.send(t, provider.WR{Opcode: provider.WRSend})
			q.PostRecv(make([]provider.RecvWR, 1))
			if len(one.poll())+len(two.poll()) != 0 {
				t.Fatal("completions of another")
			}
			q.sendCQ.put(q.sendCQ.next, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 0))
			q.recvCQ.put(q.recvCQ.next, q.of(abi.MLX5_CQE_RESP_SEND, 0, 0))
			if c.uidx && q.number != 0 {
				t.Errorf("number %d", q.number)
			}
			q.Detach()
			q.Detach()
			if len(one.poll()) != 1 || len(two.poll()) != 1 {
				t.Fatal("not the completions of what is gone")
			}
		}
	})
}

// TestDrainPolled drains completion queues while other goroutines poll them.
func TestDrainPolled(t *testing.T) {
	c := newContext(t)
	one, two := newCQ(t, c, 100), newCQ(t, c, 100)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, q := range []*cq{one, two} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				default:
					q.poll()
				}
			}
		}()
	}
	var makers sync.WaitGroup
	for i := range 2 {
		makers.Add(1)
		go func() {
			defer makers.Done()
			for range 300 {
				a := rc(one, 4, 4)
				a.RecvCQ = two
				if i == 1 {
					a.SendCQ, a.RecvCQ = two, one
				}
				o, err := c.NewQP(a)
				if err != nil {
					t.Error(err)
					return
				}
				q := o.(*qp)
				q.Attach(&provider.QPMade{QPN: provider.QPN(i)})
				q.Reset()
				q.Detach()
			}
		}()
	}
	makers.Wait()
	close(stop)
	wg.Wait()
}

// TestResize checks that unread completions continue in the new memory, at the next index, with the
// owner bits for its size.
func TestResize(t *testing.T) {
	for _, from := range []int{3, 7, 40} {
		for _, to := range []int{3, 7, 100} {
			for at := range uint32(17) {
				c := newContext(t)
				cq := newCQ(t, c, from)
				q := newQP(t, rc(cq, 64, 1))
				cq.next = at
				for i := range cq.size {
					cq.put(at-cq.size+i, completion{})
				}
				next := uint64(0)
				put := func(n int) (want []uint64) {
					for i := range n {
						q.send(t, provider.WR{ID: next, Opcode: provider.WRSend})
						cq.put(cq.next+uint32(i), q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, uint16(next)))
						want = append(want, next)
						next++
					}
					return want
				}
				want := put(2)
				size := to
				r, err := cq.Resize(&size)
				if err != nil {
					t.Fatal(err)
				}
				if from == to {
					if r != nil {
						t.Fatal("something to be done for the same size")
					}
					continue
				}
				cq.put(at+2, q.of(abi.MLX5_CQE_RESIZE_CQ, 0, 0))
				if in, out := r.Data(); len(in) != 16 || out != nil {
					t.Errorf("% x, % x", in, out)
				}
				if err := r.Done(&size); err != nil || size != int(cq.size)-1 || size < to {
					t.Fatalf("room for %d: %v", size, err)
				}
				// The device continues at the following index.
				q.send(t, provider.WR{ID: next, Opcode: provider.WRSend})
				cq.put(at+3, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, uint16(next)))
				want = append(want, next)
				next++
				if got := ids(cq.poll()); !slices.Equal(got, want) {
					t.Fatalf("from %d to %d at %d: %d, want %d", from, to, at, got, want)
				}
				if counter(cq.rec, 0) != at+4 {
					t.Errorf("the record is %d", counter(cq.rec, 0))
				}
				for range 30 { // beyond the end of the queue
					want = put(3)
					if got := ids(cq.poll()); !slices.Equal(got, want) {
						t.Fatalf("later: %d, want %d", got, want)
					}
				}
			}
		}
	}
}

// TestResizeRefused checks resizes that are too small or too large, and one that the kernel
// refuses.
func TestResizeRefused(t *testing.T) {
	c := newContext(t)
	cq := newCQ(t, c, 10)
	q := newQP(t, rc(cq, 16, 1))
	for i := range uint32(8) {
		q.send(t, provider.WR{ID: uint64(i), Opcode: provider.WRSend})
		cq.put(i, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, uint16(i)))
	}
	for _, size := range []int{7, 0, 1 << 24} {
		if _, err := cq.Resize(&size); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("room for %d: %v", size, err)
		}
	}
	size := 100
	r, err := cq.Resize(&size)
	if err != nil || size != 127 {
		t.Fatal(size, err)
	}
	r.Failed()
	if wc := cq.poll(); len(wc) != 8 || cq.size != 16 {
		t.Errorf("%d completions in %d", len(wc), cq.size)
	}
	if r, err = cq.Resize(&size); err != nil {
		t.Fatal(err)
	}
	if err := r.Done(&size); !errors.Is(err, ucs.ErrIO) {
		t.Error(err)
	}
	if _, err := cq.Resize(&size); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Error(err)
	}
	if wc := cq.poll(); len(wc) != 0 {
		t.Errorf("%+v", wc)
	}
}
