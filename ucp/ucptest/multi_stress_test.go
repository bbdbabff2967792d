//go:build linux

package ucptest

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
)

// TestMulti checks that every message arrives once, whole and in order, and that every operation
// has one result, whichever goroutines progress the workers.
func TestMulti(t *testing.T) {
	for _, tr := range []transport{
		byName(t, "self"), byName(t, "posix"), byName(t, "tcp"), byName(t, "posix and cma"), simPlain, simStorm,
	} {
		t.Run(tr.name, func(t *testing.T) {
			for i, d := range drivers {
				t.Run(d.name, func(t *testing.T) {
					if (race.Enabled || testing.Short()) && i%2 == 1 && slices.Contains([]string{"self", "posix and cma"}, tr.name) {
						t.Skip("the others have shown it")
					}
					newCrowd(t, tr).run(d.list...)
				})
			}
		})
	}
}
