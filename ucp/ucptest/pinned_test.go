//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestPinned checks how much memory workers over RDMA devices pin at each stage: little after they
// are opened, nothing more for an endpoint or for single messages, and more for bursts, which is
// kept for the next burst. C UCX pins 20 to 80 MB for each worker at once.
func TestPinned(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine does much, and nothing else does anything")
	}
	for _, c := range []struct {
		tr             transport
		each, one, all int64 // KiB: each worker, a pair with few messages, a pair after bursts
	}{
		{rc, 1200, 2400, 50000}, // rc and ud
		{ud, 420, 1600, 24000},
	} {
		t.Run(c.tr.name, func(t *testing.T) {
			r := newRig(t, c.tr)
			before, _ := fake.Pinned()
			pinned := func(what string, most int64) (n int64) {
				t.Helper()
				now, _ := fake.Pinned()
				n = (now - before) >> 10
				t.Logf("%s: %d KiB", what, n)
				if n > most {
					t.Errorf("%s: %d KiB are pinned, at most %d are meant to be", what, n, most)
				}
				return n
			}
			a := r.open()
			pinned("a worker", c.each)
			b := r.open()
			idle := pinned("two workers", 2*c.each)
			ep := a.connect(b)
			r.sendAndTake(ep, b, 1, ucttest.Pattern(8, 1))
			if n := pinned("an endpoint", 2*c.each); n != idle {
				t.Errorf("an endpoint takes %d KiB", n-idle)
			}
			for k := range 2000 {
				r.sendAndTake(ep, b, 1, ucttest.Pattern(4000, uint64(k)))
			}
			pinned("messages one by one", c.one)
			burst := func() {
				const n = 2000
				var reqs []*ucp.Request
				for range n {
					reqs = append(reqs, b.recvInto(1, 0, make([]byte, 4000), nil))
				}
				for k := range uint64(n) {
					s, err := ep.TagSend(1, ucttest.Pattern(4000, k), nil)
					if err != nil {
						t.Fatal(err)
					}
					if s != nil {
						reqs = append(reqs, s)
					}
				}
				for _, q := range reqs {
					r.must(q, nil)
				}
			}
			for range 3 {
				burst()
			}
			grown := pinned("bursts", c.all)
			for range 20 {
				burst()
			}
			if n := pinned("more of them", c.all); n > grown*5/4 {
				t.Errorf("%d KiB after bursts, and %d after more of the same", grown, n)
			}
			for range 100 {
				r.sendAndTake(ep, b, 1, ucttest.Pattern(8, 1))
			}
			if n := pinned("little again", c.all); n < grown {
				t.Errorf("%d KiB after bursts, and %d later: buffers go, then", grown, n)
			}
			b.close()
			a.close()
			pinned("nothing", 0)
		})
	}
}
