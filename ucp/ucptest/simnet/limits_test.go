//go:build simulate

package simnet

import (
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// limited runs a pair of processes of which one meets a refusal at its n-th request of a resource. It
// returns the number of requests.
func limited(t *testing.T, tls string, n uint64) uint64 {
	w := New(n)
	defer w.Close()
	a := w.NewHost()
	b := a
	if tls != "netshm,netcma" {
		b = w.NewHost()
	}
	var addrs [2]ucp.Address
	gone := false
	main := func(side int) func(*Process) {
		return func(p *Process) {
			if side == 0 {
				p.Refuse = func(k uint64) bool { return k == n }
			}
			defer func() { gone = gone || side == 0 }()
			cfg, err := ucp.ReadConfig("", "")
			check(t, err)
			check(t, cfg.Modify("TLS", tls))
			c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureRMA}, cfg)
			if err != nil {
				return
			}
			defer func() { check(t, c.Close()) }()
			wk, err := c.NewWorker(ucp.WorkerParams{})
			if err != nil {
				return
			}
			defer func() { check(t, wk.Close()) }()
			addrs[side], err = wk.Address(0)
			check(t, err)
			if mem, err := c.Alloc(100_000, 0); err == nil {
				defer func() { check(t, mem.Close()) }()
			}
			p.Await(wk, func() bool { return addrs[1-side] != nil || gone })
			if gone {
				return
			}
			ep, err := wk.NewEndpoint(ucp.EndpointParams{Address: addrs[1-side], ErrMode: ucp.ErrModePeer})
			if err != nil {
				return
			}
			for _, size := range []int{10, 10_000, 300_000} {
				s, err := ep.TagSend(1, make([]byte, size), nil)
				if err != nil {
					break
				}
				r, err := wk.TagRecv(1, ucp.FullMask, make([]byte, size), nil)
				check(t, err)
				end := w.now + 2*time.Second
				w.schedule(end, p, func() { p.stirs++ })
				p.Poll(wk, func() bool { return s.Done() && r.Done() || w.now >= end || gone })
				if !r.Done() {
					wk.Cancel(r)
				}
				r.Free()
				s.Free()
			}
			r, err := ep.CloseAsync(nil)
			check(t, err)
			if r != nil {
				p.Poll(wk, r.Done)
				r.Free()
			}
		}
	}
	p := a.NewProcess(main(0))
	b.NewProcess(main(1))
	if err := w.Run(time.Minute, nil); err != nil {
		t.Fatalf("%s, request %d: %v", tls, n, err)
	}
	for _, p := range w.processes {
		if p.Used() != (Limits{}) || len(p.tasks) > 0 {
			t.Errorf("%s, request %d: %s uses %+v, and has %d goroutines", tls, n, p.name, p.Used(), len(p.tasks))
		}
	}
	return p.Claims()
}

// TestLimits: a refusal of any request of resources ends in an error or in another way, and leaves
// nothing behind.
func TestLimits(t *testing.T) {
	for _, tls := range []string{"nettcp", "netshm,netcma", "netrc", "netud", "nettcp,netrc"} {
		t.Run(tls, func(t *testing.T) {
			total := limited(t, tls, 0)
			for n := range total {
				limited(t, tls, n+1)
			}
			t.Logf("%d requests", total)
		})
	}
}
