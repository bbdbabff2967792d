//go:build linux

package flow

import (
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// pair returns two hosts with a connected endpoint from the first to the second.
//
// The tests of this file are the cases of C UCX's tests that concern the state machine, under their
// names there (test/gtest/uct/ib/test_ud.cc, test_ud_timer.cc, test_ud_ds.cc), and a few more.
func pair(t testing.TB, change ...func(*Config)) (n *network, a, b *host, e *Endpoint) {
	n = newNetwork(t)
	a, b = n.add(10, change...), n.add(20, change...)
	e = a.open(b)
	n.settle()
	if !e.Connected() || a.of(e).connected != 1 {
		t.Fatal("not connected")
	}
	n.run()
	return n, a, b, e
}

// kind returns the kind of a packet.
func kind(p packet) wire.Kind { return wire.Load(p.data).Kind(len(p.data)) }

func isCREQ(p packet) bool { return wire.Load(p.data).Dest() == wire.NullID }
func isCREP(p packet) bool { return kind(p) == wire.KindCtl && !isCREQ(p) }

// push sends count messages, delivering packets and passing time as needed.
func (n *network) push(h *host, e *Endpoint, count, size int) {
	n.t.Helper()
	for i := 0; count > 0; i++ {
		h.it.Dispatch()
		if h.send(e, size) {
			count--
			continue
		}
		if !n.step() && !n.tick() || i > 1e6 {
			n.t.Fatal("sending does not go on")
		}
	}
}

func TestBasicTx(t *testing.T) {
	n, a, _, e := pair(t)
	n.push(a, e, 1000, 8)
	n.run()
	n.same(a, e)
	if e.cwnd <= MinWindow {
		t.Errorf("the window is %d after 1000 messages", e.cwnd)
	}
	if a.it.Counters.Resent != 0 {
		t.Errorf("%d packets were repeated", a.it.Counters.Resent)
	}
}

func TestDuplexTx(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.open(a)
	if !f.Connected() || f != b.accepted[0] {
		t.Fatal("the endpoint that the peer has made is not taken")
	}
	for i := 0; i < 500; i++ {
		n.push(a, e, 1, 8)
		n.push(b, f, 1, 8)
	}
	n.run()
	n.same(a, e)
	n.same(b, f)
}

// TestTxWindow1 and TestTxWindow2 fill windows of one and two packets.
func TestTxWindow1(t *testing.T) { window(t, 1) }
func TestTxWindow2(t *testing.T) { window(t, 2) }

func window(t *testing.T, size int) {
	n, a, _, e := pair(t, func(c *Config) { c.MaxWindow = size + 1 })
	n.push(a, e, 20, 8) // to open the window fully
	n.run()
	for i := 0; i < size; i++ {
		if !a.send(e, 8) {
			t.Fatalf("no room for packet %d", i)
		}
	}
	if a.send(e, 8) {
		t.Fatalf("room for more than %d", size)
	}
	n.settle()
	if !e.CanSend() || a.of(e).rooms == 0 {
		t.Fatal("no word of room after an acknowledgement")
	}
	n.push(a, e, 100, 8)
	n.run()
	n.same(a, e)
}

// TestAckReq checks which packets ask for an acknowledgement: the one at a quarter of the window,
// and the last one (ack_req_single, ack_req_window).
func TestAckReq(t *testing.T) {
	n, a, b, e := pair(t)
	e.cwnd = 16
	e.max = e.acked + e.cwnd
	var asking []int
	for i := 1; a.send(e, 8); i++ {
		if wire.Load(n.air[len(n.air)-1].data).AckReq() {
			asking = append(asking, i)
		}
	}
	if len(asking) != 2 || asking[0] != 4 || asking[1] != 15 {
		t.Errorf("packets %v ask, want 4 and 15", asking)
	}
	acks := b.it.Counters.Acks
	for len(n.air) > 0 { // all in one round
		p := n.air[0]
		n.air = n.air[1:]
		p.to.receive(p)
	}
	b.it.Dispatch()
	if got := b.it.Counters.Acks - acks; got != 1 {
		t.Errorf("%d acknowledgements in one round", got)
	}
	n.run()
	n.same(a, e)
}

// TestAckRides checks that a message to the same peer carries the acknowledgement.
func TestAckRides(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.open(a)
	for a.send(e, 8) {
	}
	p := n.air[0]
	if p.data[3] |= 2; !wire.Load(p.data).AckReq() {
		t.Fatal("it does not ask")
	}
	n.air = nil
	acks := b.it.Counters.Acks
	b.receive(p)
	b.send(f, 8)
	b.it.Dispatch()
	if b.it.Counters.Acks != acks || len(n.air) != 1 {
		t.Errorf("%d packets for one that carries the acknowledgement", len(n.air))
	}
	n.settle()
	if e.acked != wire.Load(p.data).PSN() {
		t.Error("not acknowledged")
	}
}

func TestFlush(t *testing.T) {
	n, a, _, e := pair(t)
	if _, ok := a.flush(e); !ok {
		t.Fatal("nothing is in flight, and a flush waits")
	}
	n.push(a, e, 50, 8)
	n.run()
	for !e.CanSend() {
		n.step()
	}
	for a.send(e, 8) {
		if !wire.Load(n.air[len(n.air)-1].data).AckReq() {
			break
		}
	}
	mark, ok := a.flush(e)
	if ok {
		t.Fatal("a flush does not wait")
	}
	if e.owed&oweProbe == 0 {
		t.Fatal("it does not ask")
	}
	more, _ := a.flush(e)
	n.settle() // must not need a timer
	c := a.of(e)
	if len(c.flushed) != 2 || c.flushed[0] != mark || c.flushed[1] != more || !e.Idle() {
		t.Fatalf("flushed: %v, want %d and %d", c.flushed, mark, more)
	}
	if a.it.Counters.Probes != 1 {
		t.Errorf("%d questions", a.it.Counters.Probes)
	}
}

// TestFlushAsked checks that a flush sends no probe if the last message has asked already.
func TestFlushAsked(t *testing.T) {
	n, a, _, e := pair(t, func(c *Config) { c.MaxWindow = 2 })
	a.send(e, 8)
	if _, ok := a.flush(e); ok {
		t.Fatal("a flush does not wait")
	}
	n.settle()
	if a.it.Counters.Probes != 0 || len(a.of(e).flushed) != 1 {
		t.Errorf("%d questions, flushed %v", a.it.Counters.Probes, a.of(e).flushed)
	}
}

// TestCREQFlush checks that a flush of an endpoint that is being connected waits for the
// connection, before and after its CREQ is posted.
func TestCREQFlush(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	e := a.open(b)
	if _, ok := a.flush(e); ok {
		t.Fatal("not connected, and flushed")
	}
	a.it.Dispatch()
	if _, ok := a.flush(e); ok {
		t.Fatal("not connected, and flushed")
	}
	if a.send(e, 8) {
		t.Fatal("not connected, and sends")
	}
	n.run()
	if got := a.of(e); len(got.flushed) != 2 || got.rooms != 1 {
		t.Fatalf("flushed %v, told of room %d times", got.flushed, got.rooms)
	}
}

// TestCREPDrop loses the first CREPs, with messages after them (crep_drop1, crep_drop2).
func TestCREPDrop(t *testing.T) {
	for lose := 1; lose <= 3; lose++ {
		n := newNetwork(t)
		a, b := n.add(10), n.add(20)
		left := lose
		n.drop = func(p packet) bool {
			if isCREP(p) && left > 0 {
				left--
				return true
			}
			return false
		}
		e := a.open(b)
		n.settle()
		if e.Connected() {
			t.Fatal("connected without CREP")
		}
		f := b.open(a)
		b.send(f, 8) // arrives before the repeated CREP
		n.run()
		if !e.Connected() || b.it.Counters.CREPs != uint64(lose)+1 {
			t.Fatalf("%d lost: connected %v after %d", lose, e.Connected(), b.it.Counters.CREPs)
		}
		n.push(a, e, 10, 8)
		n.run()
		n.same(a, e)
		n.same(b, f)
	}
}

// TestCREPAckDrop loses the acknowledgements of the CREP.
func TestCREPAckDrop(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	left := 3
	n.drop = func(p packet) bool {
		if kind(p) == wire.KindAck && p.from == a && left > 0 {
			left--
			return true
		}
		return false
	}
	e := a.open(b)
	n.run()
	if left != 0 || !b.accepted[0].Idle() || b.accepted[0].is(halfOpen) {
		t.Fatalf("%d left to lose", left)
	}
	n.push(a, e, 10, 8)
	n.run()
	n.same(a, e)
}

// TestCtlsLoss loses the first packets of a connection that both sides open, in all combinations.
func TestCtlsLoss(t *testing.T) {
	for mask := 0; mask < 1<<10; mask++ {
		n := newNetwork(t)
		a, b := n.add(10), n.add(20)
		i := 0
		n.drop = func(packet) bool {
			i++
			return mask>>(i-1)&1 != 0
		}
		e, f := a.open(b), b.open(a)
		n.run()
		n.push(a, e, 3, 8)
		n.push(b, f, 3, 8)
		n.run()
		n.same(a, e)
		n.same(b, f)
		if len(a.accepted)+len(b.accepted) > 1 {
			t.Fatalf("mask %x: %d and %d endpoints too many", mask, len(a.accepted), len(b.accepted))
		}
	}
}

// TestWindowGrows checks that each new acknowledgement opens the window by one, up to its maximum
// (ca_ai).
func TestWindowGrows(t *testing.T) {
	n, a, _, e := pair(t, func(c *Config) { c.MaxWindow = 20 })
	was := e.cwnd
	for i := 0; i < 60; i++ {
		acked := e.acked
		a.send(e, 8)
		a.flush(e)
		n.settle()
		if grew := e.cwnd - was; grew > 1 || grew == 0 && was < 20 || e.cwnd > 20 || e.acked == acked {
			t.Fatalf("window %d after %d", e.cwnd, was)
		}
		was = e.cwnd
		if e.max != e.acked+e.cwnd {
			t.Fatalf("acknowledged %d, window %d, end %d", e.acked, e.cwnd, e.max)
		}
	}
}

// TestWindowShrinks checks that the window is halved if no answer arrives, and that nothing new is
// sent until one does (ca_md).
func TestWindowShrinks(t *testing.T) {
	n, a, _, e := pair(t)
	n.push(a, e, 2000, 8)
	n.run()
	for was := e.cwnd; was > MinWindow; was = e.cwnd {
		n.drop = func(packet) bool { return true }
		for a.send(e, 8) {
		}
		for e.cwnd == was {
			n.tick()
		}
		if e.cwnd != max(was/2, MinWindow) {
			t.Fatalf("window %d after %d", e.cwnd, was)
		}
		if e.CanSend() {
			t.Fatal("sends more before an answer")
		}
		n.drop = nil
		n.run()
		if e.cwnd -= min(e.cwnd-MinWindow, was-was/2); e.cwnd > was {
			t.Fatalf("window %d", e.cwnd)
		}
		e.cwnd = max(was/2, MinWindow)
		e.max = e.acked + e.cwnd
	}
	n.same(a, e)
}

// TestNackIsAnswered checks that a NACK causes a retransmission at once, without a timer, and only
// one.
func TestNackIsAnswered(t *testing.T) {
	n, a, b, e := pair(t)
	n.push(a, e, 200, 8)
	n.run()
	lose := 1
	n.drop = func(p packet) bool {
		if kind(p) == wire.KindAM && lose > 0 {
			lose--
			return true
		}
		return false
	}
	cwnd := e.cwnd
	for i := 0; i < 10; i++ {
		a.send(e, 8)
	}
	n.settle() // each of the nine makes the peer send a NACK
	if b.it.Counters.Nacks != 9 {
		t.Fatalf("%d NACKs", b.it.Counters.Nacks)
	}
	c := &a.it.Counters
	if c.NackLosses != 1 || c.Timeouts != 0 || c.Resent < 10 || c.Resent > 11 {
		t.Errorf("%d losses by NACK, %d by time, %d packets repeated", c.NackLosses, c.Timeouts, c.Resent)
	}
	if e.cwnd >= cwnd {
		t.Errorf("window %d, was %d", e.cwnd, cwnd)
	}
	n.run()
	n.same(a, e)
}

// TestNackRepeats checks that another NACK causes a retransmission after a tick, because the first
// retransmission may be lost, too.
func TestNackRepeats(t *testing.T) {
	n, a, b, e := pair(t)
	n.push(a, e, 200, 8)
	n.run()
	lose := 0
	var first wire.PSN
	n.drop = func(p packet) bool {
		return kind(p) == wire.KindAM && wire.Load(p.data).PSN() == first && lose > 0 && func() bool { lose--; return true }()
	}
	first, lose = e.psn, 2
	for i := 0; i < 6; i++ {
		a.send(e, 8)
	}
	n.settle()
	if e.Idle() || a.it.Counters.NackLosses != 1 {
		t.Fatalf("%d losses", a.it.Counters.NackLosses)
	}
	n.now += int64(11 * time.Millisecond)
	b.it.Clock(n.now)
	b.accepted[0].owe(oweNack)
	b.it.Dispatch()
	n.settle()
	if !e.Idle() || a.it.Counters.NackLosses != 2 || a.it.Counters.Timeouts != 0 {
		t.Fatalf("%d losses by NACK, %d by time", a.it.Counters.NackLosses, a.it.Counters.Timeouts)
	}
	n.same(a, e)
}

// TestLastIsLost checks that the loss of the last packet, after which no packet reveals a gap, is
// detected after a tick: the sender sends a probe, whose number shows the gap.
func TestLastIsLost(t *testing.T) {
	n, a, b, e := pair(t)
	n.drop = func(p packet) bool { return kind(p) == wire.KindAM }
	a.send(e, 2000) // large: only a NACK makes it retransmitted
	n.drop = nil
	start := n.now
	n.settle()
	for e.psn-1 != e.acked {
		if !n.tick() {
			t.Fatal("nobody looks")
		}
		n.settle()
	}
	if took := time.Duration(n.now - start); took != 10*time.Millisecond {
		t.Errorf("found out after %v", took)
	}
	if b.it.Counters.Nacks != 1 || a.it.Counters.Resent != 1 || a.it.Counters.Probes != 1 {
		t.Errorf("%d NACKs, %d repeated, %d questions", b.it.Counters.Nacks, a.it.Counters.Resent, a.it.Counters.Probes)
	}
	n.same(a, e)
}

// TestLarge checks that to a silent peer small packets are retransmitted and large ones are not.
func TestLarge(t *testing.T) {
	n, a, _, e := pair(t)
	n.push(a, e, 100, 8)
	n.run()
	n.drop = func(packet) bool { return true }
	small := a.it.short - wire.HeaderLen
	a.send(e, small)
	a.send(e, small+1)
	a.send(e, small)
	for i := 0; i < 6; i++ {
		n.tick()
	}
	c := &a.it.Counters
	if c.Timeouts < 3 || c.Resent != c.Timeouts {
		t.Errorf("%d times, %d packets", c.Timeouts, c.Resent)
	}
	n.drop = nil
	n.run()
	n.same(a, e)
}

func TestConnectIfaceSingle(t *testing.T) {
	n := newNetwork(t)
	n.log = []string{}
	a, b := n.add(10), n.add(20)
	e := a.open(b)
	n.settle()
	a.send(e, 8)
	a.send(e, 8)
	n.settle()
	want := []string{
		"host10>20 -: CREQ ep 0 sn 0 psn 1 ack 0",
		"host20>10 0: CREP ep 0 ACK_REQ psn 1 ack 1",
		"host10>20 0: ACK psn 2 ack 1",
		"host10>20 0: AM 0 psn 2 ack 1",
		"host10>20 0: AM 1 ACK_REQ psn 3 ack 1",
		"host20>10 0: ACK psn 2 ack 3",
	}
	same(t, n.log, want)
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("packet %d: %q, want %q", i, g, w)
		}
	}
}

// TestConnectIfaceSim checks the packets if both sides send a CREQ before they receive one.
func TestConnectIfaceSim(t *testing.T) {
	n := newNetwork(t)
	n.log = []string{}
	a, b := n.add(10), n.add(20)
	e, f := a.open(b), b.open(a)
	n.settle()
	same(t, n.log, []string{
		"host10>20 -: CREQ ep 0 sn 0 psn 1 ack 0",
		"host20>10 -: CREQ ep 0 sn 0 psn 1 ack 0",
		"host20>10 0: CREP ep 0 ACK_REQ psn 2 ack 1",
		"host10>20 0: CREP ep 0 ACK_REQ psn 2 ack 1",
		"host10>20 0: ACK psn 3 ack 2",
		"host20>10 0: ACK psn 3 ack 2",
	})
	if len(a.accepted)+len(b.accepted) != 0 || a.of(e).connected != 1 || b.of(f).connected != 1 {
		t.Error("the two did not become one connection")
	}
	n.push(a, e, 10, 8)
	n.push(b, f, 10, 8)
	n.run()
	n.same(a, e)
	n.same(b, f)
}

// TestConnectQueueFull checks that no CREQ is sent if the peer's CREQ arrives before there is room.
func TestConnectQueueFull(t *testing.T) {
	n := newNetwork(t)
	n.log = []string{}
	a, b := n.add(10), n.add(20)
	a.room = 0
	e := a.open(b)
	n.dispatch()
	b.open(a)
	n.settle()
	a.room = -1
	n.settle()
	same(t, n.log, []string{
		"host20>10 -: CREQ ep 0 sn 0 psn 1 ack 0",
		"host10>20 0: CREP ep 0 ACK_REQ psn 1 ack 1",
		"host20>10 0: ACK psn 2 ack 1",
	})
	if !e.Connected() {
		t.Error("not connected")
	}
}

// TestConnect2to1, TestConnectSeq and TestConnectSim2v2 connect several hosts or endpoints, one
// after the other and at once.
func TestConnect2to1(t *testing.T) {
	n := newNetwork(t)
	a, b, c := n.add(10), n.add(20), n.add(30)
	e, f := a.open(c), b.open(c)
	n.settle()
	n.push(a, e, 20, 8)
	n.push(b, f, 20, 8)
	n.run()
	n.same(a, e)
	n.same(b, f)
	if len(c.accepted) != 2 {
		t.Errorf("%d endpoints of peers", len(c.accepted))
	}
}

func TestConnectSeq(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	e := a.open(b)
	n.push(a, e, 20, 8)
	n.run()
	f := b.open(a) // takes the passive endpoint
	if f.connSN != 0 || f != b.accepted[0] {
		t.Fatalf("conn_sn %d", f.connSN)
	}
	g := b.open(a) // makes another endpoint
	n.run()
	if g.connSN != 1 || len(a.accepted) != 1 {
		t.Fatalf("conn_sn %d, %d endpoints", g.connSN, len(a.accepted))
	}
	n.push(b, f, 20, 8)
	n.push(b, g, 20, 8)
	n.run()
	n.same(a, e)
	n.same(b, f)
	n.same(b, g)
}

func TestConnectSim2v2(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	var es, fs []*Endpoint
	for i := 0; i < 2; i++ {
		es = append(es, a.open(b))
		fs = append(fs, b.open(a))
	}
	n.run()
	for i := range es {
		if _, o := n.other(a, es[i]); o != fs[i] {
			t.Fatalf("endpoint %d is connected to another one", i)
		}
	}
}

// TestConnect2k makes two thousand connections at once, every second one opened by both sides.
func TestConnect2k(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20, func(c *Config) { c.MaxEmbryos = 4096 })
	const count = 2000
	var es []*Endpoint
	for i := 0; i < count; i++ {
		es = append(es, a.open(b))
	}
	for i := 0; i < count/2; i++ {
		b.open(a)
	}
	n.run()
	if len(a.accepted) != 0 || len(b.accepted) != count/2 {
		t.Fatalf("%d and %d endpoints of peers", len(a.accepted), len(b.accepted))
	}
	for _, e := range es {
		n.push(a, e, 1, 8)
	}
	n.run()
	for _, e := range es {
		n.same(a, e)
	}
	for i, e := range b.accepted {
		if f := b.open(a); f != e {
			t.Fatalf("endpoint %d: conn_sn %d, want %d", i, f.connSN, e.connSN)
		}
	}
}

// TestPaths checks that endpoints on different paths to a peer are numbered separately (4_paths).
func TestPaths(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	for round := uint32(0); round < 3; round++ {
		for path := uint8(0); path < 4; path++ {
			e, err := a.it.Open(b.peer(path))
			if err != nil {
				t.Fatal(err)
			}
			if e.connSN != round || e.Path() != path {
				t.Errorf("path %d: conn_sn %d on path %d, want %d", path, e.connSN, e.Path(), round)
			}
		}
	}
	n.run()
	if len(b.accepted) != 12 {
		t.Fatalf("%d endpoints", len(b.accepted))
	}
	for _, e := range b.accepted {
		f, err := b.it.Open(a.peer(e.path))
		if err != nil || f.path != e.path {
			t.Fatalf("path %d: %+v, %v", e.path, f, err)
		}
	}
	if len(a.accepted) != 0 {
		t.Errorf("%d endpoints too many", len(a.accepted))
	}
}

func TestDestroySimple(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.open(a)
	e.Close()
	n.run()
	if a.of(e).gone || b.of(f).gone || b.of(f).ended != 1 {
		t.Fatal("gone before the other is closed, or nothing said")
	}
	b.send(f, 8) // the closed endpoint still receives
	n.run()
	if !f.Idle() {
		t.Fatal("not received")
	}
	f.Close()
	n.run()
	if !a.of(e).gone || a.it.Endpoints() != 0 {
		t.Fatal("both are closed, and it is not gone")
	}
	n.pass(5*time.Minute + 2*time.Second)
	if !b.of(f).gone || b.it.Endpoints() != 0 {
		t.Fatalf("%d endpoints are left", b.it.Endpoints())
	}
}

// TestFarewellIsLost checks that closed endpoints linger if the notices of their ends are lost, as
// in C.
func TestFarewellIsLost(t *testing.T) {
	n, a, b, e := pair(t)
	n.drop = func(p packet) bool { return wire.Load(p.data)&wire.FlagEnd != 0 && !wire.Load(p.data).IsAM() }
	f := b.open(a)
	e.Close()
	f.Close()
	n.run()
	if a.of(e).gone || b.of(f).gone {
		t.Fatal("gone at once")
	}
	n.pass(5*time.Minute + 2*time.Second)
	if !a.of(e).gone || !b.of(f).gone || a.it.Endpoints() != 0 || b.it.Endpoints() != 0 {
		t.Fatalf("%d and %d endpoints are left", a.it.Endpoints(), b.it.Endpoints())
	}
}

// TestFarewellIsLate checks that an endpoint without room for its notice for longer than the linger
// time sends the notice later.
func TestFarewellIsLate(t *testing.T) {
	n, a, b, e := pair(t)
	a.room = 0
	e.Close()
	n.pass(5*time.Minute + 2*time.Second)
	if a.of(e).gone {
		t.Fatal("gone, and has told nobody")
	}
	a.room = -1
	n.run()
	n.pass(2 * time.Second)
	if !a.of(e).gone || !b.of(b.accepted[0]).gone || b.it.Endpoints() != 0 {
		t.Fatalf("gone %v, %d endpoints are left at the peer", a.of(e).gone, b.it.Endpoints())
	}
}

// TestFarewellComesLast checks that a notice takes effect only after all packets sent before it,
// and only with the right number. It then removes a passive endpoint.
func TestFarewellComesLast(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.accepted[0]
	n.push(a, e, 3, 8)
	for _, psn := range []wire.PSN{f.got, f.got + 2, f.got + 100} { // with the wrong number
		b.forge(packed(wire.NewHeader(f.id, wire.FlagEnd, psn, f.psn-1)), 10)
		b.forge(packed(wire.NewHeader(f.id, wire.FlagRefuse, psn, f.psn-1)), 10)
	}
	if b.of(f).gone {
		t.Fatal("gone before everything has come")
	}
	e.Close()
	n.run()
	if !b.of(f).gone || len(b.of(f).got) != 3 || b.it.peers.passive != 0 {
		t.Fatalf("gone %v with %d messages", b.of(f).gone, len(b.of(f).got))
	}
	g := b.open(a) // another connection, with another number
	n.run()
	if g.connSN != 1 || !g.Connected() {
		t.Fatalf("conn_sn %d, connected %v", g.connSN, g.Connected())
	}
}

// TestRefusal checks that the peer of an aborted endpoint is notified and fails without a timeout.
func TestRefusal(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.accepted[0]
	for a.send(e, 8) {
	}
	mark, _ := a.flush(e)
	n.air = nil
	f.Drop(errNonsense)
	n.settle()
	c := a.of(e)
	if !errors.Is(c.failed, ErrReset) || len(c.slots) != 0 || len(c.flushed) != 1 || c.flushed[0] != mark {
		t.Fatalf("failed: %v, left %v", c.failed, c.slots)
	}
	e.Close()
	// An endpoint of the application, for which the peer has made a passive one.
	e = a.open(b)
	n.run()
	f = b.accepted[1]
	e.Abort(errNonsense)
	n.settle()
	if a.of(e).failed != errNonsense || !b.of(f).gone {
		t.Fatalf("failed: %v, gone %v", a.of(e).failed, b.of(f).gone)
	}
	// All endpoints of an interface at once.
	e = a.open(b)
	n.run()
	b.it.NotifyEnd()
	n.settle()
	if a.of(e).failed == nil {
		t.Fatal("the end of an interface is not heard of")
	}
}

// TestDestroyFlush closes an endpoint with messages in flight, which are lost at first.
func TestDestroyFlush(t *testing.T) {
	n, a, b, e := pair(t)
	n.push(a, e, 100, 8)
	n.run()
	n.drop = func(packet) bool { return true }
	for i := 0; i < 5; i++ {
		a.send(e, 8)
	}
	e.Close()
	n.drop = nil
	n.run()
	f := b.accepted[0]
	if c := a.of(e); c.done != 105 || len(b.of(f).got) != 105 || !b.of(f).gone {
		t.Fatalf("%d done, %d received, gone %v", c.done, len(b.of(f).got), b.of(f).gone)
	}
}

// TestDestroyLinger loses the acknowledgement of a message whose receiver is closed.
func TestDestroyLinger(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.open(a)
	n.drop = func(p packet) bool { return p.from == b }
	a.send(e, 8)
	n.settle()
	f.Close()
	n.drop = nil
	n.run()
	if !e.Idle() {
		t.Fatal("not acknowledged")
	}
	a.send(e, 8)
	n.run()
	n.same(a, e) // the closed endpoint still receives
}

// TestLingerHeard checks that a closed endpoint answers as long as its peer sends, and is removed
// when nothing has been received for the linger time. The endpoint of a silent peer, closed later,
// is removed without waiting for the first.
func TestLingerHeard(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.open(a)
	silent := a.open(b)
	n.run()
	linger := b.it.cfg.Linger
	f.Close()
	n.pass(linger / 10)
	b.open(a).Close() // the peer of the endpoint silent
	for range 50 {
		n.pass(linger / 10)
		a.send(e, 8)
		n.run()
		if !e.Idle() {
			t.Fatal("the end that was closed does not answer")
		}
	}
	if b.of(f).gone || b.it.Endpoints() != 1 {
		t.Errorf("%d endpoints", b.it.Endpoints())
	}
	n.pass(2*linger + time.Second)
	if b.it.Tick(); !b.of(f).gone || b.it.Endpoints() != 0 {
		t.Errorf("%d endpoints whose peers were not heard any more", b.it.Endpoints())
	}
	if e.is(failed) || silent.is(failed) {
		t.Error("an endpoint has failed")
	}
}

// TestDestroyPassive checks that the application may open a passive endpoint that its peer has
// closed.
func TestDestroyPassive(t *testing.T) {
	n, a, b, e := pair(t)
	e.Close()
	n.run()
	f := b.open(a)
	b.send(f, 8)
	n.run()
	if !f.Connected() || !f.Idle() {
		t.Fatal("not received")
	}
}

// TestDestroyCREQ checks an endpoint that is closed after its CREQ was sent: the CREP still finds
// it.
func TestDestroyCREQ(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	e := a.open(b)
	n.dispatch()
	e.Close()
	n.run()
	if b.it.Counters.CREPs != 1 || !b.accepted[0].Idle() || a.of(e).connected != 0 {
		t.Fatalf("%d CREPs", b.it.Counters.CREPs)
	}
}

// TestClosedAndAsked checks an endpoint that is closed while the CREQs of both sides are in flight.
// The next endpoints of both sides must have the same number and form a pair.
func TestClosedAndAsked(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	e, f := a.open(b), b.open(a)
	n.dispatch()
	e.Close()
	n.run()
	if !f.Connected() || f.dest != e.id {
		t.Fatal("the closed one was not found")
	}
	e, f = a.open(b), b.open(a)
	n.run()
	if e.dest != f.id || f.dest != e.id {
		t.Fatal("no pair")
	}
}

// TestNeverAsked checks an endpoint that is closed before its CREQ could be posted.
func TestNeverAsked(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	a.room = 0
	e := a.open(b)
	n.dispatch()
	e.Close()
	a.room = -1
	n.run()
	if !a.of(e).gone || a.it.Endpoints() != 0 || n.sent != 0 {
		t.Fatalf("%d endpoints, %d packets", a.it.Endpoints(), n.sent)
	}
}

// TestTimeout checks that a silent peer is declared dead after 30 s, once, and that nothing is sent
// to it afterwards.
func TestTimeout(t *testing.T) {
	n, a, _, e := pair(t)
	n.push(a, e, 50, 8)
	n.run()
	delete(n.hosts, 20)
	mark := int32(-1)
	for i := 0; i < 3; i++ {
		a.send(e, 8)
	}
	mark, _ = a.flush(e)
	start := n.now
	n.run()
	c := a.of(e)
	if took := time.Duration(n.now - start); took < 30*time.Second || took > 41*time.Second {
		t.Errorf("found dead after %v", took)
	}
	if !errors.Is(c.failed, ErrTimeout) || c.lost != 3 || len(c.slots) != 0 || len(c.flushed) != 1 || c.flushed[0] != mark {
		t.Errorf("failed: %v, lost %d, left %v, flushed %v", c.failed, c.lost, c.slots, c.flushed)
	}
	if e.CanSend() || a.send(e, 8) {
		t.Error("sends on")
	}
	if _, ok := a.flush(e); !ok {
		t.Error("a flush of a dead endpoint waits")
	}
	if _, wanted := a.it.nextTimer(n.now); wanted {
		t.Error("looks on")
	}
	e.Close()
	if !c.gone || a.it.Endpoints() != 0 {
		t.Error("it is not forgotten")
	}
}

// TestNobodyThere checks that a CREQ is repeated until the timeout.
func TestNobodyThere(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	delete(n.hosts, 20)
	e := a.open(b)
	n.run()
	if !errors.Is(a.of(e).failed, ErrTimeout) || a.it.Counters.CREQs < 8 || a.it.Counters.CREQs > 14 {
		t.Errorf("failed: %v after %d CREQs", a.of(e).failed, a.it.Counters.CREQs)
	}
}

// TestBackoff compares the times of retransmissions with those of C (test_ud_timer's backoff).
func TestBackoff(t *testing.T) {
	n, a, _, e := pair(t)
	delete(n.hosts, 20)
	a.send(e, 8)
	start := n.now
	var at []time.Duration
	was := a.it.Counters.Timeouts
	for n.tick() && a.of(e).failed == nil {
		if now := a.it.Counters.Timeouts; now != was {
			at = append(at, time.Duration(n.now-start))
			was = now
		}
	}
	ms := time.Millisecond
	want := []time.Duration{30 * ms, 70 * ms, 150 * ms, 310 * ms, 630 * ms, 1270 * ms, 2550 * ms, 5110 * ms, 10230 * ms, 20230 * ms}
	for i, w := range want {
		if i >= len(at) || at[i] != w {
			t.Fatalf("repeated at %v, want %v", at, want)
		}
	}
}

// TestLate checks that a program that does not call for a minute does not declare its peer dead.
func TestLate(t *testing.T) {
	n, a, _, e := pair(t)
	a.send(e, 8)
	a.it.nextTimer(n.now)
	n.now += int64(time.Minute)
	a.it.Clock(n.now)
	a.it.Tick()
	if a.of(e).failed != nil {
		t.Fatal("dead")
	}
	if _, wanted := a.it.nextTimer(n.now); !wanted {
		t.Fatal("does not look on")
	}
	n.run()
	n.same(a, e)
	// The same if nothing was in flight before.
	n.now += int64(time.Minute)
	a.send(e, 8)
	n.now += int64(time.Minute)
	a.it.Clock(n.now)
	a.it.Tick()
	n.run()
	n.same(a, e)
}

// TestQuiet checks that a timer is requested only while packets are in flight, and once for the end of
// the linger time of a closed endpoint.
func TestQuiet(t *testing.T) {
	n, a, b, e := pair(t)
	wanted := func() bool {
		_, w := a.it.nextTimer(n.now)
		_, v := b.it.nextTimer(n.now)
		return w || v
	}
	if wanted() {
		t.Fatal("wanted at rest")
	}
	a.send(e, 8)
	due, ok := a.it.nextTimer(n.now)
	if !ok || due != n.now+int64(10*time.Millisecond) {
		t.Fatalf("in flight: %v in %v", ok, time.Duration(due-n.now))
	}
	a.flush(e)
	n.dispatch()
	n.settle()
	if wanted() {
		t.Fatal("wanted after the acknowledgement")
	}
	e.Close()
	n.settle()
	if wanted() {
		t.Fatal("in flight while it lingers")
	}
	due, ok = a.it.Next(n.now)
	if !ok || due != n.now+a.it.linger {
		t.Fatalf("lingers: %v in %v", ok, time.Duration(due-n.now))
	}
	if d, ok := a.it.Soonest(); !ok || d != due {
		t.Fatalf("lingers: %v in %v", ok, time.Duration(d-n.now))
	}
	n.now = due
	if a.it.Clock(n.now); a.it.Endpoints() != 1 {
		t.Fatal("forgotten too early")
	}
	a.it.Tick()
	if _, ok := a.it.Next(n.now); ok || a.it.Endpoints() != 0 {
		t.Fatal("not forgotten at the end of the linger time")
	}
}

// TestBusy checks that missing answers do not count while retransmitted packets are still in the
// queue.
func TestBusy(t *testing.T) {
	n, a, _, e := pair(t)
	n.drop = func(packet) bool { return true }
	a.send(e, 8)
	a.busy = true
	for i := 0; i < 5; i++ {
		n.tick()
	}
	if a.it.Counters.Timeouts != 0 || a.it.Counters.Probes != 0 {
		t.Fatal("lost, although it was not sent")
	}
	a.busy = false
	n.drop = nil
	n.run()
	n.same(a, e)
}

// TestKeepalive checks that an idle endpoint sends a keepalive to check its peer.
func TestKeepalive(t *testing.T) {
	n, a, b, e := pair(t)
	e.Check()
	n.run()
	if a.it.Counters.Keepalives != 1 || !e.Idle() || b.accepted[0].got != e.psn-1 {
		t.Fatal("not received")
	}
	a.send(e, 8)
	e.Check() // a packet in flight already checks the peer
	n.run()
	if a.it.Counters.Keepalives != 1 {
		t.Fatal("one too many")
	}
	n.same(a, e)
	// A lost keepalive is retransmitted; one that is never answered reveals a dead peer.
	n.drop = func(p packet) bool { return kind(p) == wire.KindPut }
	e.Check()
	n.settle()
	n.drop = nil
	n.run()
	if !e.Idle() {
		t.Fatal("not received")
	}
	delete(n.hosts, 20)
	e.Check()
	n.run()
	if a.of(e).failed == nil {
		t.Fatal("a dead peer is not found")
	}
}

// TestPair connects endpoints by their ids: without a CREQ, with numbers from 1 on. Packets that
// arrive before an endpoint is connected are dropped, and retransmitted by the peer.
func TestPair(t *testing.T) {
	n := newNetwork(t)
	n.log = []string{}
	a, b := n.add(10), n.add(20)
	e, _ := a.it.OpenPair()
	f, _ := b.it.OpenPair()
	if _, ok := a.flush(e); !ok {
		t.Fatal("nothing to flush")
	}
	if err := f.ConnectPair(10, e.ID()); err != nil {
		t.Fatal(err)
	}
	b.send(f, 8)
	n.settle()
	if len(a.of(e).got) != 0 || a.it.Counters.Unconnected != 1 {
		t.Fatal("taken before it was connected")
	}
	if err := e.ConnectPair(20, f.ID()); err != nil {
		t.Fatal(err)
	}
	if err := e.ConnectPair(20, f.ID()); !errors.Is(err, ErrState) {
		t.Fatalf("twice: %v", err)
	}
	a.send(e, 8)
	n.run()
	n.same(a, e)
	n.same(b, f)
	if n.log[0] != "host20>10 0: AM 0 psn 1 ack 0" {
		t.Errorf("first packet: %s", n.log[0])
	}
	// A closed endpoint acknowledges what it has received, and accepts nothing more.
	e.Close()
	n.drop = func(p packet) bool { return p.from == a }
	b.send(f, 8)
	n.settle()
	n.drop = nil
	b.send(f, 8)
	n.settle()
	if got := len(a.of(e).got); got != 1 || a.it.Counters.Closed < 1 {
		t.Errorf("received %d", got)
	}
	n.run()
	if b.of(f).failed == nil {
		t.Error("the peer of a closed endpoint believes in it")
	}
}

// TestPairCloses checks that the last messages of a side arrive although it closes at once.
func TestPairCloses(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	e, _ := a.it.OpenPair()
	f, _ := b.it.OpenPair()
	_ = e.ConnectPair(20, f.ID())
	_ = f.ConnectPair(10, e.ID())
	n.drop = func(packet) bool { return true }
	a.send(e, 8)
	a.send(e, 8)
	e.Close()
	n.drop = nil
	n.run()
	n.same(a, e)
}

// TestRestart replaces a peer by a new process with the same queue pair. C UCX 1.13.1 ends its
// process then; the test expects what 1.22.0 does, except that messages to the old process end with
// an error.
func TestRestart(t *testing.T) {
	for _, inFlight := range []int{0, 1, 3} {
		n, a, b, e := pair(t)
		n.quiet = true
		f := b.open(a)
		n.push(a, e, 5, 8)
		n.push(b, f, 20, 8)
		n.run()
		n.drop = func(packet) bool { return true }
		for i := 0; i < inFlight; i++ {
			b.send(f, 8)
		}
		n.drop = nil
		delete(n.hosts, 10)
		a = n.add(10)
		for i := 0; i < 3; i++ {
			a.it.OpenPair() // so that ids differ
		}
		e = a.open(b)
		n.run()
		if !e.Connected() || b.it.Counters.Restarts != 1 || e.dest != f.id || f.dest != e.id {
			t.Fatalf("connected %v, %d restarts", e.Connected(), b.it.Counters.Restarts)
		}
		c := b.of(f)
		if c.lost != uint64(inFlight) || len(c.slots) != 0 {
			t.Fatalf("%d lost, want %d", c.lost, inFlight)
		}
		c.sent, c.done, c.lost = 0, 0, 0
		c.got = nil
		n.push(a, e, 5, 8)
		n.push(b, f, 5, 8)
		n.run()
		n.same(a, e)
		n.same(b, f)
	}
}

// TestOvertaken checks that no message is lost if a peer sends messages before its CREP, as C can,
// and some or all of them arrive first.
func TestOvertaken(t *testing.T) {
	n := newNetwork(t)
	n.quiet = true
	a, b := n.add(10), n.add(20)
	e := a.open(b)
	a.it.Dispatch()
	p := n.air[0]
	n.air = nil
	b.receive(p)
	f := b.accepted[0]
	b.it.Open(a.peer(0))
	f.owed &^= oweCREP // as in C, where messages can overtake a CREP
	b.send(f, 8)
	b.send(f, 8)
	f.owe(oweCREP)
	n.settle()
	n.run()
	if !e.Connected() {
		t.Fatal("not connected")
	}
	n.same(b, f)
}

// TestWrap lets packet numbers wrap around many times.
func TestWrap(t *testing.T) {
	for _, first := range []wire.PSN{0xfff0, 0xfffe, 0xffff, 0x7ffe} {
		n, a, b, e := pair(t, func(c *Config) { c.first = first })
		f := b.open(a)
		i := 0
		n.drop = func(packet) bool { i++; return i%97 == 0 }
		for range 40 {
			n.push(a, e, 100, 8)
			n.push(b, f, 50, 8)
		}
		n.run()
		n.same(a, e)
		n.same(b, f)
	}
	n, a, _, e := pair(t)
	n.push(a, e, 200000, 8)
	n.run()
	n.same(a, e)
	if a.it.Counters.Resent != 0 {
		t.Errorf("%d packets were repeated", a.it.Counters.Resent)
	}
}

// TestClose closes an interface with endpoints in all phases.
func TestClose(t *testing.T) {
	n, a, b, e := pair(t)
	n.drop = func(packet) bool { return true }
	a.send(e, 8)
	a.flush(e)
	e2 := a.open(b)
	a.it.Close()
	if c := a.of(e); c.lost != 1 || len(c.slots) != 0 || !c.gone || !a.of(e2).gone || a.it.Endpoints() != 0 || a.it.Owed() {
		t.Errorf("left: %+v", c)
	}
}

// TestAskNearWrap checks that the packet at a quarter of the window asks for an acknowledgement
// even where numbers wrap around, where C's arithmetic misses it.
func TestAskNearWrap(t *testing.T) {
	for first := wire.PSN(0xfff0); first != 0x10; first++ {
		n := newNetwork(t)
		a, b := n.add(10), n.add(20)
		e := a.open(b)
		n.run()
		e.psn, e.acked, e.cwnd = first, first-1, 16
		e.max = e.acked + e.cwnd
		e.re, e.reMax = e.psn, e.acked
		for i := 1; a.send(e, 8); i++ {
			if asks := wire.Load(n.air[len(n.air)-1].data).AckReq(); asks != (i == 4 || i == 15) {
				t.Fatalf("first number %d: packet %d asks: %v", first, i, asks)
			}
		}
	}
}

// TestEndWithNack checks that an endpoint which is closed while it misses a packet sends both the
// NACK and the notice of its end.
func TestEndWithNack(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.accepted[0]
	n.drop = func(p packet) bool { return true }
	b.send(f, 8)
	n.drop = nil
	b.send(f, 8)
	p := n.air[0]
	n.air = nil
	p.to.receive(p)
	if e.owed&oweNack == 0 {
		t.Fatal("nothing is missed")
	}
	e.Close()
	n.settle()
	if c := a.it.Counters; b.of(f).ended != 1 || b.it.Counters.GotNacks != 1 || c.Nacks != 1 || c.Ends != 1 {
		t.Errorf("told of the end %d times, %+v", b.of(f).ended, b.it.Counters)
	}
}

// TestSoon checks that the first answer of a long silent peer, for which the timer has backed off,
// makes the timer frequent again, so that later losses are found soon.
func TestSoon(t *testing.T) {
	for name, answer := range map[string]func(*network, *host, *Endpoint){
		"acknowledges": func(n *network, b *host, f *Endpoint) {},
		"misses something": func(n *network, b *host, f *Endpoint) {
			f.got-- // as if the last packet was lost
			f.owe(oweNack)
		},
	} {
		n, a, b, e := pair(t)
		n.drop = func(packet) bool { return true }
		a.send(e, 8)
		if !a.send(e, 8) {
			t.Fatal("no room for two")
		}
		for e.every < int64(2*time.Second) {
			n.tick()
		}
		n.drop = func(p packet) bool { return kind(p) == wire.KindAM && wire.Load(p.data).PSN() == e.psn-1 }
		f := b.accepted[0]
		e.repeat()
		a.it.Dispatch()
		n.settle()
		answer(n, b, f)
		b.it.Dispatch()
		n.settle()
		if due, ok := a.it.nextTimer(n.now); !ok || due > n.now+int64(20*time.Millisecond) {
			t.Errorf("%s: the next look is in %v", name, time.Duration(due-n.now))
		}
	}
}
