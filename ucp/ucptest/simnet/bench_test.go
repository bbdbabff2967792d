//go:build simulate

package simnet

import (
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// crowd runs n processes, each of which sends messages to all others in turn, and returns the world.
func crowd(tb testing.TB, tls string, hosts, n, messages int) *World {
	w := New(1)
	list := make([]*Host, hosts)
	for k := range list {
		list[k] = w.NewHost()
	}
	addrs := make([]ucp.Address, n)
	known, got := 0, 0
	for k := range n {
		list[k%hosts].NewProcess(func(p *Process) {
			c := open(tb, tls)
			wk, err := c.NewWorker(ucp.WorkerParams{})
			check(tb, err)
			addrs[k], err = wk.Address(0)
			check(tb, err)
			known++
			p.Await(wk, func() bool { return known == n })
			eps := make([]*ucp.Endpoint, n)
			for j := range n {
				eps[j], err = wk.NewEndpoint(ucp.EndpointParams{Address: addrs[j]})
				check(tb, err)
			}
			left := 0
			buf := make([]byte, 64)
			for range messages {
				r, err := wk.TagRecv(1, ucp.FullMask, buf, &ucp.RequestParams{OnTagRecv: func(r *ucp.Request, _ error, _ ucp.TagRecvInfo, _ any) { left--; got++; r.Free() }})
				check(tb, err)
				if r != nil {
					left++
				}
			}
			for m := range messages {
				to := eps[(k+1+m%(n-1))%n]
				r, err := to.TagSend(1, buf[:8], nil)
				check(tb, err)
				if r != nil {
					p.Poll(wk, r.Done)
					r.Free()
				}
			}
			p.Poll(wk, func() bool { return left <= 0 })
			p.Await(wk, func() bool { return got >= n*messages-n })
		})
	}
	if err := w.Run(time.Hour, nil); err != nil {
		tb.Fatal(err)
	}
	w.Close()
	return w
}

// BenchmarkWorld reports messages and steps a second of CPU, with 10 processes.
func BenchmarkWorld(b *testing.B) {
	for _, tls := range []string{"nettcp", "netshm", "netrc", "netud"} {
		b.Run(tls, func(b *testing.B) {
			const n, messages = 10, 2000
			hosts := n
			if tls == "netshm" {
				hosts = 1
			}
			b.ReportAllocs()
			steps, begin := uint64(0), cpuTime()
			for range b.N {
				steps += crowd(b, tls, hosts, n, messages).Steps()
			}
			b.ReportMetric(float64(b.N*n*messages)/(cpuTime()-begin).Seconds(), "messages/s")
			b.ReportMetric(float64(steps)/float64(b.N*n*messages), "steps/message")
		})
	}
}
