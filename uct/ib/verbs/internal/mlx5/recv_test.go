//go:build linux

package mlx5

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// endOfList terminates the scatter/gather list of a receive.
const endOfList = "00000000 00000100 00000000 00000000"

const data64 = "00000040 0000129a 00000002 00000000"

// TestReceives checks that elements of length 0 are omitted, and that short lists are terminated.
func TestReceives(t *testing.T) {
	cq := newCQ(t, newContext(t), 10)
	a := rc(cq, 1, 4)
	a.Cap.MaxRecvSGE = 3 // becomes 4
	q := newQP(t, a)
	wr := []provider.RecvWR{
		{ID: 1, SGList: []provider.SGE{piece64, nothing, piece64}},
		{ID: 2},
		{ID: 3, SGList: []provider.SGE{piece64, piece64, piece64, piece64}},
		{ID: 4, SGList: make([]provider.SGE, 5)},
	}
	n, err := q.PostRecv(wr)
	if n != 3 || !errors.Is(err, ucs.ErrInvalidParam) || counter(q.rec, 0) != 3 {
		t.Errorf("%d posted, the record is %d: %v", n, counter(q.rec, 0), err)
	}
	wantWords(t, "first", q.mem, data64+"|"+data64+"|"+endOfList)
	wantWords(t, "second", q.mem[64:], endOfList)
	wantWords(t, "third", q.mem[128:], data64+"|"+data64+"|"+data64+"|"+data64)
	for round := range 5 {
		if n, err = q.PostRecv(wr[:3]); n != 1 || !errors.Is(err, ucs.ErrNoResource) || counter(q.rec, 0) != uint32(4+round) {
			t.Fatalf("%d posted to a full queue, the record is %d: %v", n, counter(q.rec, 0), err)
		}
		cq.put(cq.next, q.of(abi.MLX5_CQE_RESP_SEND, 0, uint16(round)))
		if wc := cq.poll(); len(wc) != 1 {
			t.Fatalf("%+v", wc)
		}
	}
	q.rq.head, q.rq.done = 0xffff, 0xffff
	if n, err = q.PostRecv(wr[:2]); n != 2 || err != nil || counter(q.rec, 0) != 1 {
		t.Errorf("%d posted, the record is %#x: %v", n, counter(q.rec, 0), err)
	}
	q.Detach()
	if n, err := q.PostRecv(wr[:1]); n != 0 || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("%d posted to what is gone: %v", n, err)
	}
}

// TestShared checks the list of free entries: it is in order at first, then in the order in which
// entries are freed. One entry always remains in it.
func TestShared(t *testing.T) {
	versions(t, func(t *testing.T, c *context) {
		cq := newCQ(t, c, 100)
		s := newSRQ(t, c, 5, 1) // 7 entries
		for i := range 7 {
			wantWords(t, "link", s.mem[32*i:], fmt.Sprintf("%08x 00000000", i+1))
		}
		a := rc(cq, 1, 0)
		a.SRQ = s
		q := newQP(t, a)
		if q.request.RqWqeCount != 0 || q.request.Uidx != 0 && c.uidx {
			t.Errorf("%+v", q.request)
		}
		wr := make([]provider.RecvWR, 9)
		for i := range wr {
			wr[i] = provider.RecvWR{ID: uint64(100 + i), SGList: []provider.SGE{piece64}}
		}
		n, err := s.PostRecv(wr)
		if n != 7 || !errors.Is(err, ucs.ErrNoResource) || counter(s.rec, 0) != 7 || counter(s.rec, 1) != 0 {
			t.Fatalf("%d posted, the record is %d: %v", n, counter(s.rec, 0), err)
		}
		wantWords(t, "first", s.mem, "00000001 00000000 00000000 00000000 |"+data64)
		if _, err := q.PostRecv(wr); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("a receive beside the shared ones: %v", err)
		}
		order := []uint16{3, 0, 6, 1}
		for i, at := range order {
			cq.put(cq.next, q.of(abi.MLX5_CQE_RESP_SEND, 0, at))
			if wc := cq.poll(); len(wc) != 1 || wc[0].ID != uint64(100+at) {
				t.Fatalf("%d: %+v", i, wc)
			}
		}
		for _, at := range []uint16{3, 7, 8, 0xffff} { // not posted, or not existing
			cq.put(cq.next, q.of(abi.MLX5_CQE_RESP_SEND, 0, at))
			if wc := cq.poll(); len(wc) != 0 {
				t.Fatalf("%+v", wc)
			}
		}
		if n, err = s.PostRecv(wr); n != 4 || !errors.Is(err, ucs.ErrNoResource) || counter(s.rec, 0) != 11 {
			t.Fatalf("%d posted, the record is %d: %v", n, counter(s.rec, 0), err)
		}
		// The entry that remained, and those that were freed, except the last.
		for i, at := range []uint16{7, 3, 0, 6} {
			cq.put(cq.next, q.of(abi.MLX5_CQE_RESP_SEND, 0, at))
			if wc := cq.poll(); len(wc) != 1 || wc[0].ID != uint64(100+i) {
				t.Fatalf("%d: %+v", i, wc)
			}
		}
		wantWords(t, "a link", s.mem[32*3:], "00000000") // entry 3 is followed by 0
		more := 50
		if _, err := s.Resize(&more); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("another size: %v", err)
		}
		two := newSRQ(t, c, 1, 2) // 3 elements
		two.PostRecv([]provider.RecvWR{{SGList: []provider.SGE{nothing, piece64}}})
		wantWords(t, "short", two.mem, "00000001 00000000 00000000 00000000 |"+data64+"|"+endOfList)
		two.Detach()
		if n, err := two.PostRecv(wr); n != 0 || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%d posted to what is gone: %v", n, err)
		}
		if _, ok := two.take(0); ok {
			t.Error("taken from what is gone")
		}
	})
}
