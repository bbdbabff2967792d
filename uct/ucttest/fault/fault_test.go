package fault

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ucx-go/ucx/ucs"
)

func TestPlans(t *testing.T) {
	drop := Effect{Drop: ucs.ErrConnectionReset}
	for _, c := range []struct {
		name string
		plan Plan
		op   Op
		want Effect
	}{
		{"at, before", DropAt(3), Op{N: 2, Attempt: 3}, Effect{}},
		{"at", DropAt(3), Op{N: 3, Attempt: 7}, drop},
		{"at, after", DropAt(3), Op{N: 4}, Effect{}},
		{"from, before", From(3, drop), Op{N: 2}, Effect{}},
		{"from, after", From(3, drop), Op{N: 9}, drop},
		{"fail", FailAt(1, ucs.ErrIO), Op{N: 1}, Effect{Fail: ucs.ErrIO}},
		{"late", Late(4), Op{N: 8}, Effect{Late: 4}},
		{"only, other", Only(isPut, Late(4)), Op{N: 8, Kind: AMShort}, Effect{}},
		{"only", Only(isPut, Late(4)), Op{N: 8, Kind: PutShort}, Effect{Late: 4}},
		{"all, one", All(DropAt(3), Late(4), Late(5)), Op{N: 2}, Effect{Late: 4}},
		{"all, both", All(DropAt(3), Late(4)), Op{N: 3}, Effect{Drop: ucs.ErrConnectionReset, Late: 4}},
		{"all fields", All(At(1, Effect{Stall: 1, Cut: 2}), At(1, Effect{Stall: 3, Refuse: ucs.ErrIO, Cut: 4})), Op{N: 1},
			Effect{Stall: 1, Refuse: ucs.ErrIO, Cut: 2}},
	} {
		if diff := cmp.Diff(c.want, c.plan(c.op), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func isPut(op Op) bool { return op.Kind == PutShort }

func TestStormIsReproducible(t *testing.T) {
	run := func(seed uint64) (list []int, stalled int) {
		p := Storm(seed, 30, 5)
		for range 1000 {
			s := p(Op{}).Stall
			if s < 0 || s > 5 {
				t.Fatalf("stall of %d rounds, want at most 5", s)
			}
			if s > 0 {
				stalled++
			}
			list = append(list, s)
		}
		return list, stalled
	}
	first, stalled := run(1)
	again, _ := run(1)
	other, _ := run(2)
	if !cmp.Equal(first, again) {
		t.Error("equal seeds give different storms")
	}
	if cmp.Equal(first, other) {
		t.Error("different seeds give the same storm")
	}
	if stalled < 200 || stalled > 400 {
		t.Errorf("%d of 1000 attempts stalled, want about 300", stalled)
	}
}
