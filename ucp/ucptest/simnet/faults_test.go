//go:build simulate

package simnet

import (
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// node is one of two processes with an endpoint to the other.
type node struct {
	*Process
	t  *testing.T
	w  *ucp.Worker
	ep *ucp.Endpoint

	failed error         // the error that ended the endpoint
	at     time.Duration // when it did
}

// pair starts two processes on two hosts, which may be one, that run f when both have an endpoint to the
// other. The endpoints detect failures.
func pair(t *testing.T, a, b *Host, tls string, f func(n *node, side int)) (nodes [2]*node) {
	var addrs [2]ucp.Address
	ready := 0
	for side, h := range []*Host{a, b} {
		n := &node{t: t}
		nodes[side] = n
		n.Process = h.NewProcess(func(p *Process) {
			n.Process = p
			c := open(t, tls)
			var err error
			n.w, err = c.NewWorker(ucp.WorkerParams{})
			check(t, err)
			addrs[side], err = n.w.Address(0)
			check(t, err)
			p.Await(n.w, func() bool { return addrs[1-side] != nil })
			n.ep, err = n.w.NewEndpoint(ucp.EndpointParams{
				Address: addrs[1-side], ErrMode: ucp.ErrModePeer,
				OnError: func(_ *ucp.Endpoint, err error, _ any) { n.failed, n.at = err, p.w.now },
			})
			check(t, err)
			n.send(100, 1)
			n.receive(100, 1)
			ready++
			p.Await(n.w, func() bool { return ready >= 2 })
			f(n, side)
		})
	}
	return nodes
}

// send sends n bytes, and returns when the send has ended.
func (n *node) send(tag ucp.Tag, size int) error {
	r, err := n.ep.TagSend(tag, make([]byte, size), nil)
	return n.wait(r, err)
}

func (n *node) receive(tag ucp.Tag, size int) error {
	r, err := n.w.TagRecv(tag, ucp.FullMask, make([]byte, size), nil)
	return n.wait(r, err)
}

func (n *node) wait(r *ucp.Request, err error) error {
	if r == nil || err != nil {
		return err
	}
	n.Poll(n.w, r.Done)
	err = r.Err()
	r.Free()
	return err
}

// until progresses until a time, or until done returns true.
func (n *node) until(at time.Duration, done func() bool) {
	n.Process.w.schedule(at, n.Process, func() { n.stirs++ })
	n.Poll(n.w, func() bool { return n.Process.w.now >= at || done != nil && done() })
}

func run(t *testing.T, w *World) {
	t.Helper()
	if err := w.Run(10*time.Minute, nil); err != nil {
		t.Fatal(err)
	}
}

// world makes a world with two hosts.
func world(t *testing.T) (w *World, a, b *Host) {
	w = New(1)
	t.Cleanup(w.Close)
	return w, w.NewHost(), w.NewHost()
}

// TestPartition: messages sent in a partition that heals in time arrive after it, in both directions.
func TestPartition(t *testing.T) {
	for _, tls := range []string{"nettcp", "netrc", "netud"} {
		t.Run(tls, func(t *testing.T) {
			w, a, b := world(t)
			nodes := pair(t, a, b, tls, func(n *node, side int) {
				n.until(2*time.Second, nil)
				for k := range 40 {
					check(t, n.send(ucp.Tag(k), 100*k))
				}
				for k := range 40 {
					check(t, n.receive(ucp.Tag(k), 100*k))
				}
				if now := w.now; now < 5*time.Second || now > 8*time.Second {
					t.Errorf("received at %v", now)
				}
				n.until(60*time.Second, nil)
			})
			w.At(time.Second, func() { w.Net.Partition(a, b) })
			w.At(5*time.Second, func() { w.Net.Heal(a, b) })
			run(t, w)
			for side, n := range nodes {
				if n.failed != nil || w.now < 60*time.Second {
					t.Errorf("side %d: %v, at %v", side, n.failed, w.now)
				}
			}
		})
	}
}

// TestOneWay: when only the acknowledgements do not come back, messages arrive, and the sender gives up.
func TestOneWay(t *testing.T) {
	for tls, timeout := range map[string]time.Duration{"nettcp": 28 * time.Second, "netrc": 8 * time.Second, "netud": 30 * time.Second} {
		t.Run(tls, func(t *testing.T) {
			w, a, b := world(t)
			got := false
			nodes := pair(t, a, b, tls, func(n *node, side int) {
				if side == 0 {
					n.until(2*time.Second, nil)
					check(t, n.send(1, 1))
				} else {
					check(t, n.receive(1, 1))
					got = true
				}
				n.until(2*time.Minute, func() bool { return n.failed != nil })
			})
			w.At(time.Second, func() { w.Net.Cut(b, a) })
			run(t, w)
			n := nodes[0]
			if want := time.Second + timeout; !got || !errors.Is(n.failed, ucs.ErrEndpointTimeout) || n.at < want || n.at > want+2*time.Second {
				t.Errorf("received: %v; the sender fails at %v with %v", got, n.at, n.failed)
			}
		})
	}
}

// TestVanish: when the network of a host is unplugged, both sides of a stream notice it without traffic.
// With a pairwise connection only the one that sends does, and its operations end with an error.
func TestVanish(t *testing.T) {
	for _, tls := range []string{"nettcp", "netrc"} {
		t.Run(tls, func(t *testing.T) {
			w, a, b := world(t)
			var end error
			nodes := pair(t, a, b, tls, func(n *node, side int) {
				n.until(10*time.Second, nil)
				if side == 0 {
					end = n.send(5, 100_000)
				}
				n.until(80*time.Second, func() bool { return n.failed != nil })
			})
			w.At(5*time.Second, b.Vanish)
			w.At(90*time.Second, b.Return)
			run(t, w)
			if end == nil || nodes[0].failed == nil {
				t.Errorf("the send ends with %v, the endpoint with %v", end, nodes[0].failed)
			}
			for side, n := range nodes {
				t.Logf("side %d fails at %v: %v", side, n.at, n.failed)
				if n.failed == nil || n.at > 75*time.Second {
					t.Errorf("side %d has not noticed it until %v", side, n.at)
				}
			}
		})
	}
}

// TestKill: what the peer of a process notices of its end.
func TestKill(t *testing.T) {
	for _, c := range []struct {
		tls           string
		first, latest time.Duration
	}{
		{"nettcp", 0, time.Millisecond},
		{"netshm", time.Second, 45 * time.Second},
		{"netrc", 8 * time.Second, 60 * time.Second},
		{"netud", 25 * time.Second, 60 * time.Second},
	} {
		t.Run(c.tls, func(t *testing.T) {
			w, a, b := world(t)
			if c.tls == "netshm" {
				b = a
			}
			nodes := pair(t, a, b, c.tls, func(n *node, side int) {
				n.until(2*time.Second-100*time.Microsecond, nil)
				if side == 0 {
					for n.failed == nil && w.now < 2*time.Minute {
						n.send(1, 8000)
					}
				}
				n.until(2*time.Minute, func() bool { return n.failed != nil })
			})
			w.At(2*time.Second, nodes[1].Kill)
			run(t, w)
			n := nodes[0]
			if after := n.at - 2*time.Second; n.failed == nil || after < c.first || after > c.latest {
				t.Errorf("it notices it after %v: %v", after, n.failed)
			}
		})
	}
}

// TestCrash: the peers of a host that crashes learn of it when it is back.
func TestCrash(t *testing.T) {
	w, a, b := world(t)
	nodes := pair(t, a, b, "nettcp", func(n *node, side int) { n.until(time.Minute, func() bool { return n.failed != nil }) })
	w.At(time.Second, b.Crash)
	w.At(3*time.Second, b.Return)
	run(t, w)
	if n := nodes[0]; !errors.Is(n.failed, ucs.ErrConnectionReset) || n.at < 3*time.Second || n.at > 6*time.Second {
		t.Errorf("%v at %v", n.failed, n.at)
	}
}

// TestFreeze: a frozen process is no dead one.
func TestFreeze(t *testing.T) {
	w, a, b := world(t)
	nodes := pair(t, a, b, "nettcp", func(n *node, side int) {
		n.until(2*time.Second, nil)
		if side == 0 {
			check(t, n.send(1, 100_000))
			if w.now < 200*time.Second {
				t.Errorf("sent at %v", w.now)
			}
		} else {
			check(t, n.receive(1, 100_000))
		}
		n.until(220*time.Second, nil)
	})
	w.At(time.Second, nodes[1].Freeze)
	w.At(200*time.Second, nodes[1].Thaw)
	run(t, w)
	for side, n := range nodes {
		if n.failed != nil {
			t.Errorf("side %d: %v", side, n.failed)
		}
	}
}

// TestBandwidth: a large message delays a small one of another process that comes later.
func TestBandwidth(t *testing.T) {
	w, a, b := world(t)
	var large, small time.Duration
	pair(t, a, b, "nettcp", func(n *node, side int) {
		n.until(time.Second, nil)
		switch side {
		case 0:
			check(t, n.send(1, 10_000_000))
		case 1:
			check(t, n.receive(1, 10_000_000))
			large = w.now - time.Second
		}
		n.until(3*time.Second, nil)
	})
	pair(t, a, b, "nettcp", func(n *node, side int) {
		n.until(time.Second+100*time.Microsecond, nil)
		switch side {
		case 0:
			check(t, n.send(1, 1))
		case 1:
			check(t, n.receive(1, 1))
			small = w.now - time.Second - 100*time.Microsecond
		}
		n.until(3*time.Second, nil)
	})
	a.w.Net.Way(a, b).Byte = 800 // 1.25 GB/s
	run(t, w)
	if large < 8*time.Millisecond || large > 20*time.Millisecond || small < time.Millisecond || small > 10*time.Millisecond {
		t.Errorf("10 MB take %v, and a byte meanwhile %v", large, small)
	}
}

// TestLoss: messages that are lost on the way are sent again, and nothing overtakes them.
func TestLoss(t *testing.T) {
	for _, tls := range []string{"nettcp", "netrc", "netud"} {
		t.Run(tls, func(t *testing.T) {
			w, a, b := world(t)
			w.Net.Between.Loss = 0.1
			w.Net.Datagrams = DatagramParams{Lost: 0.1, Doubled: 0.1, Late: 0.2, Delay: 100 * time.Microsecond}
			got := 0
			pair(t, a, b, tls, func(n *node, side int) {
				for k := range 200 {
					if side == 0 {
						check(t, n.send(1, k*k))
						continue
					}
					r, err := n.w.TagRecv(1, ucp.FullMask, make([]byte, 40_000), nil)
					check(t, err)
					if r == nil {
						continue
					}
					n.Poll(n.w, r.Done)
					if info, err := r.TagRecvInfo(); err != nil || info.Length != k*k {
						t.Errorf("message %d has %d bytes: %v", k, info.Length, err)
					}
					r.Free()
					got++
				}
				n.until(w.now+time.Minute, nil)
			})
			run(t, w)
			if got == 0 || w.Count.Lost+w.Count.Datagrams == 0 {
				t.Errorf("%d messages; nothing was lost", got)
			}
		})
	}
}

// TestMidWrite: a process that ends in the middle of a message to another holds up the messages of a
// third one.
func TestMidWrite(t *testing.T) {
	w, a, _ := world(t)
	var addr ucp.Address
	var at time.Duration
	start := func(name ucp.Tag, f func(n *node)) *Process {
		return a.NewProcess(func(p *Process) {
			n := &node{Process: p, t: t}
			c := open(t, "netshm")
			var err error
			n.w, err = c.NewWorker(ucp.WorkerParams{})
			check(t, err)
			if name == 0 {
				addr, err = n.w.Address(0)
				check(t, err)
			} else {
				p.Await(n.w, func() bool { return addr != nil })
				n.ep, err = n.w.NewEndpoint(ucp.EndpointParams{Address: addr, ErrMode: ucp.ErrModePeer})
				check(t, err)
				check(t, n.send(name, 10))
			}
			f(n)
		})
	}
	start(0, func(n *node) {
		check(t, n.receive(1, 10))
		check(t, n.receive(2, 10))
		check(t, n.receive(3, 10))
		at = w.now
	})
	victim := start(1, func(n *node) { n.until(time.Minute, nil) })
	start(2, func(n *node) {
		n.until(time.Second+time.Microsecond, nil)
		check(t, n.send(3, 10))
		n.until(2*time.Second, nil)
	})
	w.At(time.Second, victim.KillWriting)
	run(t, w)
	if d := at - time.Second; d < time.Millisecond || d > 2*time.Millisecond {
		t.Errorf("the message of the third process arrives after %v", d)
	}
}

// TestPartialCopy: a copy from the memory of a process that ends in the middle moves a part of the bytes,
// and ends with an error.
func TestPartialCopy(t *testing.T) {
	w, a, _ := world(t)
	const size = 10 << 20
	partial, whole := 0, 0
	for k := range 12 {
		var addr ucp.Address
		var base uint64
		var key []byte
		context := func() *ucp.Context {
			cfg, err := Config("netshm,netcma")
			check(t, err)
			c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureRMA}, cfg)
			check(t, err)
			return c
		}
		victim := a.NewProcess(func(p *Process) {
			c := context()
			wk, err := c.NewWorker(ucp.WorkerParams{})
			check(t, err)
			data := make([]byte, size)
			for i := range data {
				data[i] = 1
			}
			mem, err := c.Register(data, 0)
			check(t, err)
			base = mem.Attr().Address
			key, err = mem.PackRkey()
			check(t, err)
			addr, err = wk.Address(0)
			check(t, err)
			p.Poll(wk, func() bool { return false })
		})
		a.NewProcess(func(p *Process) {
			n := &node{Process: p, t: t}
			var err error
			n.w, err = context().NewWorker(ucp.WorkerParams{})
			check(t, err)
			p.Await(n.w, func() bool { return addr != nil })
			n.ep, err = n.w.NewEndpoint(ucp.EndpointParams{Address: addr, ErrMode: ucp.ErrModePeer})
			check(t, err)
			rkey, err := n.ep.UnpackRkey(key)
			check(t, err)
			n.until(w.now+time.Millisecond, nil)
			buf := make([]byte, size)
			w.At(w.now+time.Duration(k)*80*time.Microsecond, victim.Kill)
			r, err := n.ep.Get(buf, base, rkey, nil)
			err = n.wait(r, err)
			moved := 0
			for _, b := range buf {
				moved += int(b)
			}
			switch {
			case err == nil && moved == size:
				whole++
			case err != nil && moved > 0 && moved < size:
				partial++
			case err == nil:
				t.Errorf("a get without an error has moved %d bytes", moved)
			}
		})
		if err := w.Run(w.now+time.Second, nil); err != nil {
			t.Fatal(err)
		}
		victim.Kill()
	}
	if partial == 0 || whole == 0 {
		t.Errorf("%d copies are partial, %d whole", partial, whole)
	}
}
