//go:build linux

package mlx5

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// TestCompletions parses each kind of completion.
func TestCompletions(t *testing.T) {
	versions(t, func(t *testing.T, c *context) {
		cq := newCQ(t, c, 3)
		q := newQP(t, rc(cq, 4, 4))
		for i, k := range []struct {
			op, code uint8
			from     uint32
			want     provider.WC
		}{
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_RDMA_WRITE, 0, provider.WC{Opcode: provider.WCRDMAWrite}},
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_RDMA_WRITE_IMM, 0, provider.WC{Opcode: provider.WCRDMAWrite}},
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 0, provider.WC{Opcode: provider.WCSend}},
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND_IMM, 0, provider.WC{Opcode: provider.WCSend}},
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND_INVAL, 0, provider.WC{Opcode: provider.WCSend}},
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_RDMA_READ, 0, provider.WC{Opcode: provider.WCRDMARead, ByteLen: 99}},
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_ATOMIC_CS, 0, provider.WC{Opcode: provider.WCCompSwap, ByteLen: 8}},
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_ATOMIC_FA, 0, provider.WC{Opcode: provider.WCFetchAdd, ByteLen: 8}},
			{abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_UMR, 0, provider.WC{Opcode: provider.WCLocalInv}},
			{abi.MLX5_CQE_RESP_SEND, 0, 0, provider.WC{Opcode: provider.WCRecv, ByteLen: 99, PKeyIndex: 0xabcd}},
			{abi.MLX5_CQE_RESP_SEND, 0, 0x15000212, provider.WC{Opcode: provider.WCRecv, ByteLen: 99, PKeyIndex: 0xabcd, SrcQPN: peerQPN, SL: 5, Flags: provider.WCGRH}},
			{abi.MLX5_CQE_RESP_SEND, 0, 0x3f000212, provider.WC{Opcode: provider.WCRecv, ByteLen: 99, PKeyIndex: 0xabcd, SrcQPN: peerQPN, SL: 15, Flags: provider.WCGRH}},
			{abi.MLX5_CQE_RESP_SEND_IMM, 0, 0, provider.WC{Opcode: provider.WCRecv, ByteLen: 99, Imm: 0x1234abcd, Flags: provider.WCWithImm}},
			{abi.MLX5_CQE_RESP_WR_IMM, 0, 0, provider.WC{Opcode: provider.WCRecvRDMAWithImm, ByteLen: 99, Imm: 0x1234abcd, Flags: provider.WCWithImm}},
			{abi.MLX5_CQE_RESP_SEND_INV, 0, 0, provider.WC{Opcode: provider.WCRecv, ByteLen: 99, InvalidatedRKey: 0x1234abcd, Flags: provider.WCWithInv}},
		} {
			index := q.post
			q.send(t, provider.WR{ID: uint64(i + 1), Opcode: provider.WRLocalInv})
			if n, err := q.PostRecv([]provider.RecvWR{{ID: uint64(i + 1)}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			w := q.of(k.op, k.code, uint16(index))
			want := k.want
			want.ID, want.QPN = uint64(i+1), testQPN
			if responder(k.op) {
				want.SLID, want.DLIDPathBits = 0x1234, 3
				w.counter = uint16(i)
				q.completed(index) // no completion reports the send
			} else {
				q.rq.completed(uint32(i))
			}
			w.bytes, w.imm, w.from = 99, 0x1234abcd, k.from
			cq.put(cq.next, w)
			if wc := cq.poll(); len(wc) != 1 || wc[0] != want {
				t.Errorf("%d: %+v, want %+v", i, wc, want)
			}
			if counter(cq.rec, 0) != uint32(i+1) {
				t.Errorf("%d: the record is %d", i, counter(cq.rec, 0))
			}
		}
	})
}

// TestOwner checks, over many rounds, that a completion is found exactly when its owner bit is that
// of the round.
func TestOwner(t *testing.T) {
	c := newContext(t)
	cq := newCQ(t, c, 5) // 8 entries
	q := newQP(t, rc(cq, 32, 1))
	for i := range cq.size {
		if own := cq.queue.at(i).OpOwn; own != 0xf0 {
			t.Errorf("place %d begins with %#x", i, own)
		}
	}
	cq.next = 0xffffff00 // also beyond the end of 32 bits
	if wc := cq.poll(); len(wc) != 0 {
		t.Fatalf("%+v at first", wc)
	}
	for i := range uint32(8) { // as if a round had passed
		cq.put(cq.next-8+i, completion{})
	}
	next := uint64(0)
	for round := range 100 {
		n := round % 9
		for i := range n {
			q.send(t, provider.WR{ID: next + uint64(i), Opcode: provider.WRSend})
			cq.put(cq.next+uint32(i), q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, uint16(next)+uint16(i)))
		}
		want := make([]uint64, 0)
		for i := range n {
			want = append(want, next+uint64(i))
		}
		next += uint64(n)
		if got := ids(cq.poll()); !slices.Equal(got, want) {
			t.Fatalf("round %d: %d, want %d", round, got, want)
		}
		if n > 0 && counter(cq.rec, 0) != cq.next&0xffffff {
			t.Fatalf("round %d: the record is %#x at %#x", round, counter(cq.rec, 0), cq.next)
		}
	}
}

// TestErrors parses each syndrome, for sends and receives.
func TestErrors(t *testing.T) {
	versions(t, func(t *testing.T, c *context) {
		cq := newCQ(t, c, 100)
		q := newQP(t, rc(cq, 4, 4))
		s := newSRQ(t, c, 7, 1)
		a := rc(cq, 1, 0)
		a.SRQ = s
		p := newQPN(t, a, 0x142)
		known := map[uint8]provider.WCStatus{1: 1, 2: 2, 4: 4, 5: 5, 6: 6, 0x10: 7, 0x11: 8, 0x12: 9, 0x13: 10, 0x14: 11, 0x15: 12, 0x16: 13, 0x22: 16}
		for reason := range 256 {
			want := provider.WC{ID: uint64(reason), Status: 21, VendorErr: 0x68, QPN: testQPN}
			if st, ok := known[uint8(reason)]; ok {
				want.Status = st
			}
			wr := provider.RecvWR{ID: want.ID}
			index := q.post
			q.send(t, provider.WR{ID: want.ID, Opcode: provider.WRSend})
			place := s.head
			if n, err := s.PostRecv([]provider.RecvWR{wr}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			q.PostRecv([]provider.RecvWR{wr})
			for k, w := range []completion{q.of(abi.MLX5_CQE_REQ_ERR, abi.MLX5_OPCODE_SEND, uint16(index)),
				q.of(abi.MLX5_CQE_RESP_ERR, 0, uint16(reason)), p.of(abi.MLX5_CQE_RESP_ERR, 0, uint16(place))} {
				if k == 2 {
					want.QPN = 0x142
				}
				w.vendor, w.reason = 0x68, uint8(reason)
				cq.put(cq.next, w)
				if wc := cq.poll(); len(wc) != 1 || wc[0] != want {
					t.Errorf("%#x, %d: %+v, want %+v", reason, k, wc, want)
				}
			}
		}
	})
}

// TestForeign checks that completions for unknown queues, or for those of another completion queue,
// are skipped, and that the ones after them are not.
func TestForeign(t *testing.T) {
	versions(t, func(t *testing.T, c *context) {
		mine, other := newCQ(t, c, 10), newCQ(t, c, 10)
		q := newQP(t, rc(mine, 4, 4))
		p := newQPN(t, rc(other, 4, 4), 0x142)
		half := newQPN(t, &provider.QPInit{Type: provider.RC, SendCQ: mine, RecvCQ: other, Cap: provider.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}, 0x143)
		for _, q := range []*qp{q, p, half} {
			q.send(t, provider.WR{ID: 7, Opcode: provider.WRSend})
			q.PostRecv([]provider.RecvWR{{ID: 8}})
		}
		bad := []completion{
			p.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 0), p.of(abi.MLX5_CQE_RESP_SEND, 0, 0), p.of(abi.MLX5_CQE_REQ_ERR, 0, 0), p.of(abi.MLX5_CQE_RESP_ERR, 0, 0),
			half.of(abi.MLX5_CQE_RESP_SEND, 0, 0),
			{op: abi.MLX5_CQE_REQ, number: 0xffffff, qpn: 0xffffff},
			{op: abi.MLX5_CQE_RESP_SEND, number: 0x999, qpn: 0x999},
			q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 1), // not posted
			q.of(abi.MLX5_CQE_RESP_SEND, 0, 1),
			q.of(abi.MLX5_CQE_RESIZE_CQ, 0, 0), q.of(6, 0, 0), q.of(9, 0, 0), q.of(12, 0, 0),
		}
		for _, w := range bad {
			mine.put(mine.next, w)
			if wc := mine.poll(); len(wc) != 0 {
				t.Errorf("%+v is %+v", w, wc)
			}
		}
		mine.put(mine.next, bad[5])
		mine.put(mine.next+1, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 0))
		mine.put(mine.next+2, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 0)) // completed before
		mine.put(mine.next+3, q.of(abi.MLX5_CQE_RESP_SEND, 0, 0))
		mine.put(mine.next+4, half.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 0))
		if got := ids(mine.poll()); !slices.Equal(got, []uint64{7, 8, 7}) {
			t.Errorf("%d", got)
		}
	})
}

// TestArm checks that the record and the register contain the number of events taken, the consumer
// index, and the kind of completions.
func TestArm(t *testing.T) {
	for _, how := range []func(*fake, *abi.Mlx5AllocUcontextResp){version0, dynamic} {
		c := newContext(t, how)
		cq := newCQ(t, c, 10)
		cq.next = 0x12345678
		page := c.pages.mapped[0]
		check := func(solicited bool, want string) {
			t.Helper()
			if err := cq.Arm(solicited); err != nil {
				t.Fatal(err)
			}
			wantWords(t, "register", page[0x20:], want+" 00000077")
			if got := fmt.Sprintf("%08x", counter(cq.rec, 1)); got != want || counter(cq.rec, 0) != 0 {
				t.Errorf("the record is %s and %d, want %s", got, counter(cq.rec, 0), want)
			}
		}
		check(false, "00345678")
		check(true, "01345678")
		for range 3 {
			cq.EventTaken()
		}
		check(false, "30345678")
		cq.EventTaken()
		cq.EventTaken()
		check(true, "11345678")
		cq.Detach()
		if cq.Arm(false) == nil {
			t.Error("a queue that is gone was armed")
		}
		if wc := cq.poll(); len(wc) != 0 {
			t.Errorf("%+v of a queue that is gone", wc)
		}
	}
}

// FuzzCompletions lets a device write arbitrary completions. Nothing may break, and each posted
// request may be reported at most once.
func FuzzCompletions(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 3})
	f.Add(uint64(2), []byte{0xd0, 0xe1, 0xff})
	fuzztest.Run(f, func(t *testing.T, seed uint64, ops []byte) {
		for version := range uint8(2) {
			c := newContext(t, func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.CqeVersion = version })
			cq := newCQ(t, c, 7)
			q := newQP(t, rc(cq, 8, 8))
			s := newSRQ(t, c, 7, 1)
			a := rc(cq, 8, 0)
			a.SRQ = s
			p := newQPN(t, a, 0x142)
			rnd := rand.New(rand.NewPCG(seed, 1))
			sent, received, seen := 0, 0, map[provider.WCOpcode]int{}
			for _, op := range ops {
				for _, q := range []*qp{q, p} {
					if _, _, ok := q.Begin(&provider.WR{ID: 1, Opcode: provider.WROpcode(op % 10)}, nil); ok {
						sent++
					}
					q.Ring(0)
				}
				n, _ := s.PostRecv(make([]provider.RecvWR, op%4))
				received += n
				n, _ = q.PostRecv(make([]provider.RecvWR, op%4))
				received += n
				for range op % 9 {
					e := cq.queue.at(cq.next)
					for _, w := range []*abi.BE64{&e.Timestamp} {
						w.Put(rnd.Uint64())
					}
					numbers := []uint32{q.number, p.number, testQPN, 0x142, testSRQ, 0, rnd.Uint32()}
					e.SrqnUidx.Put(numbers[rnd.IntN(len(numbers))])
					e.SopDropQpn.Put(numbers[rnd.IntN(len(numbers))]&0xffffff | rnd.Uint32()<<24)
					e.WqeCounter.Put(uint16(rnd.Uint32() >> (16 + rnd.IntN(16))))
					e.FlagsRqpn.Put(rnd.Uint32())
					e.OpOwn = uint8(rnd.Uint32())&^1 | uint8(cq.next/cq.size&1)
					if rnd.IntN(4) == 0 {
						e.OpOwn ^= 1
					}
					wc := make([]provider.WC, 1)
					if cq.Poll(wc) == 1 && wc[0].Status == 0 {
						seen[wc[0].Opcode&128]++
					}
				}
				switch op % 16 {
				case 3:
					q.Reset()
				case 7:
					size := 3 + int(op)
					if r, err := cq.Resize(&size); err == nil && r != nil {
						if cq.put(cq.next, q.of(abi.MLX5_CQE_RESIZE_CQ, 0, 0)); op&16 == 0 {
							r.Failed()
						} else if r.Done(&size) != nil {
							return
						}
					}
				}
			}
			if seen[0] > sent || seen[128] > received {
				t.Errorf("%d sends and %d receives were posted, and %v completed", sent, received, seen)
			}
		}
	})
}
