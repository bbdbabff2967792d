package proto

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLaneShares(t *testing.T) {
	names := []string{"tcp/lo", "tcp/eth0", "tcp/slow", "tcp/odd"}
	for _, tc := range []struct {
		name       string
		bandwidths []float64
		want       string
	}{
		{"one", []float64{11.91}, "tcp/lo"},
		{"two", []float64{11.91, 11.27}, "51% on tcp/lo and 49% on tcp/eth0"},
		{"one much slower", []float64{100, 90, 10}, "53% on tcp/lo and 47% on tcp/eth0"},
		{"three", []float64{100, 100, 100}, "33% on tcp/lo, 33% on tcp/eth0 and 33% on tcp/slow"},
		{"senseless numbers", []float64{math.NaN(), 5, -1, math.Inf(1)}, "tcp/eth0"},
	} {
		s := NewLaneShares(tc.bandwidths, Spread{})
		if got := s.describe(func(i int) string { return names[i] }); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if s := NewLaneShares(nil, Spread{}); s.Lanes() != 0 {
		t.Errorf("no lanes: %d", s.Lanes())
	}
}

// TestLaneSharesCover checks that the parts of any message cover it without gaps or overlaps.
func TestLaneSharesCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewLaneShares(rapid.SliceOfN(rapid.Float64(), 0, 8).Draw(t, "bandwidths"),
			Spread{MaxRatio: drawFloat(t, "ratio"), MinChunk: rapid.Int().Draw(t, "chunk")})
		n := rapid.OneOf(rapid.IntRange(0, 1<<20), rapid.Just(math.MaxInt)).Draw(t, "n")
		next := 0
		for k := range s.Lanes() {
			_, from, to := s.Part(k, n)
			if from != next || to < from {
				t.Fatalf("part %d is %d..%d, must start at %d", k, from, to, next)
			}
			next = to
		}
		if s.Lanes() > 0 && next != n {
			t.Fatalf("parts end at %d of %d", next, n)
		}
	})
}

// TestScale checks that the product does not overflow, even if int has 32 bits.
func TestScale(t *testing.T) {
	for _, share := range []uint32{0, 1, shareUnit / 3, shareUnit - 1, shareUnit} {
		for _, n := range []int{0, 1, shareUnit - 1, 2*shareUnit - 1, 1<<30 + 12345, math.MaxInt32} {
			if got, want := scale(share, n), int(uint64(n)*uint64(share)>>16); got != want {
				t.Errorf("%d/65536 of %d is %d, want %d", share, n, got, want)
			}
		}
	}
}

// TestSpread checks the settings that limit how slow a lane may be, and how short its part.
func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		spread      Spread
		lanes, used int // lanes in use at all, and for 40000 bytes
	}{
		{Spread{}, 2, 2},
		{Spread{MaxRatio: 1.5}, 1, 1},
		{Spread{MaxRatio: 0.1}, 1, 1},
		{Spread{MaxRatio: 100}, 3, 1},
		{Spread{MinChunk: 20000}, 2, 2},
		{Spread{MinChunk: 20001}, 2, 1},
		{Spread{MaxRatio: 100, MinChunk: 1}, 3, 3},
	} {
		s := NewLaneShares([]float64{100, 50, 10}, tc.spread)
		used := 0
		for k := range s.Lanes() {
			if _, from, to := s.Part(k, 40000); to > from {
				used++
			}
		}
		if s.Lanes() != tc.lanes || used != tc.used {
			t.Errorf("%+v: %d lanes, %d of them used; want %d and %d", tc.spread, s.Lanes(), used, tc.lanes, tc.used)
		}
	}
}
