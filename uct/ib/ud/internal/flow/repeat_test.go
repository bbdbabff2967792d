//go:build linux

package flow

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// full returns a connection with a full window in flight, of which the first packet is lost and the
// others have arrived.
func full(t *testing.T) (n *network, a, b *host, e *Endpoint, flight int) {
	n, a, b, e = pair(t)
	n.push(a, e, 400, 8)
	n.run()
	lose := 1
	n.drop = func(p packet) bool {
		lose--
		return lose == 0
	}
	for a.send(e, 8) {
		flight++
	}
	n.drop = nil
	if flight < 30 {
		t.Fatalf("a window of %d", flight)
	}
	for len(n.air) > 0 { // all in one round
		p := n.air[0]
		n.air = n.air[1:]
		p.to.receive(p)
	}
	b.it.Dispatch()
	return n, a, b, e, flight
}

// TestRepeatGoesOn checks that a retransmission stays within the window and proceeds with each
// acknowledgement, until each packet has been retransmitted once, without waiting for a timer.
func TestRepeatGoesOn(t *testing.T) {
	n, a, _, e, flight := full(t)
	cwnd := e.cwnd
	was := a.it.Counters.Resent
	for first := true; n.step(); {
		repeated := int(a.it.Counters.Resent - was)
		if repeated == 0 {
			continue
		}
		if first && repeated != int(cwnd)/2-1 {
			t.Fatalf("%d packets are repeated in a window of %d", repeated, cwnd/2)
		}
		first = false
		if !e.Idle() && e.re.After(e.max) {
			t.Fatalf("number %d is repeated, the window ends at %d", e.re-1, e.max)
		}
	}
	c := &a.it.Counters
	if !e.Idle() || c.Timeouts != 0 || int(c.Resent-was) != flight || c.NackLosses != 1 {
		t.Fatalf("%d repeated, %d were in flight; %d times by time, %d by NACK", c.Resent-was, flight, c.Timeouts, c.NackLosses)
	}
	n.same(a, e)
}

// TestRepeatLosesAgain loses a retransmitted packet. The NACKs for the packets after it must repair
// that, again without a timer.
func TestRepeatLosesAgain(t *testing.T) {
	n, a, _, e, flight := full(t)
	again := e.acked + 5
	n.drop = func(p packet) bool {
		if kind(p) == wire.KindAM && wire.Load(p.data).PSN() == again {
			again = 0
			return true
		}
		return false
	}
	n.settle()
	if c := &a.it.Counters; !e.Idle() || c.Timeouts != 0 || c.NackLosses != 2 || int(c.Resent) > 2*flight {
		t.Fatalf("%d repeated, %d were in flight; %d times by time, %d by NACK", c.Resent, flight, c.Timeouts, c.NackLosses)
	}
	n.same(a, e)
}

// TestRepeatsFirst checks that nothing new is sent while packets wait to be retransmitted.
func TestRepeatsFirst(t *testing.T) {
	n, a, _, e, _ := full(t)
	a.room = 3
	n.settle()
	if a.room != 0 || e.owed&oweResend == 0 {
		t.Fatal("the queue is not full")
	}
	e.max += 100
	if e.CanSend() {
		t.Fatal("something new may go")
	}
	a.room = -1
	n.run()
	n.same(a, e)
}

// TestFewLost checks that after a loss nothing new is sent until the peer has answered, even with
// less than half of the window in flight.
func TestFewLost(t *testing.T) {
	n, a, _, e := pair(t)
	n.push(a, e, 400, 8)
	n.run()
	n.drop = func(packet) bool { return true }
	a.send(e, 8)
	a.send(e, 8)
	for a.it.Counters.Timeouts == 0 {
		n.tick()
	}
	if e.CanSend() || e.owed&oweFirst != 0 {
		t.Fatal("more may go")
	}
	n.drop = nil
	n.run()
	if !e.CanSend() {
		t.Fatal("it does not go on")
	}
	n.same(a, e)
}

// TestRepeatOvertaken has an acknowledgement arrive before anything could be retransmitted, because
// the packet was only late. The retransmission must start after the acknowledged packets.
func TestRepeatOvertaken(t *testing.T) {
	n, a, b, e := pair(t)
	n.push(a, e, 400, 8)
	n.run()
	for a.send(e, 8) {
	}
	late := n.air[0]
	n.air = n.air[1:]
	for _, p := range n.air {
		b.receive(p)
	}
	n.air = nil
	b.it.Dispatch()
	a.room = 0
	n.settle() // delivers the NACK; nothing can be posted
	if e.owed&oweResend == 0 {
		t.Fatal("nothing is to be repeated")
	}
	b.receive(late)
	b.accepted[0].owe(oweAck)
	b.it.Dispatch()
	n.settle()
	a.room = -1
	want := e.acked + 1
	a.it.Dispatch()
	if len(n.air) == 0 || wire.Load(n.air[0].data).PSN() != want {
		t.Fatalf("%d packets are repeated, want number %d first", len(n.air), want)
	}
	n.run()
	n.same(a, e)
}
