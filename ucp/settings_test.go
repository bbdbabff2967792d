package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

func TestRndvThresh(t *testing.T) {
	const k = 1 << 10
	for _, tc := range []struct {
		in           string
		intra, inter config.Bytes
		out          string
	}{
		{"auto", config.BytesAuto, config.BytesAuto, "intra:auto,inter:auto"},
		{"inf", config.BytesInf, config.BytesInf, "intra:inf,inter:inf"},
		{"0", 0, 0, "intra:0,inter:0"},
		{"64k", 64 * k, 64 * k, "intra:64K,inter:64K"},
		{"intra:64k,inter:128k", 64 * k, 128 * k, "intra:64K,inter:128K"},
		{"inter:inf, intra:0", 0, config.BytesInf, "intra:0,inter:inf"},
		{"intra:8", 8, config.BytesAuto, "intra:8,inter:auto"},
		{"inter:8", config.BytesAuto, 8, "intra:auto,inter:8"},
		{"intra:8,inter:8", 8, 8, "intra:8,inter:8"},
		{"8k,intra:64k", 64 * k, 8 * k, "intra:64K,inter:8K"},
	} {
		var got rndvThresh
		if err := got.ParseConfig(tc.in); err != nil {
			t.Errorf("%q: %v", tc.in, err)
			continue
		}
		if want := (rndvThresh{tc.intra, tc.inter}); got != want || got.String() != tc.out {
			t.Errorf("%q is %+v, printed %q; want %+v, %q", tc.in, got, got, want, tc.out)
		}
		var again rndvThresh
		if err := again.ParseConfig(got.String()); err != nil || again != got {
			t.Errorf("%q came back as %+v, %v", got, again, err)
		}
	}
	for _, bad := range []string{"", "x", "-2", "intra:", "intra:x", "both:1", ":1", "1:2"} {
		if err := new(rndvThresh).ParseConfig(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestRndvScheme(t *testing.T) {
	for in, want := range map[string]rndvScheme{
		"auto": rndvSchemeAuto, "get_zcopy": rndvSchemeGet, "rkey_ptr": rndvSchemePtr,
		"put_zcopy": rndvSchemePut, " PUT_ZCOPY ": rndvSchemePut, "am": rndvSchemeAM,
	} {
		var got rndvScheme
		if err := got.ParseConfig(in); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", in, got, err, want)
		}
		var again rndvScheme
		if err := again.ParseConfig(got.String()); err != nil || again != got {
			t.Errorf("%v came back as %v, %v", got, again, err)
		}
	}
	if err := new(rndvScheme).ParseConfig("fast"); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("an unknown scheme: %v", err)
	}
}

// TestPathShare checks how much of a device's bandwidth is left for a lane beside others, which
// must be as in C UCX.
func TestPathShare(t *testing.T) {
	for _, tc := range []struct {
		ratio  string
		others int
		want   float64
	}{
		{"auto", 0, 1}, {"auto", 3, 1}, {"0.25", 0, 1}, {"0.25", 1, 0.75}, {"0.25", 3, 0.25}, {"0.25", 4, 0.0025}, {"1", 1, 0.01}, {"2", 2, 0.005},
	} {
		var s settings
		if err := s.PathRatio.ParseConfig(tc.ratio); err != nil {
			t.Fatal(err)
		}
		if got := s.pathShare(tc.others); got != tc.want {
			t.Errorf("%s, %d others: %v, want %v", tc.ratio, tc.others, got, tc.want)
		}
	}
}
