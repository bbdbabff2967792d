package rangeset

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSetModel compares the set with one flag per byte.
func TestSetModel(t *testing.T) {
	const size = 96
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		var have [size]bool
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				off := rapid.IntRange(0, size-1).Draw(t, "off")
				n := rapid.IntRange(0, min(16, size-off)).Draw(t, "n")
				fresh := true
				for _, h := range have[off : off+n] {
					fresh = fresh && !h
				}
				if got := s.Add(off, n); got != fresh {
					t.Fatalf("Add(%d, %d) = %v, want %v; %+v", off, n, got, fresh, s)
				}
				if fresh {
					for i := range n {
						have[off+i] = true
					}
				}
			},
			"": func(t *rapid.T) {
				var got [size]bool
				for i := range s.prefix {
					got[i] = true
				}
				last := s.prefix
				for _, a := range s.spans {
					if a.start <= last || a.end <= a.start {
						t.Fatalf("spans touch, overlap or are empty: %+v", s)
					}
					last = a.end
					for i := a.start; i < a.end; i++ {
						got[i] = true
					}
				}
				if got != have {
					t.Fatalf("%+v holds %v, want %v", s, got, have)
				}
			},
		})
	})
}

// TestSetBounded checks that a hostile peer cannot make the set grow without bound, and that a full
// set still accepts bytes that fill its first gap.
func TestSetBounded(t *testing.T) {
	var s Set
	for i := range maxSpans {
		if !s.Add(2*i+2, 1) {
			t.Fatalf("gap %d refused", i)
		}
	}
	if s.Add(2*maxSpans+2, 1) || len(s.spans) != maxSpans {
		t.Errorf("the set took %d spans", len(s.spans))
	}
	if !s.Add(0, 1) || s.prefix != 1 || len(s.spans) != maxSpans {
		t.Errorf("the first byte: prefix %d, %d spans", s.prefix, len(s.spans))
	}
	if !s.Add(1, 1) || s.prefix != 3 || len(s.spans) != maxSpans-1 {
		t.Errorf("closing the first gap: prefix %d, %d spans", s.prefix, len(s.spans))
	}
}

// TestSetInOrder checks that fragments that arrive in order need no spans and no allocations.
func TestSetInOrder(t *testing.T) {
	var s Set
	if n := testing.AllocsPerRun(100, func() {
		if !s.Add(s.prefix, 7) {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations per fragment", n)
	}
	if s.spans != nil {
		t.Errorf("spans %v", s.spans)
	}
}

// TestSetReset checks that a set is empty after Reset, that a later message with as many gaps
// allocates nothing, and that room for very many gaps is not kept.
func TestSetReset(t *testing.T) {
	var s Set
	message := func(gaps int) {
		for i := range gaps {
			if !s.Add(2*i+1, 1) {
				t.Fatalf("gap %d refused", i)
			}
		}
		s.Reset()
		if s.prefix != 0 || len(s.spans) != 0 {
			t.Fatalf("after a reset: %+v", s)
		}
	}
	if n := testing.AllocsPerRun(100, func() { message(maxKept) }); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
	if message(maxKept + 1); s.spans != nil {
		t.Errorf("room for %d gaps is kept", cap(s.spans))
	}
}

// TestEach checks that Each passes the runs of bytes in order until the function returns false.
func TestEach(t *testing.T) {
	var s Set
	for _, r := range [][2]int{{40, 5}, {0, 10}, {20, 10}, {10, 3}, {30, 1}} {
		if !s.Add(r[0], r[1]) {
			t.Fatal(r)
		}
	}
	want := [][2]int{{0, 13}, {20, 11}, {40, 5}}
	for most := range len(want) + 1 {
		var got [][2]int
		s.Each(func(off, n int) bool {
			got = append(got, [2]int{off, n})
			return len(got) < most
		})
		if n := max(most, 1); !slices.Equal(got, want[:n]) {
			t.Errorf("%v, want %v", got, want[:n])
		}
	}
	s.Reset()
	s.Each(func(off, n int) bool { t.Error(off, n); return true })
}
