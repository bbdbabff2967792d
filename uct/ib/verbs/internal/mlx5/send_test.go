//go:build linux

package mlx5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

var (
	piece64 = provider.SGE{Addr: 0x2_0000_0000, Length: 64, LKey: 0x129a}
	piece8  = provider.SGE{Addr: 0x2_0000_0040, Length: 8, LKey: 0x129a}
	nothing = provider.SGE{Addr: 0x2_0000_0000, LKey: 0x129a}
)

// toPeer returns a request for the peer's memory.
func toPeer(op provider.WROpcode, flags provider.SendFlags) provider.WR {
	return provider.WR{Opcode: op, Flags: flags, RemoteAddr: 0x2_0001_0000, RKey: 0x129a, Imm: 0xabcd, CompareAdd: 0x1111_2222_3333_4444, Swap: 0x5555_6666_7777_8888}
}

// TestEntries compares the entry of each kind of request with that of libmlx5.
func TestEntries(t *testing.T) {
	const data64, data8 = "00000040 0000129a 00000002 00000000", "00000008 0000129a 00000002 00000040"
	const remote = "00000002 00010000 0000129a 00000000"
	for _, c := range []struct {
		name   string
		wr     provider.WR
		list   []provider.SGE
		inline string
		want   string // with the index 4
	}{
		{"send", toPeer(provider.WRSend, provider.SendSignaled), []provider.SGE{piece64}, "", "0000040a 00014102 00000008 00000000 |" + data64},
		{"empty", toPeer(provider.WRSend, 0), []provider.SGE{nothing, nothing}, "", "0000040a 00014101 00000000 00000000"},
		{"pieces", toPeer(provider.WRSend, provider.SendSolicited), []provider.SGE{piece8, nothing, piece64}, "", "0000040a 00014103 00000002 00000000 |" + data8 + "|" + data64},
		{"immediate", toPeer(provider.WRSendWithImm, provider.SendFence|provider.SendSignaled), []provider.SGE{piece64}, "", "0000040b 00014102 00000088 0000abcd |" + data64},
		{"invalidate", toPeer(provider.WRSendWithInv, 0), nil, "", "00000401 00014101 00000000 0000abcd"},
		{"write", toPeer(provider.WRRDMAWrite, 0), []provider.SGE{piece64}, "", "00000408 00014103 00000000 00000000 |" + remote + "|" + data64},
		{"empty write", toPeer(provider.WRRDMAWrite, 0), nil, "", "00000408 00014102 00000000 00000000 |" + remote},
		{"write immediate", toPeer(provider.WRRDMAWriteWithImm, provider.SendSignaled), []provider.SGE{piece64}, "", "00000409 00014103 00000008 0000abcd |" + remote + "|" + data64},
		{"read", toPeer(provider.WRRDMARead, provider.SendSignaled), []provider.SGE{piece64}, "", "00000410 00014103 00000008 00000000 |" + remote + "|" + data64},
		{"swap", toPeer(provider.WRAtomicCmpAndSwp, provider.SendSignaled), []provider.SGE{piece8}, "",
			"00000411 00014104 00000008 00000000 |" + remote + "| 55556666 77778888 11112222 33334444 |" + data8},
		{"add", toPeer(provider.WRAtomicFetchAndAdd, provider.SendSignaled), []provider.SGE{piece8}, "",
			"00000412 00014104 00000008 00000000 |" + remote + "| 11112222 33334444 00000000 00000000 |" + data8},
		{"inline", toPeer(provider.WRSend, 0), nil, "abcd", "0000040a 00014102 00000000 00000000 | 80000004 61626364"},
		{"inline write", toPeer(provider.WRRDMAWrite, 0), nil, "0123456789abc", "00000408 00014104 00000000 00000000 |" + remote + "| 8000000d 30313233 34353637 38396162"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQP(t, rc(newCQ(t, newContext(t), 10), 16, 1))
			q.send(t, toPeer(provider.WRRDMAWrite, 0), piece8, piece8, piece8) // two blocks
			q.send(t, toPeer(provider.WRRDMAWrite, 0), piece8, piece8, piece8)
			wr := c.wr
			if c.inline == "" {
				q.send(t, wr, c.list...)
				wantWords(t, c.name, q.entry(4), c.want)
				if n := int(q.entry(4)[7]) * unit; n != len(q.entry(4)) {
					t.Errorf("%d bytes", n)
				}
				wr.Length = 0
				q.Begin(&wr, nil) // element by element
				for _, s := range c.list {
					q.Gather(s)
				}
				q.Ring(0)
				again, first := q.entry(5), q.entry(4)
				again[2], first[2] = 0, 0
				if len(q.entry(4)) <= blockSize && !bytes.Equal(again, first) {
					t.Errorf("piece by piece %x, not %x", again, first)
				}
				return
			}
			q.sendInline(t, wr, []byte(c.inline))
			wantWords(t, c.name, q.entry(4), c.want)
			wr.Flags |= provider.SendInline
			wr.Length = uint32(len(c.inline))
			from, to, _ := q.Begin(&wr, nil) // with a known length
			if copy(q.sends()[from:to], c.inline) != len(c.inline) {
				t.Fatal("no room")
			}
			q.Ring(0)
			again, first := q.entry(5), q.entry(4)
			again[2], first[2] = 0, 0
			if !bytes.Equal(again, first) {
				t.Errorf("with the length known %x, not %x", again, first)
			}
		})
	}
}

// TestBell checks that the record and the doorbell name the posted requests, and that the halves of
// the register alternate.
func TestBell(t *testing.T) {
	c := newContext(t)
	q := newQP(t, rc(newCQ(t, c, 10), 16, 1))
	page := c.pages.mapped[1]
	if counter(q.rec, 1) != 0 {
		t.Error("the record does not begin with 0")
	}
	wr := toPeer(provider.WRSend, 0)
	for i := range uint32(3) {
		q.Begin(&wr, []provider.SGE{piece64, piece64, piece64, piece64}) // two blocks
		q.Begin(&wr, nil)
		q.Gather(piece8)
		if counter(q.rec, 1) != 3*i {
			t.Errorf("round %d: told of what was not rung", i)
		}
		if err := q.Ring(0); err != nil {
			t.Fatal(err)
		}
		at := abi.MLX5_BF_OFFSET + int(i%2)*256
		wantWords(t, "bell", page[at:], fmt.Sprintf("%04x%04x 00014102", 0, (3*i+2)<<8|0x0a))
		if counter(q.rec, 1) != 3*i+3 {
			t.Errorf("round %d: the record is %d", i, counter(q.rec, 1))
		}
	}
	for i, b := range page {
		if b != 0 && i&^0x107 != abi.MLX5_BF_OFFSET {
			t.Fatalf("something at %#x", i)
		}
	}
	clear(page)
	if err := q.Ring(0); err != nil || !bytes.Equal(page, make([]byte, len(page))) {
		t.Errorf("a bell for nothing: %v", err)
	}
}

// TestUndo checks that a request that was taken back is not in the queue, and that the doorbell
// names the last one that is.
func TestUndo(t *testing.T) {
	c := newContext(t)
	q := newQP(t, rc(newCQ(t, c, 10), 16, 1))
	page := c.pages.mapped[1]
	wr := toPeer(provider.WRSend, 0)
	q.Begin(&wr, []provider.SGE{piece64})
	inv := toPeer(provider.WRLocalInv, 0)
	q.Begin(&inv, nil)
	q.Undo()
	q.Ring(0)
	wantWords(t, "bell", page[abi.MLX5_BF_OFFSET:], "0000000a 00014102")
	if counter(q.rec, 1) != 1 {
		t.Errorf("the record is %d", counter(q.rec, 1))
	}
	q.Begin(&inv, nil)
	q.Begin(&wr, nil)
	q.Drop()
	q.send(t, wr)
	wantWords(t, "after a drop", q.entry(1), "0000010a 00014101 00000000 00000000") // no fence of the dropped one
	q.Begin(&inv, nil)
	q.Begin(&wr, nil)
	q.Undo()
	q.Begin(&wr, nil)
	q.Ring(0)
	wantWords(t, "behind an invalidation", q.entry(4), "0000040a 00014101 00000020 00000000")
	q.send(t, wr)
	wantWords(t, "behind that", q.entry(5), "0000050a 00014101 00000000 00000000")
}

// TestFull checks that the queue is limited by the number of entries, whatever their length, and
// that a completion also frees the unsignaled entries before it.
func TestFull(t *testing.T) {
	versions(t, func(t *testing.T, c *context) {
		cq := newCQ(t, c, 10)
		q := newQP(t, rc(cq, 5, 1))
		most := int(q.layout.posts)
		wr := toPeer(provider.WRSend, 0)
		next := uint64(0)
		fill := func(want int) {
			t.Helper()
			n := 0
			for ; ; n++ {
				wr.ID = next
				if _, _, ok := q.Begin(&wr, nil); !ok {
					break
				}
				next++
			}
			q.Ring(0)
			if n != want {
				t.Fatalf("%d sends fit, not %d", n, want)
			}
		}
		fill(most)
		fill(0)
		cq.put(0, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 2))
		if wc := cq.poll(); len(wc) != 1 || wc[0].ID != 2 {
			t.Fatalf("%+v", wc)
		}
		fill(3)
		cq.put(1, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, uint16(most)))
		if wc := cq.poll(); len(wc) != 1 || wc[0].ID != uint64(most) {
			t.Fatalf("%+v", wc)
		}
		fill(most - 2)
		for i := range 100 { // beyond the end of the queue
			cq.put(uint32(2+i), q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, uint16(next-1)))
			if wc := cq.poll(); len(wc) != 1 || wc[0].ID != next-1 {
				t.Fatalf("%+v", wc)
			}
			fill(most)
		}
	})
}

// TestWrap checks that entries of every length and kind that wrap around the end of the queue have
// the same segments as in the middle of it.
func TestWrap(t *testing.T) {
	cq := newCQ(t, newContext(t), 10)
	a := rc(cq, 3, 1)
	a.Cap.MaxSendSGE, a.Cap.MaxInline = 20, 300
	for units := range uint32(21) {
		for _, op := range []provider.WROpcode{provider.WRSend, provider.WRRDMAWrite} {
			q := newQP(t, a)
			var list []provider.SGE
			for i := range units {
				list = append(list, provider.SGE{Addr: uint64(i) << 32, Length: i + 1, LKey: 7})
			}
			q.send(t, toPeer(op, 0), list...)
			want := q.entry(0)
			for at := range q.layout.blocks {
				q.Reset()
				q.post, q.rung = at, at
				q.send(t, toPeer(op, 0), list...)
				got := q.entry(at)
				binary.BigEndian.PutUint16(got[1:], 0)
				if !bytes.Equal(got, want) {
					t.Fatalf("%v of %d pieces at %d:\n%x, not\n%x", op, units, at, got, want)
				}
			}
			q.Detach()
		}
	}
	data := make([]byte, 300)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for n := 1; n <= 300; n += 7 {
		for _, op := range []provider.WROpcode{provider.WRSend, provider.WRRDMAWriteWithImm} {
			q := newQP(t, a)
			q.sendInline(t, toPeer(op, 0), data[:n])
			want := q.entry(0)
			for at := range q.layout.blocks {
				q.Reset()
				clear(q.sends())
				q.post, q.rung = at, at
				q.sendInline(t, toPeer(op, 0), data[:n])
				got := q.entry(at)
				binary.BigEndian.PutUint16(got[1:], 0)
				if !bytes.Equal(got, want) {
					t.Fatalf("%v of %d bytes at %d:\n%x, not\n%x", op, n, at, got, want)
				}
			}
			q.Detach()
		}
	}
}

// TestIndex checks that indices of 16 bits wrap around in entries and records.
func TestIndex(t *testing.T) {
	q := newQP(t, rc(newCQ(t, newContext(t), 10), 16, 1))
	q.post, q.rung = 0xffff, 0xffff
	q.send(t, toPeer(provider.WRSend, 0))
	wantWords(t, "the last", q.entry(0xffff), "00ffff0a 00014101")
	if counter(q.rec, 1) != 0 {
		t.Errorf("the record is %#x", counter(q.rec, 1))
	}
	q.send(t, toPeer(provider.WRSend, 0))
	wantWords(t, "the first", q.entry(0), "0000000a 00014101")
	if counter(q.rec, 1) != 1 {
		t.Errorf("the record is %#x", counter(q.rec, 1))
	}
}

// TestReset checks that a reset sets the index of the next entry and the records to 0.
func TestReset(t *testing.T) {
	cq := newCQ(t, newContext(t), 10)
	q := newQP(t, rc(cq, 4, 4))
	for range 3 {
		inv := toPeer(provider.WRLocalInv, 0)
		q.send(t, inv)
		if n, err := q.PostRecv(make([]provider.RecvWR, 3)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		if counter(q.rec, 0) != 3 || counter(q.rec, 1) != 2 {
			t.Errorf("records %d and %d", counter(q.rec, 0), counter(q.rec, 1))
		}
		q.Reset()
		if counter(q.rec, 0) != 0 || counter(q.rec, 1) != 0 {
			t.Errorf("records %d and %d", counter(q.rec, 0), counter(q.rec, 1))
		}
		q.send(t, toPeer(provider.WRSend, 0))
		wantWords(t, "the first", q.entry(0), "0000000a 00014101 00000000 00000000")
		cq.put(cq.next, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 3)) // no such entry
		if wc := cq.poll(); len(wc) != 0 {
			t.Errorf("%+v", wc)
		}
		q.Reset()
	}
}

// TestSigAll checks that with SigAll every entry asks for a completion.
func TestSigAll(t *testing.T) {
	a := rc(newCQ(t, newContext(t), 10), 4, 1)
	a.SigAll = true
	q := newQP(t, a)
	q.send(t, toPeer(provider.WRSend, 0))
	wantWords(t, "send", q.entry(0), "0000000a 00014101 00000008 00000000")
}

// TestWindows compares binds and invalidations with those of libmlx5, at every index of the queue.
func TestWindows(t *testing.T) {
	const zeros4 = " 00000000 00000000 00000000 00000000"
	const zeros8 = zeros4 + zeros4
	q := newQP(t, rc(newCQ(t, newContext(t), 10), 2, 1))
	for at := range q.layout.blocks {
		q.Reset()
		q.post, q.rung = at, at
		for i := range q.sends() {
			q.sends()[i] = 0xee
		}
		inv := provider.WR{Opcode: provider.WRLocalInv, Flags: provider.SendSignaled, Imm: 0x4711}
		q.send(t, inv)
		wantWords(t, "invalidate", q.entry(at), fmt.Sprintf("00%04x25 00014108 00000008 00004711", at)+
			"| 98000000 00000000 00000000 20006000"+zeros8+
			"| 40000000 ffffff00 00000000 00000000"+zeros8+zeros4)
		q.Reset()
		q.post, q.rung = at, at
		bind := provider.WR{Opcode: provider.WRBindMW}
		q.Begin(&bind, nil)
		err := q.Bind(provider.Bind{Addr: 0x1_2345_6000, Length: 0x1000, LKey: 0x99, Old: 0x4711, New: 0x4712,
			Access: abi.IB_UVERBS_ACCESS_REMOTE_READ | abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC})
		if err != nil {
			t.Fatal(err)
		}
		q.Ring(0)
		wantWords(t, "bind", q.entry(at), fmt.Sprintf("00%04x25 0001410c 00000000 00004711", at)+
			"| b0000000 00040000 00000000 203c6041"+zeros8+
			"| 00007000 00014112 00000000 00000000 00000001 23456000 00000000 00001000"+zeros8+
			"| 00001000 00000099 00000001 23456000"+zeros8+zeros4)
	}
	bind := provider.WR{Opcode: provider.WRBindMW}
	q.Reset()
	q.Begin(&bind, nil)
	if err := q.Bind(provider.Bind{Length: 1<<31 + 1}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("more than 2 GiB: %v", err)
	}
	q.Undo()
	q.Begin(&bind, nil)
	q.Bind(provider.Bind{Old: 0x4711, New: 0x4712, Addr: 7})
	q.Ring(0)
	wantWords(t, "a bind of nothing", q.entry(0), "00000025 00014108 00000000 00004711 | 98000000 00000000 00000000 20006000"+zeros8+
		"| 40000000 ffffff12"+zeros4)
	if windowAccess(abi.IB_UVERBS_ACCESS_LOCAL_WRITE) != 8 {
		t.Errorf("%#x", windowAccess(abi.IB_UVERBS_ACCESS_LOCAL_WRITE))
	}
	q.Reset()
	q.Begin(&bind, nil)
	q.Bind(provider.Bind{Addr: 7, Length: 8, Access: abi.IB_UVERBS_ACCESS_ZERO_BASED})
	wantWords(t, "zero based", q.queueBlock(1)[16:], zeros4[:18])
}

// queueBlock returns a block of the send queue.
func (q *qp) queueBlock(i int) []byte { return q.sends()[i*blockSize:][:blockSize] }

// TestNoSends checks that a queue pair for receives only has no room for sends, and that one
// without queues has no memory.
func TestNoSends(t *testing.T) {
	cq := newCQ(t, newContext(t), 10)
	q := newQP(t, rc(cq, 0, 3))
	if _, _, ok := q.Begin(&provider.WR{}, nil); ok {
		t.Error("a send")
	}
	q.Drop()
	if q.Ring(0) != nil {
		t.Error("a bell")
	}
	empty := newQPN(t, rc(cq, 0, 0), 5)
	if empty.mem != nil || empty.request.BufAddr != 0 {
		t.Errorf("%d bytes of memory", len(empty.mem))
	}
	if n, err := empty.PostRecv(make([]provider.RecvWR, 1)); n != 0 || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("%d receives: %v", n, err)
	}
	for _, op := range []uint8{abi.MLX5_CQE_REQ, abi.MLX5_CQE_RESP_SEND} {
		cq.put(cq.next, empty.of(op, 0, 3))
		if wc := cq.poll(); len(wc) != 0 {
			t.Errorf("%+v", wc)
		}
	}
}
