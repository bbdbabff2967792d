package ucttest

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		lo, hi int
		want   []int
	}{
		{0, 0, []int{0}},
		{8, 8, []int{8}},
		{0, 3, []int{0, 1, 2, 3}},
		{8, 17, []int{8, 9, 12, 15, 16, 17}},
		{5, 6, []int{5, 6}},
	} {
		if got := Sizes(c.lo, c.hi); !slices.Equal(got, c.want) {
			t.Errorf("Sizes(%d, %d) is %v, want %v", c.lo, c.hi, got, c.want)
		}
	}
	if got := Sizes(0, uct.Unlimited); got[len(got)-1] != maxSize {
		t.Errorf("unlimited sizes end with %d, want %d", got[len(got)-1], maxSize)
	}
}

func TestPattern(t *testing.T) {
	a := Pattern(100, 1)
	if !slices.Equal(a, Pattern(100, 1)) || !slices.Equal(a[:37], Pattern(37, 1)) {
		t.Error("the pattern of a seed changes")
	}
	if slices.Equal(a, Pattern(100, 2)) || slices.Equal(a[:50], a[50:]) {
		t.Error("the pattern repeats")
	}
	seen := make(map[byte]bool)
	for _, b := range a {
		seen[b] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different bytes in 100", len(seen))
	}
}

func TestSplit(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 100} {
		for _, parts := range []int{1, 2, 3, 8} {
			b := Pattern(n, 3)
			list := split(b, parts)
			if len(list) != parts || !slices.Equal(slices.Concat(list...), b) {
				t.Errorf("%d bytes in %d parts: %v", n, parts, list)
			}
		}
	}
}

func TestLacks(t *testing.T) {
	for _, c := range []struct {
		flags, needs uct.IfaceFlags
		want         string
	}{
		{0, 0, ""},
		{uct.IfaceAMBcopy, anyAM, ""},
		{uct.IfacePutShort, anyAM, "any of am short, am bcopy, am zcopy"},
		{uct.IfaceAMBcopy, anyAM | uct.IfacePending, "pending"},
		{0, anyPut | uct.IfacePending | uct.IfaceEpCheck, "any of put short, put bcopy, put zcopy; pending, ep check"},
		{uct.IfaceAMBcopy | uct.IfacePending, anyAM | uct.IfacePending, ""},
		{uct.IfaceAMShort, uct.IfaceAMBcopy, "am bcopy"},
		{uct.IfaceAtomicCPU, anyAtomic, ""},
	} {
		if got := lacks(c.flags, c.needs); got != c.want {
			t.Errorf("of %v, %v lacks %q, want %q", c.needs, c.flags, got, c.want)
		}
	}
}

func TestCompletionRecorder(t *testing.T) {
	c := NewCompletion(2)
	c.Done(ucs.ErrIO)
	if c.Fired != 0 {
		t.Error("told too early")
	}
	c.Done(nil)
	if c.Fired != 1 {
		t.Errorf("told %d times, want 1", c.Fired)
	}
	if err := c.Result(t, ucs.InProgress); err != ucs.ErrIO {
		t.Errorf("result %v", err)
	}
	if err := NewCompletion(1).Result(t, ucs.ErrBusy); err != ucs.ErrBusy {
		t.Errorf("result of a refused operation: %v", err)
	}
}
