//go:build linux

package flow

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// storm is a random network: packets are lost, duplicated and delayed, queues are short, and
// endpoints are opened and closed while messages are in flight.
type storm struct {
	*network
	r       *rand.Rand
	loss    float64
	dup     float64
	reorder float64
	hosts   []*host
	ends    []end
}

func newStorm(t testing.TB, seed uint64, change func(*rand.Rand, *Config)) *storm {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &storm{network: newNetwork(t), r: r, loss: r.Float64() * 0.3, dup: r.Float64() * 0.1, reorder: r.Float64() * 0.2}
	for i := range 2 + r.IntN(2) {
		h := s.add(uint32(10*(i+1)), func(c *Config) { change(r, c) })
		if r.IntN(3) == 0 {
			h.room = 1 + r.IntN(8)
		}
		s.hosts = append(s.hosts, h)
	}
	return s
}

// open makes an endpoint from one random host to another.
func (s *storm) open(messages int) {
	i := s.r.IntN(len(s.hosts))
	j := (i + 1 + s.r.IntN(len(s.hosts)-1)) % len(s.hosts)
	h := s.hosts[i]
	s.ends = append(s.ends, end{h, h.open(s.hosts[j]), messages})
}

// deliver delivers or loses a packet in flight.
func (s *storm) deliver() {
	i := 0
	if s.r.Float64() < s.reorder {
		i = s.r.IntN(min(len(s.air), 16))
	}
	p := s.air[i]
	if s.r.Float64() >= s.dup {
		copy(s.air[1:i+1], s.air[:i])
		s.air = s.air[1:]
	}
	if s.r.Float64() < s.loss {
		return
	}
	p.to.receive(p)
	if s.r.IntN(3) != 0 { // end of a round
		p.to.it.Dispatch()
	}
}

// step does one random step. It reports whether everything is finished.
func (s *storm) step() bool {
	for _, h := range s.hosts {
		if h.room == 0 && s.r.IntN(4) == 0 {
			h.room = 1 + s.r.IntN(8)
			h.it.Dispatch()
		}
	}
	left := 0
	for i := range s.ends {
		e := &s.ends[i]
		left += e.left
		for e.left > 0 && s.r.IntN(4) != 0 {
			size := 8
			if s.r.IntN(3) == 0 {
				size = 4000
			}
			if !e.h.send(e.e, size) {
				break
			}
			e.left--
			if s.r.IntN(20) == 0 {
				e.h.flush(e.e)
			}
		}
	}
	if len(s.air) != 0 && s.r.IntN(50) != 0 {
		s.deliver()
		return false
	}
	for _, h := range s.hosts {
		if h.room == 0 {
			h.room = 8
		}
		h.it.Clock(s.now)
		h.it.Dispatch()
	}
	if len(s.air) != 0 && s.r.IntN(10) != 0 {
		return false
	}
	return !s.tick() && len(s.air) == 0 && left == 0
}

// TestSoak sends messages in both directions through many storms. All must arrive.
func TestSoak(t *testing.T) {
	seeds := 150
	if race.Enabled || testing.Short() {
		seeds = 15
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { soak(t, seed) })
	}
}

func soak(t *testing.T, seed uint64) {
	s := newStorm(t, seed, func(r *rand.Rand, c *Config) {
		c.Timeout = 10 * time.Minute // so that unlucky peers are not declared dead
		switch r.IntN(4) {
		case 0:
			c.MaxWindow = 2
		case 1:
			c.MaxWindow = 3
		case 2:
			c.MaxWindow = 2 + r.IntN(30)
		}
		if r.IntN(2) == 0 {
			c.first = 0xffff - wire.PSN(r.IntN(200))
		}
	})
	first := s.hosts[0].it.cfg.first
	for _, h := range s.hosts { // all use the same first number, as all of C use 1
		h.it.cfg.first = first
	}
	for range 1 + s.r.IntN(8) {
		s.open(s.r.IntN(300))
	}
	for i := 0; !s.step(); i++ {
		if i%1000 == 0 && s.r.IntN(4) == 0 && len(s.ends) < 20 {
			s.open(s.r.IntN(100))
		}
		if i > 5e6 {
			for _, e := range s.ends {
				t.Logf("%+v left %d %+v", e.e, e.left, *e.h.of(e.e))
			}
			for _, h := range s.hosts {
				t.Logf("%s room %d %+v", h.name, h.room, h.it.Counters)
			}
			t.Fatalf("it does not end: %v, %d on the air, loss %v dup %v", time.Duration(s.now), len(s.air), s.loss, s.dup)
		}
	}
	s.loss, s.dup = 0, 0
	for _, h := range s.hosts {
		h.room = -1
	}
	s.run()
	for _, e := range s.ends {
		s.same(e.h, e.e)
		if c := e.h.of(e.e); c.failed != nil || len(c.slots) != 0 || c.connected > 1 {
			t.Fatalf("failed: %v; slots %v; connected %d times", c.failed, c.slots, c.connected)
		}
	}
	for _, h := range s.hosts {
		if c := h.it.Counters; c.Malformed+c.Short+c.WrongAck+c.WrongNumber+c.WrongSource+c.Refused+c.Unknown+c.Dead != 0 {
			t.Fatalf("%s: %+v", h.name, c)
		}
		if free := count(&h.it.nodes); free != len(h.it.nodes.nodes) {
			t.Fatalf("%s: %d of %d nodes are free", h.name, free, len(h.it.nodes.nodes))
		}
		if _, wanted := h.it.nextTimer(s.now); wanted || h.it.Owed() {
			t.Fatalf("%s: at rest, and wants to be called", h.name)
		}
	}
}

// count returns the number of free nodes.
func count(p *pool) (n int) {
	for i := p.free; i != none; i = p.nodes[i].next {
		n++
	}
	return n
}

// TestChurn opens, uses, closes and drops endpoints on both sides through storms. Messages may be
// lost only together with their endpoint, and nothing may be left at the end.
func TestChurn(t *testing.T) {
	seeds := 60
	if race.Enabled || testing.Short() {
		seeds = 10
	}
	for seed := range uint64(seeds) {
		s := newStorm(t, seed, func(r *rand.Rand, c *Config) {
			c.MaxPassive, c.MaxEmbryos, c.MaxLinger = 1+r.IntN(20), 1+r.IntN(10), 1+r.IntN(20)
		})
		s.quiet = true // peers may still send to endpoints that were removed without notice
		for i := 0; i < 20000; i++ {
			switch s.r.IntN(200) {
			case 0, 1:
				if len(s.ends) < 40 {
					s.open(s.r.IntN(30))
				}
			case 2:
				if len(s.ends) != 0 {
					k := s.r.IntN(len(s.ends))
					s.ends[k].e.Close()
					s.ends = append(s.ends[:k], s.ends[k+1:]...)
				}
			case 3:
				h := s.hosts[s.r.IntN(len(s.hosts))]
				if len(h.accepted) != 0 {
					h.accepted[s.r.IntN(len(h.accepted))].Drop(errNonsense)
				}
			case 4:
				if len(s.ends) != 0 {
					s.ends[s.r.IntN(len(s.ends))].e.Abort(errNonsense)
				}
			default:
				s.step()
			}
		}
		for _, h := range s.hosts {
			it := h.it
			if it.peers.passive > it.cfg.MaxPassive || it.peers.embryos.n > it.cfg.MaxEmbryos || it.peers.closed.n > it.cfg.MaxLinger {
				t.Fatalf("seed %d: %d passive, %d embryos, %d closed", seed, it.peers.passive, it.peers.embryos.n, it.peers.closed.n)
			}
		}
		for _, h := range s.hosts {
			h.room = -1
		}
		for _, e := range s.ends {
			e.e.Close()
		}
		s.pass(20 * time.Minute)
		for _, h := range s.hosts {
			for _, e := range h.accepted {
				e.Drop(errNonsense)
			}
			it := h.it
			it.expire()
			if it.Endpoints() != 0 || len(it.peers.conns) != 0 || it.peers.passive != 0 || it.peers.embryos.n != 0 || it.peers.closed.n != 0 || it.ready.n != 0 || len(it.timers) != 0 {
				t.Fatalf("seed %d: %s: %d endpoints, %d connections, %d passive, %d embryos, %d closed, %d ready, %d timers", seed, h.name,
					it.Endpoints(), len(it.peers.conns), it.peers.passive, it.peers.embryos.n, it.peers.closed.n, it.ready.n, len(it.timers))
			}
			if free := count(&it.nodes); free != len(it.nodes.nodes) {
				t.Fatalf("seed %d: %d of %d nodes are free", seed, free, len(it.nodes.nodes))
			}
			for e, c := range h.conns {
				if len(c.slots) != 0 || !c.gone {
					t.Fatalf("seed %d: endpoint %d: slots %v, gone %v", seed, e.id, c.slots, c.gone)
				}
			}
		}
	}
}
