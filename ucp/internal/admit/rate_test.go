package admit

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// TestRequestRate: in any time no more requests are admitted than the burst and what the rate
// gives in that time, and a source that keeps to its waits is never refused.
func TestRequestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rates Rates
		who := ledger.Source{UID: 7}
		now := time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "now"))
		began := now
		atOnce, admitted, refused := 0, 0, 0 // atOnce: those without a wait
		patient := rapid.Bool().Draw(t, "patient")
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			now += time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "pause"))
			for range rapid.IntRange(0, RequestBurst+RequestOverdraft/4).Draw(t, "requests") {
				wait, err := rates.Take(who, now)
				if (err != nil) != (wait == 0 && errors.Is(err, ucs.ErrExceedsLimit)) {
					t.Fatalf("wait %v, %v", wait, err)
				}
				switch {
				case err != nil:
					refused++
				case wait == 0:
					atOnce++
					admitted++
				default:
					admitted++
				}
				if patient {
					now += wait
				}
			}
			elapsed := (now - began).Seconds()
			if float64(atOnce) > RequestBurst+RequestRate*elapsed+1 {
				t.Fatalf("%d requests without a wait in %v s", atOnce, elapsed)
			}
			if float64(admitted) > RequestBurst+RequestOverdraft+RequestRate*elapsed+1 {
				t.Fatalf("%d requests admitted in %v s", admitted, elapsed)
			}
		}
		if patient && refused > 0 {
			t.Fatalf("%d requests of a source that waits are refused", refused)
		}
		if patient && float64(admitted) > RequestBurst+RequestRate*(now-began).Seconds()+1 {
			t.Fatalf("%d requests of a source that waits in %v", admitted, now-began)
		}
	})
}

// TestManySources: the processes of a job that start at once are not held up. A source that asks
// without end is, others are not, and the number of sources that are remembered is bounded.
func TestManySources(t *testing.T) {
	var clock time.Duration
	rates := Rates{Clock: func() time.Duration { return clock }}
	source := func(n int) ledger.Source {
		return ledger.Source{Addr: netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), UID: -1}
	}
	for k := range 10_000 {
		if wait, err := rates.Take(source(0), 0); wait != 0 || err != nil {
			t.Fatalf("process %d of a job: %v, %v", k, wait, err)
		}
	}
	n := 0
	for ; ; n++ {
		if wait, err := rates.Take(source(0), 0); err != nil {
			break
		} else if wait > (RequestOverdraft+1)*time.Second/RequestRate {
			t.Fatalf("a wait of %v", wait)
		}
	}
	if want := RequestBurst + RequestOverdraft - 10_000; n != want {
		t.Errorf("%d requests before the first error, want %d", n, want)
	}
	if wait, err := rates.Take(source(1), 0); wait != 0 || err != nil {
		t.Errorf("another source: %v, %v", wait, err)
	}
	rates.Of(source(1)).Lookups.Add(0, LookupBurst)
	clock = LookupBurst
	now := time.Duration(0)
	for k := range 3 * maxRates {
		now += time.Second
		if _, err := rates.Take(source(2+k), now); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(rates.bySource); n > maxRates+2 {
		t.Errorf("%d sources are remembered that ask once", n)
	}
	if rates.Of(source(1)) == nil {
		t.Error("a source is forgotten that has spent its time")
	}
	for k := range 2 * maxBusyRates {
		if _, err := rates.Take(source(1<<20+k), now); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(rates.bySource); n > maxBusyRates {
		t.Errorf("%d sources are remembered", n)
	}
	if _, err := rates.Take(source(2), now+forgetInterval); err != nil || len(rates.bySource) > 2 {
		t.Errorf("%v, %d sources are remembered that have not asked lately", err, len(rates.bySource))
	}
}

// TestBudget: look-ups that are made only while there is time take no more than the burst, their
// share of the time, and the last look-up. Time counts once, however many look-ups it belongs to.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Budget
		var now, idle, spent, last time.Duration
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			pause := time.Duration(rapid.Int64Range(0, int64(LookupBurst)).Draw(t, "pause"))
			now, idle = now+pause, idle+pause
			if b.Exhausted(now) {
				continue
			}
			began := now
			last = time.Duration(rapid.Int64Range(0, int64(3*LookupBurst)).Draw(t, "takes"))
			now, spent = now+last, spent+last
			charged := b.SpentAt(began) + last
			for range rapid.IntRange(1, 3).Draw(t, "look-ups at the same time") {
				b.Add(began, now)
				began += time.Duration(rapid.Int64Range(0, int64(now-began)).Draw(t, "later"))
			}
			if got := b.SpentAt(now); got != charged {
				t.Fatalf("%v are charged, want %v", got, charged)
			}
			if most := LookupBurst + idle/LookupShare + last + time.Microsecond; spent > most {
				t.Fatalf("look-ups took %v, at most %v are allowed", spent, most)
			}
		}
	})
}
