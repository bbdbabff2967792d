//go:build simulate

package simnet

import (
	"runtime"
	"testing"
	"time"
)

// TestScale measures a crowd in which each process has an endpoint to every other.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	for _, n := range []int{10, 50, 100} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		w := crowd(t, "nettcp", n, n, 2*n)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		t.Logf("%d processes, %d endpoints: %v of real time, %v of the world, %d steps, %d bytes an endpoint allocated",
			n, n*n, took.Round(time.Millisecond), w.now, w.Steps(), (after.TotalAlloc-before.TotalAlloc)/uint64(n*n))
	}
}
