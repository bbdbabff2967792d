//go:build linux

package ucptest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
)

// asleepVar makes the test binary a process whose worker sleeps for so long.
const asleepVar = "TIME_TO_SLEEP"

// TestAsleep: a worker with nothing to do makes no system calls, however long that takes,
// nor does one whose peer takes nothing. Over shared memory it looks once a second who
// has come from another network namespace. The calls of Go's runtime are not told apart
// from ours, so there may be some.
func TestAsleep(t *testing.T) {
	for _, c := range []struct {
		name, transport string
		blocked         bool
		background      bool
		aSecond         int
	}{
		{"tcp", "tcp", false, false, 0},
		{"posix", "posix", false, false, 40},
		{"posix blocked", "posix", true, false, 40},
		{"tcp background", "tcp", false, true, 0},
		{"posix background", "posix", false, true, 80},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d, err := time.ParseDuration(os.Getenv(asleepVar)); err == nil {
				tr := byName(t, c.transport)
				if c.background {
					tr = tr.attended()
				}
				sleepFor(t, tr, d, c.blocked)
				return
			}
			if race.Enabled {
				t.Skip("the race detector makes system calls of its own")
			}
			needStrace(t)
			// What is done before the sleep takes more calls in one run than in another, more
			// so on a busy machine: of some runs the least counts.
			const tries = 5
			for try := 1; ; try++ {
				short := countSystemCalls(t, asleepVar+"=1ms")
				start := time.Now()
				long := countSystemCalls(t, asleepVar+"=2s")
				took := time.Since(start)
				t.Logf("%d more system calls in %v", long-short, took)
				limit := 50 + c.aSecond*int(took/time.Second)
				if long-short <= limit {
					return
				}
				if try == tries {
					t.Fatalf("%d more system calls in %v, at most %d are allowed", long-short, took, limit)
				}
			}
		})
	}
}

// sleepFor waits for nothing.
func sleepFor(t *testing.T, tr transport, d time.Duration, blocked bool) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	r.settle()
	var req *ucp.Request
	for blocked && req == nil { // until there is no room
		var err error
		if req, err = ep.TagSend(1, make([]byte, 8), nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if tr.background {
		<-ctx.Done()
		return
	}
	a.arm()
	for a.Wait(ctx) == nil {
		a.Progress()
	}
	if blocked {
		r.must(req, nil)
	}
}
