//go:build simulate

package simnet

import (
	"context"
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// multi runs two processes with several goroutines each that use one worker with blocking calls, and
// returns the digest of the world.
func multi(t *testing.T, seed uint64, tls string, background bool) uint64 {
	const each, messages = 4, 20
	w := New(seed)
	defer w.Close()
	a, b := w.NewHost(), w.NewHost()
	if tls == "netshm" {
		b = a
	}
	var addrs [2]ucp.Address
	done, finished := 0, 0
	others := 1 // goroutines that are not those of users
	if background {
		others++
	}
	main := func(side int) func(*Process) {
		return func(p *Process) {
			c := open(t, tls)
			wk, err := c.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti, Background: background})
			check(t, err)
			addrs[side], err = wk.Address(0)
			check(t, err)
			p.Await(wk, func() bool { return addrs[1-side] != nil })
			ep, err := wk.NewEndpoint(ucp.EndpointParams{Address: addrs[1-side]})
			check(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			left := each
			for g := range each {
				p.Go("user", func() {
					tag := ucp.Tag(g)
					buf := make([]byte, 20_000)
					for k := range messages {
						size := 1 + k*k*40
						if (k+g)%2 == side {
							check(t, ep.TagSendWait(context.Background(), tag, buf[:size]))
							continue
						}
						info, err := wk.TagRecvWait(context.Background(), tag, ucp.FullMask, buf)
						check(t, err)
						if info.Length != size {
							t.Errorf("goroutine %d, message %d: %d bytes, want %d", g, k, info.Length, size)
						}
						done++
					}
					if left--; left == 0 {
						finished++
					}
				})
			}
			if !background {
				p.Go("run", func() {
					if err := wk.Run(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("Run: %v", err)
					}
				})
				p.Go("wait", func() {
					for ctx.Err() == nil {
						if err := wk.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
							t.Errorf("Wait: %v", err)
						}
						wk.Progress()
					}
				})
			}
			p.Await(wk, func() bool { return finished == 2 }) // nobody closes while the other needs an answer
			cancel()
			check(t, wk.Signal())
			p.Until(func() bool { return len(p.tasks) == others })
			check(t, ep.Close())
			check(t, wk.Close())
			check(t, c.Close())
		}
	}
	a.NewProcess(main(0))
	b.NewProcess(main(1))
	if err := w.Run(time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	if want := each * messages; done != want {
		t.Errorf("seed %d: %d of %d messages", seed, done, want)
	}
	for _, p := range w.processes {
		for _, k := range p.tasks {
			t.Errorf("seed %d: %s is left", seed, k.name)
		}
	}
	return w.Digest()
}

var seeds = flag.Int("seeds", 10, "number of seeds of each test that takes many")

// TestMulti: goroutines that share a worker interleave in many ways, the same for each seed.
func TestMulti(t *testing.T) {
	for _, c := range []struct {
		name, tls  string
		background bool
	}{
		{"nettcp", "nettcp", false}, {"netshm", "netshm", false}, {"netrc", "netrc", false}, {"netud", "netud", false}, {"background", "nettcp", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := uint64(0)
			for seed := range uint64(*seeds) {
				one, two := multi(t, seed, c.tls, c.background), multi(t, seed, c.tls, c.background)
				if one != two {
					t.Errorf("two runs with seed %d differ", seed)
				}
				if one == before {
					t.Error("two seeds give the same run")
				}
				before = one
			}
		})
	}
}
