package proto

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestFP8 compares with the results of C: UCS_FP8_PACK and UCS_FP8_UNPACK of src/ucs/type/float8.h.
func TestFP8(t *testing.T) {
	for _, tc := range []struct {
		name   string
		r      fp8Range
		v      float64
		packed uint8
		back   float64
	}{
		{"zero", fp8Latency, 0, 0x00, 0},
		{"below the minimum", fp8Latency, 1, 0x01, 16},
		{"the minimum", fp8Latency, 16, 0x01, 16},
		{"truncated", fp8Latency, 10960, 0x5A, 10752},
		{"the last step", fp8Latency, 1<<17 - 1, 0xFD, 126976},
		{"at the maximum", fp8Latency, 1 << 17, 0x0D, 1 << 16},
		{"above the maximum", fp8Overhead, 50000, 0x0C, 2048},
		{"tcp bandwidth", fp8Bandwidth, 11e6, 0x01, 512 << 20},
		{"fast bandwidth", fp8Bandwidth, 19360 << 20, 0x26, 19327352832},
	} {
		if got := tc.r.pack(tc.v); got != tc.packed {
			t.Errorf("%s: packed %#02x, want %#02x", tc.name, got, tc.packed)
		}
		if got := tc.r.unpack(tc.packed); got != tc.back {
			t.Errorf("%s: unpacked %g, want %g", tc.name, got, tc.back)
		}
	}
	if !math.IsNaN(fp8Latency.round(math.NaN())) || !math.IsNaN(fp8Latency.round(math.Inf(1))) {
		t.Error("NaN and infinity must come back as NaN")
	}
}

// TestFP8Rounding checks that a number in the range changes by less than one part in 16, and that
// rounding twice gives the same as rounding once.
func TestFP8Rounding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, r := range []fp8Range{fp8Latency, fp8Overhead, fp8Bandwidth} {
			v := rapid.Float64Range(float64(r.min), float64(r.max)*(1-1e-9)).Draw(t, "v")
			got := r.round(v)
			if got > v || got < v*15/16 {
				t.Fatalf("%g became %g", v, got)
			}
			if r.round(got) != got {
				t.Fatalf("%g, rounded, became %g", got, r.round(got))
			}
		}
	})
}
