//go:build linux

package flow

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRanking compares a ranking with a plain list.
func TestRanking(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	r := ranking{which: atHome}
	var all []*Endpoint
	now := int64(0)
	for range 20000 {
		now += rnd.Int64N(3)
		switch n := rnd.IntN(10); {
		case len(all) == 0 || n < 3:
			e := &Endpoint{lastReceived: now}
			all = append(all, e)
			r.push(e)
		case n < 5:
			k := rnd.IntN(len(all))
			r.remove(all[k])
			all = slices.Delete(all, k, k+1)
		default:
			all[rnd.IntN(len(all))].lastReceived = now
		}
		if rnd.IntN(4) > 0 {
			continue
		}
		e := r.longestSilent()
		if (e == nil) != (len(all) == 0) {
			t.Fatalf("%d endpoints, the quietest is %v", len(all), e)
		}
		for _, o := range all {
			if o.lastReceived < e.lastReceived {
				t.Fatalf("heard at %d, another one at %d", e.lastReceived, o.lastReceived)
			}
		}
		if len(r.heap) != len(all) {
			t.Fatalf("%d are ranked of %d", len(r.heap), len(all))
		}
	}
}
