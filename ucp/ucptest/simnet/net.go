//go:build simulate

package simnet

import (
	"time"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/udsim"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// Net is the network between the hosts of a world, and the memory between processes of a host. The
// simulated transports use it as their medium.
type Net struct {
	w     *World
	hosts []*Host
	nets  []*sim.Network
	ud    *udsim.Network

	components map[string]uct.Component
	copies     [2]uint64 // for fate

	// Between and Within are what new ways between hosts and within a host are like. A way exists
	// from its first use, or from the call of Way.
	Between, Within WayParams

	// Datagrams is what happens to packets of netud, beside what ways do.
	Datagrams DatagramParams
}

// DatagramParams are probabilities of what happens to a datagram.
type DatagramParams struct {
	Lost, Doubled float64
	Late          float64       // it is delayed, so that others overtake it
	Delay         time.Duration // largest such delay
}

// WayParams are the properties of a way.
type WayParams struct {
	Latency time.Duration // of a message without bytes
	Jitter  time.Duration // largest random delay of a message
	Byte    int64         // time of a byte, in picoseconds; messages queue up for the way
	Loss    float64       // probability that a message is lost, and sent again after a timeout
}

// Way is the way from one host to another, in one direction.
type Way struct {
	WayParams

	cut   bool
	since time.Duration // time at which the way was cut
	free  time.Duration // time at which the last message has left
}

func newNet(w *World) *Net {
	n := &Net{
		w:         w,
		Between:   WayParams{Latency: 10 * time.Microsecond, Jitter: time.Microsecond, Byte: 80},
		Datagrams: DatagramParams{Lost: 0.01, Doubled: 0.01, Late: 0.05, Delay: 50 * time.Microsecond},
		Within:    WayParams{Latency: 200 * time.Nanosecond, Jitter: 100 * time.Nanosecond, Byte: 80},
	}
	n.open()
	return n
}

// grain is the granularity of arrivals. What arrives at a process at one time is one event.
const grain = 64

// Way returns the way from one host to another, or within a host.
func (n *Net) Way(from, to *Host) *Way {
	for len(from.ways) < to.number {
		from.ways = append(from.ways, nil)
	}
	w := from.ways[to.number-1]
	if w == nil {
		w = &Way{WayParams: n.Between}
		if from == to {
			w.WayParams = n.Within
		}
		from.ways[to.number-1] = w
	}
	return w
}

// host returns the host of a place.
func (n *Net) host(at *sim.Place) *Host { return n.w.processes[at.Process-1].host }

// medium is the network as one transport sees it.
type medium struct {
	*Net
	c *character
}

var _ sim.Medium = medium{}

// Now implements sim.Medium.
func (n *Net) Now() uint64 { return uint64(n.w.now) }

// Carry implements sim.Medium.
func (m medium) Carry(from, to *sim.Place, at uint64, size int) (due uint64) {
	a, b := m.host(from), m.host(to)
	w := m.Way(a, b)
	inMemory := m.c.options.Processes // of the host: there is no way that could be cut
	if !inMemory && (w.cut || a != b && (a.unplugged || b.unplugged)) {
		return sim.Never
	}
	t := time.Duration(at)
	if size > 0 {
		w.free = max(t, w.free) + time.Duration(int64(size)*w.Byte/1000)
		t = w.free
	}
	t += w.Latency
	if w.Jitter > 0 {
		t += time.Duration(m.w.rng.Int64N(int64(w.Jitter)))
	}
	if w.Loss > 0 && m.c.resend > 0 {
		for again := m.c.resend; again < 64*m.c.resend && m.w.rng.Float64() < w.Loss; again *= 2 {
			m.w.Count.Lost++
			t += again
		}
	}
	return (uint64(t) + grain - 1) / grain * grain
}

// Down implements sim.Medium.
func (n *Net) Down(p, q *sim.Place) (since uint64, down bool) {
	a, b := n.host(p), n.host(q)
	first := time.Duration(1<<63 - 1)
	for _, w := range []*Way{n.Way(a, b), n.Way(b, a)} {
		if w.cut {
			first = min(first, w.since)
		}
	}
	for _, h := range []*Host{a, b} {
		if h.unplugged && a != b {
			first = min(first, h.since)
		}
	}
	return uint64(first), first < 1<<63-1
}

// Wake implements sim.Medium.
func (n *Net) Wake(at *sim.Place, due uint64) {
	p := n.w.processes[at.Process-1]
	if p.ended {
		return
	}
	t := max(time.Duration(due), n.w.now)
	if a := p.alarm; a != nil && a.at <= t {
		if a.at < t {
			p.wakes.push(t)
		}
		return
	}
	if p.alarm != nil {
		p.wakes.push(p.alarm.at)
		n.w.cancel(p.alarm)
	}
	n.alarm(p, t)
}

// alarm schedules the next time at which the network has something for a process.
func (n *Net) alarm(p *Process, t time.Duration) {
	p.alarm = n.w.schedule(t, p, func() {
		p.alarm = nil
		for len(p.wakes) > 0 && p.wakes[0] <= n.w.now {
			p.wakes.pop()
		}
		if len(p.wakes) > 0 {
			n.alarm(p, p.wakes.pop())
		}
		for _, net := range n.nets {
			if net.Touch(p.place) {
				p.stirs++
			}
		}
		if n.ud.Touch(p.place) {
			p.stirs++
		}
	})
}

// Cut cuts the way from one host to another. Messages on their way still arrive; later ones are held
// until Heal, unless their transport gives up before. Within a host that concerns the transports of
// devices. Nothing holds up the memory that its processes share.
func (n *Net) Cut(from, to *Host) {
	w := n.Way(from, to)
	if w.cut {
		return
	}
	w.cut, w.since = true, n.w.now
	n.w.Count.Cuts++
	n.broken(between(from, to))
}

// Partition cuts the ways between two hosts in both directions.
func (n *Net) Partition(a, b *Host) {
	n.Cut(a, b)
	n.Cut(b, a)
}

// Heal makes the ways between two hosts usable again, in both directions. A Host that is unplugged
// stays so.
func (n *Net) Heal(a, b *Host) {
	since := n.w.now
	for _, w := range []*Way{n.Way(a, b), n.Way(b, a)} {
		if w.cut {
			since = min(since, w.since)
		}
		w.cut = false
	}
	n.healed(since, between(a, b))
}

// between returns a function that tells whether a connection is between two hosts.
func between(a, b *Host) func(from, to *Host) bool {
	return func(from, to *Host) bool { return from == a && to == b || from == b && to == a }
}

func (n *Net) places(on func(from, to *Host) bool) func(from, to *sim.Place) bool {
	return func(from, to *sim.Place) bool { return on(n.host(from), n.host(to)) }
}

func (n *Net) broken(on func(from, to *Host) bool) {
	for _, net := range n.nets {
		net.Cut(n.places(on))
	}
}

// healed makes the transports go on after an outage. Those that retransmit notice it after up to as
// long as the outage has lasted, because they wait longer from time to time.
func (n *Net) healed(since time.Duration, on func(from, to *Host) bool) {
	pause := min(n.w.now-since, 2*time.Second)
	for _, net := range n.nets {
		net.Heal(n.places(on), func() uint64 {
			return uint64(n.w.now + time.Duration(n.w.rng.Int64N(int64(pause)+1)))
		})
	}
}

// dies ends the interfaces of a process.
func (n *Net) dies(p *Process, midWrite bool) {
	for _, net := range n.nets {
		net.Kill(p.place, midWrite)
	}
	n.ud.Kill(p.place)
}

// fate decides what becomes of a datagram.
func (n *Net) fate(*sim.Place, *sim.Place) []uint64 {
	d, rng := &n.Datagrams, n.w.rng
	delay := func() uint64 {
		if rng.Float64() < d.Late {
			return uint64(rng.Int64N(int64(d.Delay) + 1))
		}
		return 0
	}
	switch x := rng.Float64(); {
	case x < d.Lost:
		n.w.Count.Datagrams++
		return nil
	case x < d.Lost+d.Doubled:
		n.w.Count.Datagrams++
		return append(n.copies[:0], delay(), delay())
	}
	return append(n.copies[:0], delay())
}

// times is a heap of times, the earliest first.
type times []time.Duration

func (h *times) push(t time.Duration) {
	*h = append(*h, t)
	s := *h
	for k := len(s) - 1; k > 0 && s[k] < s[(k-1)/2]; k = (k - 1) / 2 {
		s[k], s[(k-1)/2] = s[(k-1)/2], s[k]
	}
}

func (h *times) pop() time.Duration {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	for k := 0; ; {
		c := 2*k + 1
		if c >= len(s) {
			break
		}
		if c+1 < len(s) && s[c+1] < s[c] {
			c++
		}
		if s[k] <= s[c] {
			break
		}
		s[k], s[c] = s[c], s[k]
		k = c
	}
	*h = s
	return first
}
