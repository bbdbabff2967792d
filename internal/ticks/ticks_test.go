package ticks

import (
	"math"
	"testing"
	"time"
)

func TestNowGrows(t *testing.T) {
	last := Now()
	for range 1000 {
		now := Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}

// TestPerSecond compares with the system's clock. The margin is wide: the test
// may be interrupted between two readings.
func TestPerSecond(t *testing.T) {
	f := PerSecond()
	a := reading()
	for time.Since(a.time) < calibration {
	}
	b := reading()
	got := float64(b.ticks-a.ticks) / b.time.Sub(a.time).Seconds()
	if math.Abs(got-f) > f/20 {
		t.Errorf("%.0f ticks per second, then %.0f", f, got)
	}
}

func TestConversion(t *testing.T) {
	if got := Seconds(FromSeconds(2.5)); math.Abs(got-2.5) > 1e-6 {
		t.Errorf("2.5 s became %v s", got)
	}
	if got := FromSeconds(math.Inf(1)); got != math.MaxUint64 {
		t.Errorf("infinity became %d", got)
	}
}

func TestAllocs(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNow(b *testing.B) {
	for range b.N {
		Now()
	}
}

func BenchmarkMonotonic(b *testing.B) {
	for range b.N {
		monotonic()
	}
}
