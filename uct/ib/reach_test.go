//go:build linux

package ib

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestSeeds: flow labels differ also where two machines number their queue pairs alike, or
// by turns, and in the few bits that a network may look at.
func TestSeeds(t *testing.T) {
	for name, peer := range map[string]func(n verbs.QPN) verbs.QPN{
		"alike":    func(n verbs.QPN) verbs.QPN { return n },
		"by turns": func(n verbs.QPN) verbs.QPN { return n ^ 1 },
		"to one":   func(verbs.QPN) verbs.QPN { return 0x11 },
		"apart":    func(n verbs.QPN) verbs.QPN { return n + 1000 },
	} {
		all, high, low := make(map[uint32]bool), make(map[uint32]bool), make(map[uint32]bool)
		const n = 64
		for k := range verbs.QPN(n) {
			l := flowLabel(Seed(0x40+k, peer(0x40+k)))
			all[l], high[l>>16], low[l>>1&15] = true, true, true
			if l == 0 || l > flowLabelMask {
				t.Errorf("label %#x", l)
			}
		}
		if len(all) < n-4 || len(high) < 12 || len(low) < 12 {
			t.Errorf("%s: %d labels of %d, %d of 16 in the high bits and %d in the low ones", name, len(all), n, len(high), len(low))
		}
	}
}
