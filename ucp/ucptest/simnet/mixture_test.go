//go:build simulate

package simnet

import (
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// published is what a process of a mixture tells the others.
type published struct {
	addr ucp.Address
	base uint64
	key  []byte
}

// member is a process of a mixture, which does random things. What comes of them does not matter here.
type member struct {
	*Process
	w     *ucp.Worker
	eps   []*ucp.Endpoint
	keys  map[*ucp.Endpoint]*ucp.Rkey
	open  []*ucp.Request
	bases map[*ucp.Endpoint]uint64
}

var transports = []string{"nettcp,netshm,netcma,netrc,netud,self", "nettcp", "netud", "netrc", "netud,netshm,self", "nettcp,netshm,netcma"}

// mixture runs a busy cluster with faults, and returns its digest and a description of what has happened.
func mixture(t *testing.T, seed uint64) (uint64, string) {
	const processes, actions = 6, 250
	w := New(seed)
	defer w.Close()
	hosts := []*Host{w.NewHost(), w.NewHost(), w.NewHost()}
	var table [processes]*published
	finished, failed := 0, 0
	for k := range processes {
		hosts[k%len(hosts)].NewProcess(func(p *Process) {
			m := &member{Process: p, keys: make(map[*ucp.Endpoint]*ucp.Rkey), bases: make(map[*ucp.Endpoint]uint64)}
			cfg, err := ucp.ReadConfig("", "")
			check(t, err)
			check(t, cfg.Modify("TLS", transports[seed%uint64(len(transports))]))
			c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureAM | ucp.FeatureRMA | ucp.FeatureStream}, cfg)
			check(t, err)
			params := ucp.WorkerParams{}
			if seed%4 == 3 {
				params = ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti, Background: k%2 == 0}
			}
			m.w, err = c.NewWorker(params)
			check(t, err)
			check(t, m.w.SetAMHandler(ucp.AMHandlerParams{ID: 3, Handler: func(*ucp.AMMessage) error { finished++; return nil }}))
			mem, err := c.Alloc(1<<17, ucp.MemProt(0))
			check(t, err)
			key, err := mem.PackRkey()
			check(t, err)
			addr, err := m.w.Address(0)
			check(t, err)
			table[k] = &published{addr, word(mem), key}
			if seed%4 == 3 {
				for range 2 {
					p.Go("waiter", func() { m.waits(&finished) })
				}
			}
			for range actions {
				m.act(t, table[:], &failed)
			}
			m.poll(10 * time.Second)
		})
	}
	rng := w.Rand()
	for range 12 {
		a, b := hosts[rng.IntN(3)], hosts[rng.IntN(3)]
		at := time.Duration(rng.Int64N(int64(200 * time.Millisecond)))
		back := at + time.Duration(rng.Int64N(int64(20*time.Second)))
		switch n := rng.IntN(7); n {
		case 0, 1:
			w.At(at, func() { w.Net.Cut(a, b) })
			w.At(back, func() { w.Net.Heal(a, b) })
		case 2:
			w.At(at, a.Vanish)
			w.At(back, a.Return)
		case 3:
			p := w.processes[rng.IntN(processes)]
			w.At(at, p.Freeze)
			w.At(back, p.Thaw)
		case 4:
			w.At(at, func() { w.Net.Way(a, b).Loss = 0.1 })
		case 5:
			w.At(at, w.processes[rng.IntN(processes)].Kill)
		}
	}
	if err := w.Run(5*time.Minute, nil); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return w.Digest(), fmt.Sprintf("%+v, %d finished, %d failed, %v", w.Count, finished, failed, w.now)
}

// waits receives and sends with calls that wait, on its own goroutine.
func (m *member) waits(finished *int) {
	rng := m.Process.w.rng
	for range 30 {
		ctx, cancel := m.Context(time.Duration(rng.Int64N(int64(50 * time.Millisecond))))
		var err error
		if len(m.eps) == 0 || rng.IntN(2) == 0 {
			_, err = m.w.TagRecvWait(ctx, ucp.Tag(rng.IntN(3)), ucp.FullMask, make([]byte, 100_000))
		} else {
			err = m.eps[rng.IntN(len(m.eps))].TagSendWait(ctx, ucp.Tag(rng.IntN(3)), make([]byte, rng.IntN(100_000)))
		}
		if err == nil {
			*finished++
		}
		cancel()
	}
}

func (m *member) act(t *testing.T, table []*published, failed *int) {
	rng := m.Process.w.rng
	sizes := []int{0, 1, 100, 5000, 8200, 20_000, 70_000, 100_000}
	size := sizes[rng.IntN(len(sizes))]
	started := func(r *ucp.Request, err error) {
		if err != nil {
			*failed++
		} else if r != nil {
			m.open = append(m.open, r)
		}
	}
	if len(m.eps) == 0 || rng.IntN(8) == 0 {
		if to := table[rng.IntN(len(table))]; to != nil {
			mode := ucp.ErrModePeer
			ep, err := m.w.NewEndpoint(ucp.EndpointParams{Address: to.addr, ErrMode: mode, OnError: func(*ucp.Endpoint, error, any) {}})
			if err != nil {
				*failed++
				return
			}
			m.eps = append(m.eps, ep)
			if key, err := ep.UnpackRkey(to.key); err == nil {
				m.keys[ep], m.bases[ep] = key, to.base
			}
		}
		m.poll(0)
		return
	}
	ep := m.eps[rng.IntN(len(m.eps))]
	switch rng.IntN(10) {
	case 0, 1:
		started(ep.TagSend(ucp.Tag(rng.IntN(3)), make([]byte, size), nil))
	case 2, 3:
		started(m.w.TagRecv(ucp.Tag(rng.IntN(3)), ucp.FullMask, make([]byte, 100_000), nil))
	case 4:
		started(ep.AMSend(3, []byte("head"), make([]byte, size), nil))
	case 5:
		if key := m.keys[ep]; key != nil {
			started(ep.Put(make([]byte, size), m.bases[ep], key, nil))
			started(ep.Get(make([]byte, size), m.bases[ep], key, nil))
		}
	case 6:
		started(ep.StreamSend(make([]byte, size), nil))
	case 7:
		if len(m.open) > 0 {
			m.w.Cancel(m.open[rng.IntN(len(m.open))])
		}
	case 8:
		started(ep.Flush(nil))
	case 9:
		if rng.IntN(4) == 0 {
			if key := m.keys[ep]; key != nil {
				key.Close()
				delete(m.keys, ep)
			}
			m.eps = slices.DeleteFunc(m.eps, func(o *ucp.Endpoint) bool { return o == ep })
			started(ep.CloseAsync(nil))
		}
	}
	m.poll(time.Duration(rng.Int64N(int64(5 * time.Millisecond))))
}

// poll progresses for a time.
func (m *member) poll(d time.Duration) {
	w := m.Process.w
	end := w.now + d
	w.schedule(end, m.Process, func() { m.stirs++ })
	m.Poll(m.w, func() bool { return w.now >= end })
	m.open = slices.DeleteFunc(m.open, func(r *ucp.Request) bool {
		done := r.Done()
		if done {
			r.Free()
		}
		return done
	})
}

func word(m *ucp.Memory) uint64 { return m.Attr().Address }

// TestDeterminism: a seed gives the same run again, whatever the garbage collector does.
func TestDeterminism(t *testing.T) {
	for seed := range uint64(*seeds) {
		one, what := mixture(t, seed)
		before := debug.SetGCPercent(3)
		two, again := mixture(t, seed)
		debug.SetGCPercent(before)
		if one != two {
			t.Errorf("two runs with seed %d differ:\n%s\n%s", seed, what, again)
		}
		if testing.Verbose() {
			t.Logf("seed %d: %s", seed, what)
		}
	}
}
