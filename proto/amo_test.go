package proto

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var amoCodecs = map[string]recode{
	"ATOMIC_REQ": func(b []byte) ([]byte, error) {
		h, err := ParseAtomicReq(b)
		return h.Append(nil), err
	},
	"ATOMIC_REP": func(b []byte) ([]byte, error) {
		h, err := ParseAtomicRep(b)
		return h.Append(nil), err
	},
}

func TestAtomicGolden(t *testing.T) { checkGolden(t, "amo.txt", amoCodecs) }

// TestAtomicFields checks the fields of the captured operations of a known program: xor 5, compare
// 6 and swap in 7, swap in 6, fetch and add 5.
func TestAtomicFields(t *testing.T) {
	var ops []AtomicReq
	for _, g := range readGolden(t, "amo.txt", "ATOMIC_REQ") {
		if g.origin == "release 1.22.0: ucp_atomic_op_nbx: xor of 4 bytes, cswap and swap of 8, fetching add of 4" {
			h, err := ParseAtomicReq(g.bytes)
			if err != nil {
				t.Fatal(err)
			}
			ops = append(ops, h)
		}
	}
	want := []struct {
		op             uct.AtomicOp
		size           uint8
		value, compare uint64
		fetch          bool
	}{
		{uct.AtomicXor, 4, 5, 0, false},
		{uct.AtomicCSwap, 8, 7, 6, true},
		{uct.AtomicSwap, 8, 6, 0, true},
		{uct.AtomicAdd, 4, 5, 0, true},
	}
	if len(ops) != len(want) {
		t.Fatalf("%d operations", len(ops))
	}
	for i, w := range want {
		if h := ops[i]; h.Op != w.op || h.Size != w.size || h.Value != w.value || h.Compare != w.compare || (h.ReqID != 0) != w.fetch {
			t.Errorf("operation %d is %+v, want %+v", i, h, w)
		}
	}
}

func TestAtomicPut(t *testing.T) {
	checkPut(t, AtomicReqSize+4, AtomicReq{Address: 4, EpID: 2, Size: 4, Op: uct.AtomicAdd, Value: 1})
	checkPut(t, AtomicReqSize+16, AtomicReq{Address: 8, EpID: 2, ReqID: 3, Size: 8, Op: uct.AtomicCSwap, Value: 1, Compare: 2})
	checkPut(t, AtomicRepSize+4, AtomicRep{1, 4, 2})
	checkPut(t, AtomicRepSize+8, AtomicRep{1, 8, 2})
}

func TestAtomicRefuses(t *testing.T) {
	good := AtomicReq{Address: 16, ReqID: 1, Size: 8, Op: uct.AtomicCSwap}
	for name, edit := range map[string]func(h *AtomicReq){
		"size 2":        func(h *AtomicReq) { h.Size = 2 },
		"operation 6":   func(h *AtomicReq) { h.Op = 6 },
		"not aligned":   func(h *AtomicReq) { h.Address = 12 },
		"without reply": func(h *AtomicReq) { h.ReqID = 0 },
	} {
		h := good
		edit(&h)
		b := append(h.Append(nil), make([]byte, 16)...)
		if _, err := ParseAtomicReq(b); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := good.Append(nil)
	for n := range whole {
		if _, err := ParseAtomicReq(whole[:n:n]); !errors.Is(err, ucs.ErrIO) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for _, n := range []int{0, 8, 11, 13, 15, 17} {
		if _, err := ParseAtomicRep(make([]byte, n)); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("reply of %d bytes: %v", n, err)
		}
	}
}

func FuzzAtomicReq(f *testing.F) {
	seed(f, "amo.txt", "ATOMIC_REQ")
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		h, err := ParseAtomicReq(b)
		if err != nil {
			return
		}
		if again, err := ParseAtomicReq(h.Append(nil)); err != nil || again != h {
			t.Errorf("%+v came back as %+v, %v", h, again, err)
		}
	})
}

func FuzzAtomicRep(f *testing.F) {
	seed(f, "amo.txt", "ATOMIC_REP")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, amoCodecs["ATOMIC_REP"]) })
}
