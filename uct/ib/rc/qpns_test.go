//go:build linux

package rc

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestQPNsModel compares the table with a map. Many of the numbers have the same preferred slot.
func TestQPNsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table qpnTable
		model := make(map[verbs.QPN]*endpoint)
		numbers := rapid.Custom(func(t *rapid.T) verbs.QPN {
			return verbs.QPN(rapid.IntRange(0, 40).Draw(t, "n") << rapid.SampledFrom([]int{0, 12, 18}).Draw(t, "shift"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if n := numbers.Draw(t, "number"); model[n] == nil {
					model[n] = new(endpoint)
					table.add(n, model[n])
				}
			},
			"remove": func(t *rapid.T) {
				n := numbers.Draw(t, "number")
				table.remove(n)
				delete(model, n)
			},
			"": func(t *rapid.T) {
				if n := numbers.Draw(t, "number"); table.find(n) != model[n] {
					t.Fatalf("%#x: %p, want %p", n, table.find(n), model[n])
				}
				for n, e := range model {
					if table.find(n) != e {
						t.Fatalf("%#x: %p, want %p", n, table.find(n), e)
					}
				}
				if table.n != len(model) || len(table.slots) > 16 && len(table.slots) > 8*41*3 {
					t.Fatalf("%d of %d, in %d slots", table.n, len(model), len(table.slots))
				}
			},
		})
	})
}

func BenchmarkQPNs(b *testing.B) {
	var table qpnTable
	for k := range 500 {
		table.add(verbs.QPN(0x40+k), new(endpoint))
	}
	n := 0
	for range b.N {
		if table.find(verbs.QPN(0x40+n%500)) == nil {
			b.Fatal("lost")
		}
		n += 7
	}
}
