//go:build simulate

package simnet

import (
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// exchange runs two processes that exchange messages over a transport, and returns the digest.
func exchange(t *testing.T, seed uint64, tls string, n int) uint64 {
	w := New(seed)
	defer w.Close()
	a, b := w.NewHost(), w.NewHost()
	if tls == "netshm" {
		b = a
	}
	var addrs [2]ucp.Address
	got := 0
	main := func(side int) func(*Process) {
		return func(p *Process) {
			c := open(t, tls)
			wk, err := c.NewWorker(ucp.WorkerParams{})
			check(t, err)
			addrs[side], err = wk.Address(0)
			check(t, err)
			p.Await(wk, func() bool { return addrs[1-side] != nil })
			ep, err := wk.NewEndpoint(ucp.EndpointParams{Address: addrs[1-side]})
			check(t, err)
			for k := range n {
				buf := make([]byte, 100)
				if k%2 == side {
					r, err := ep.TagSend(1, []byte{byte(k)}, nil)
					check(t, err)
					finish(t, p, wk, r)
					continue
				}
				r, err := wk.TagRecv(1, ucp.FullMask, buf, nil)
				check(t, err)
				finish(t, p, wk, r)
				if buf[0] != byte(k) {
					t.Errorf("got %d, want %d", buf[0], k)
				}
				got++
			}
			r, err := ep.CloseAsync(nil)
			check(t, err)
			finish(t, p, wk, r)
			check(t, wk.Close())
			check(t, c.Close())
		}
	}
	a.NewProcess(main(0))
	b.NewProcess(main(1))
	if err := w.Run(time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	if got != n {
		t.Errorf("%d of %d messages", got, n)
	}
	return w.Digest()
}

func TestExchange(t *testing.T) {
	for _, tls := range []string{"nettcp", "netshm", "netrc", "netud"} {
		t.Run(tls, func(t *testing.T) {
			one, two := exchange(t, 1, tls, 100), exchange(t, 1, tls, 100)
			if one != two {
				t.Error("two runs with a seed differ")
			}
			if exchange(t, 2, tls, 100) == one {
				t.Error("two runs with different seeds are the same")
			}
		})
	}
}

func open(t testing.TB, tls string) *ucp.Context {
	cfg, err := ucp.ReadConfig("", "")
	check(t, err)
	check(t, cfg.Modify("TLS", tls))
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureWakeup}, cfg)
	check(t, err)
	return c
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		panic(err)
	}
}

// finish waits for the end of an operation.
func finish(t *testing.T, p *Process, w *ucp.Worker, r *ucp.Request) {
	t.Helper()
	if r == nil {
		return
	}
	p.Poll(w, r.Done)
	check(t, r.Err())
	r.Free()
}
