//go:build linux

package flow

import (
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// wirePort is a port that puts each packet directly into a ring of the other side.
type wirePort struct {
	it   *Iface
	to   *wirePort
	ring [64][128]byte
	lens [64]int
	r, w int
	done int
	qpn  uint32
	last *Endpoint
}

func (p *wirePort) put(b []byte) {
	i := p.to.w & 63
	p.to.lens[i] = copy(p.to.ring[i][:], b)
	p.to.w++
}

func (p *wirePort) Post(e *Endpoint, pkt []byte, solicited bool) bool { p.put(pkt); return true }
func (p *wirePort) Repost(e *Endpoint, slot int32, h wire.Header) bool {
	p.message(h)
	return true
}
func (p *wirePort) Busy(*Endpoint) bool               { return false }
func (p *wirePort) Done(*Endpoint, int32, error)      { p.done++ }
func (p *wirePort) Accept(e *Endpoint, _ []byte) bool { p.last = e; return true }
func (p *wirePort) Connected(*Endpoint)               {}
func (p *wirePort) Room(*Endpoint)                    {}
func (p *wirePort) Failed(*Endpoint, error)           {}
func (p *wirePort) Gone(*Endpoint)                    {}
func (p *wirePort) Ended(*Endpoint)                   {}
func (p *wirePort) Resolve(_ []byte, qpn uint32, path uint8) (Peer, bool) {
	return Peer{QPN: qpn, Path: path}, true
}

func (p *wirePort) message(h wire.Header) {
	var b [16]byte
	h.Store(b[:])
	p.put(b[:])
}

// poll receives and answers the packets in the ring. It returns the number of messages.
func (p *wirePort) poll() (n int) {
	for p.r != p.w {
		i := p.r & 63
		p.r++
		if e, _, _ := p.it.Receive(p.ring[i][:p.lens[i]], &From{QPN: p.to.qpn}); e != nil {
			n++
		}
	}
	p.it.Dispatch()
	return n
}

// wired returns two interfaces and both endpoints of a connection between them.
func wired(tb testing.TB) (a, b *wirePort, e, f *Endpoint) {
	a, b = &wirePort{qpn: 10}, &wirePort{qpn: 20}
	a.to, b.to = b, a
	for _, p := range []*wirePort{a, b} {
		var err error
		if p.it, err = NewIface(Config{QPN: p.qpn, DevAddr: make([]byte, 17)}, p); err != nil {
			tb.Fatal(err)
		}
		p.it.Clock(1e9)
	}
	e, _ = a.it.Open(Peer{QPN: 20})
	a.it.Dispatch()
	for range 4 {
		b.poll()
		a.poll()
	}
	f, _ = b.it.Open(Peer{QPN: 10})
	if !e.Connected() || f != b.last {
		tb.Fatal("not connected")
	}
	return a, b, e, f
}

// bursts sends messages in one direction, in bursts, and receives the acknowledgements.
func bursts(tb testing.TB, a, b *wirePort, e *Endpoint, now *int64, count int) {
	for left := count; left > 0; {
		*now += 1000
		a.it.Clock(*now)
		b.it.Clock(*now)
		for i := 0; i < 16 && left > 0; i++ {
			h, ok := e.Send(int32(i), 5, false, false)
			if !ok {
				break
			}
			a.message(h)
			left--
		}
		b.poll()
		a.poll()
	}
}

// pingPong sends a message back and forth.
func pingPong(tb testing.TB, a, b *wirePort, e, f *Endpoint, now *int64, count int) {
	for range count {
		*now += 1000
		a.it.Clock(*now)
		h, ok := e.Send(1, 5, false, false)
		if !ok {
			tb.Fatal("no room")
		}
		a.message(h)
		b.it.Clock(*now)
		if b.poll() != 1 {
			tb.Fatal("not received")
		}
		if h, ok = f.Send(1, 5, false, false); !ok {
			tb.Fatal("no room")
		}
		b.message(h)
		if a.poll() != 1 {
			tb.Fatal("not received")
		}
	}
}

// TestAllocs checks that in steady state nothing is allocated, neither for messages and
// acknowledgements nor for timers and retransmissions.
func TestAllocs(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	a, b, e, f := wired(t)
	now := int64(2e9)
	bursts(t, a, b, e, &now, 10000)
	if n := testing.AllocsPerRun(100, func() { bursts(t, a, b, e, &now, 100) }); n != 0 {
		t.Errorf("%v allocations in 100 messages one way", n)
	}
	if n := testing.AllocsPerRun(100, func() { pingPong(t, a, b, e, f, &now, 100) }); n != 0 {
		t.Errorf("%v allocations in 100 messages both ways", n)
	}
	was := a.it.Counters
	if n := testing.AllocsPerRun(100, func() {
		now += 1e9
		a.it.Clock(now)
		h, _ := e.Send(1, 5, true, false)
		_ = h // not delivered
		for range 3 {
			due, _ := a.it.Next(now)
			now = max(now, due)
			a.it.Clock(now)
			b.it.Clock(now)
			a.it.Tick()
			a.it.Dispatch()
			b.poll()
			a.poll()
		}
	}); n != 0 {
		t.Errorf("%v allocations in a loss and its repair", n)
	}
	if c := a.it.Counters; c.Resent-was.Resent < 100 || c.GotNacks-was.GotNacks < 100 {
		t.Errorf("nothing was lost: %+v", c)
	}
	if a.done == 0 || !e.Idle() {
		t.Errorf("%d done", a.done)
	}
}

func BenchmarkSendAck(b *testing.B) {
	x, y, e, _ := wired(b)
	now := int64(2e9)
	bursts(b, x, y, e, &now, 10000)
	b.ReportAllocs()
	b.ResetTimer()
	bursts(b, x, y, e, &now, b.N)
}

func BenchmarkPingPong(b *testing.B) {
	x, y, e, f := wired(b)
	now := int64(2e9)
	pingPong(b, x, y, e, f, &now, 10000)
	b.ReportAllocs()
	b.ResetTimer()
	pingPong(b, x, y, e, f, &now, b.N)
}

// BenchmarkIdle measures a round in which nothing happens.
func BenchmarkIdle(b *testing.B) {
	x, _, _, _ := wired(b)
	now := int64(2e9)
	for b.Loop() {
		now += 100
		x.it.Clock(now)
		x.it.Dispatch()
	}
}
