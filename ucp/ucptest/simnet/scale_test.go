//go:build simulate

package simnet

import (
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

var (
	simScale = flag.String("sim.scale", "10,50", "comma-separated numbers of `workers` of TestScale")
	simShape = flag.String("sim.shape", "all", "`shape` of TestScale: all (each worker has an endpoint to every other) or tree (to its parent and children)")
	simTLS   = flag.String("sim.tls", "nettcp", "`transports` of TestScale")
)

// fanout is the number of children of a worker in a tree.
const fanout = 16

// neighbours returns the workers that worker k has endpoints to.
func neighbours(shape string, k, n int) (list []int) {
	if shape == "all" {
		for j := range n {
			if j != k {
				list = append(list, j)
			}
		}
		return list
	}
	if k > 0 {
		list = append(list, (k-1)/fanout)
	}
	for j := k*fanout + 1; j <= min(k*fanout+fanout, n-1); j++ {
		list = append(list, j)
	}
	return list
}

// scaled is what was measured of a cluster.
type scaled struct {
	workers, endpoints    int
	opening, wiring, talk time.Duration // of the processor
	wired                 time.Duration // of the world
	empty, full           uint64        // bytes in use with the workers open, and with all endpoints connected
	steps                 uint64
}

func (s scaled) String() string {
	per := func(d time.Duration, n int) time.Duration { return d / time.Duration(max(n, 1)) }
	return fmt.Sprintf("| %d | %d | %v | %.0f KB | %v | %.2f KB | %v | %v | %d |",
		s.workers, s.endpoints, per(s.opening, s.workers).Round(time.Microsecond), float64(s.empty)/float64(s.workers)/1024,
		per(s.wiring, s.endpoints).Round(100*time.Nanosecond), float64(s.full-s.empty)/float64(s.endpoints)/1024,
		per(s.talk, s.endpoints).Round(100*time.Nanosecond), s.wired.Round(time.Microsecond), s.steps)
}

// inUse returns the bytes of live objects.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// scale opens n workers, each in a process and on a host of its own, makes their endpoints, and sends a
// message over each, twice: the first one also connects the endpoint.
func scale(tb testing.TB, tls, shape string, n int) (s scaled) {
	w := New(1)
	defer w.Close()
	s.workers = n
	addrs := make([]ucp.Address, n)
	ready, received, phase := 0, 0, 0
	before := inUse()
	for k := range n {
		w.NewHost().NewProcess(func(p *Process) {
			c := open(tb, tls)
			wk, err := c.NewWorker(ucp.WorkerParams{})
			check(tb, err)
			addrs[k], err = wk.Address(0)
			check(tb, err)
			ready++
			p.Until(func() bool { return phase > 0 })
			var eps []*ucp.Endpoint
			for _, j := range neighbours(shape, k, n) {
				ep, err := wk.NewEndpoint(ucp.EndpointParams{Address: addrs[j]})
				check(tb, err)
				eps = append(eps, ep)
			}
			s.endpoints += len(eps)
			for round := 1; round <= 2; round++ {
				p.Poll(wk, func() bool { return phase >= round })
				sent := 0
				for _, ep := range eps {
					r, err := ep.TagSend(1, make([]byte, 8), &ucp.RequestParams{OnSend: func(r *ucp.Request, _ error, _ any) { sent++; r.Free() }})
					check(tb, err)
					if r == nil {
						sent++
					}
				}
				got := 0
				p.Poll(wk, func() bool {
					for {
						m, ok := wk.TagTake(0, 0)
						if !ok {
							break
						}
						_, err := m.Recv(make([]byte, 8), nil)
						check(tb, err)
						got++
						received++
					}
					return got == len(eps) && sent == len(eps)
				})
			}
			p.Poll(wk, func() bool { return false })
		})
	}
	stage := func(done func() bool) time.Duration {
		began := cpuTime()
		for _, p := range w.processes {
			p.stirs++
		}
		w.stirAll()
		if err := w.Run(24*time.Hour, done); err != nil {
			tb.Fatal(err)
		}
		return cpuTime() - began
	}
	s.opening = stage(func() bool { return ready == n })
	s.empty = inUse() - before
	phase, ready = 1, 0
	began := w.now
	s.wiring = stage(func() bool { return s.endpoints > 0 && received == s.endpoints && received == total(shape, n) })
	s.wired = w.now - began
	s.full = inUse() - before
	phase = 2
	s.talk = stage(func() bool { return received == 2*s.endpoints })
	s.steps = w.Steps()
	return s
}

// total returns the number of endpoints of a shape.
func total(shape string, n int) int {
	if shape == "all" {
		return n * (n - 1)
	}
	return 2 * (n - 1)
}

// TestScale measures clusters of several sizes (docs/scale.md).
func TestScale(t *testing.T) {
	t.Log("| workers | endpoints | CPU to open a worker | memory of a worker | CPU to connect an endpoint | memory of an endpoint | CPU of a message | time of the world to connect | steps |")
	for word := range strings.SplitSeq(*simScale, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(scale(t, *simTLS, *simShape, n))
	}
}
