//go:build linux

package flow

import (
	"math/rand/v2"
	"testing"
)

// TestHeap compares the heap of timers with a plain set.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h heap
	it := &Iface{tick: 10}
	all := make(map[*Endpoint]bool)
	for range 20000 {
		switch {
		case len(all) == 0 || r.IntN(5) < 2:
			e := &Endpoint{it: it, slot: none, due: r.Int64N(1000)}
			h.push(e)
			all[e] = true
		default:
			for e := range all { // any one of them
				if r.IntN(2) == 0 {
					h.remove(e)
					delete(all, e)
				} else {
					it.timers, it.now = h, r.Int64N(1000)
					e.soon()
				}
				break
			}
		}
		if len(h) != len(all) {
			t.Fatalf("%d timers, want %d", len(h), len(all))
		}
		for i, e := range h {
			if int(e.slot) != i || !all[e] {
				t.Fatalf("timer %d believes to be %d", i, e.slot)
			}
			if i > 0 && h[(i-1)/2].due > e.due {
				t.Fatalf("timer %d at %d is behind one at %d", i, e.due, h[(i-1)/2].due)
			}
		}
	}
}
