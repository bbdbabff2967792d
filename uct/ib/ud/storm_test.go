//go:build linux

package ud_test

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// quietly discards what is logged about hostile packets.
func quietly(t testing.TB) {
	was := log.SetLogger(zap.NewNop())
	t.Cleanup(func() { log.SetLogger(was) })
}

// hostilePacket returns the n-th packet of a storm: a connection request for ever more endpoints,
// for another queue pair, or with a forged address, some of them truncated, or a random packet to
// an endpoint that may exist.
func (p *scriptedPeer) hostilePacket(rng *rand.Rand, n int) []byte {
	header := wire.NewHeader(wire.NullID, wire.FlagCtl, wire.PSN(rng.Uint32N(1<<16)), wire.PSN(rng.Uint32N(1<<16)))
	q := wire.CREQ{QPN: p.QPN(), EP: uint32(n) & 0xfffff, ConnSN: uint32(n), DevAddr: p.dev}
	switch n % 8 {
	case 0, 1, 2, 3:
	case 4:
		a := rigtest.Must(ib.ParseAddress(p.dev))(p.T)
		a.GID[14], a.GID[15] = byte(rng.Uint32()), byte(rng.Uint32())
		q.DevAddr = a.Append(nil)
	case 5:
		q.QPN = rng.Uint32N(1<<24-2) + 1
	case 6:
		q.ConnSN, q.Path = rng.Uint32(), uint8(rng.Uint32())
	case 7:
		h := wire.Header(rng.Uint64())
		if rng.IntN(2) == 0 {
			h = h&^wire.NullID | wire.Header(rng.Uint32N(2000))
		}
		b := packed(h, make([]byte, rng.IntN(100))...)
		return b[:rng.IntN(len(b)+1)]
	}
	b := wire.AppendCREQ(nil, header, &q)
	return b[:len(b)-rng.IntN(2)*rng.IntN(len(b))]
}

// storm has a scripted peer send hostile packets to its host. Every 50 packets it calls good, which
// checks that others still work.
func (p *scriptedPeer) storm(packets int, good func()) {
	p.T.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(packets)))
	for n := range packets {
		p.send(p.hostilePacket(rng, n))
		p.Received()
		if n%50 == 0 {
			good()
		}
	}
}

// maxEmbryos is the default limit of connections whose peer has sent only a connection request.
const maxEmbryos = 1 << 10

// TestStorm has an attacker make connections as fast as possible, and send forged packets. The
// memory and the device objects that this costs must be bounded, existing connections must work,
// and others must be able to connect.
func TestStorm(t *testing.T) {
	needtest.Goroutines(t)
	quietly(t)
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, "UD_TIMEOUT", "30s")
	h := f.Open(t)
	others := []*ucttest.Host{f.Open(t), f.Open(t), f.Open(t), f.Open(t)}
	p := newScriptedPeer(t, net.Devices()[1], h)
	got := h.Collect(t, 5)
	eps := []uct.Endpoint{others[0].Connect(t, h)}
	sent := 0
	say := func() {
		for k, ep := range eps {
			ucttest.Accept(t, func() error { return ep.AMShort(5, 1, nil, 0, nil) }, others[k], h)
			sent++
		}
		got.Wait(t, sent, append(others, h)...)
	}
	say()
	before := net.Devices()[0].Objects()
	packets := 20000
	if testing.Short() {
		packets = 4000
	}
	most, n := 0, 0
	p.storm(packets, func() {
		if n++; n%20 == 0 && len(eps) < len(others) {
			eps = append(eps, others[len(eps)].Connect(t, h))
		}
		say()
		if k := ud.Connections(h.Iface); k > maxEmbryos+8 {
			t.Fatalf("%d connections", k)
		}
		most = max(most, net.Devices()[0].Objects())
	})
	// The attacker's queue pair has address handles for some paths, each other peer has two,
	// and buffer pools grow a little. There must not be one object for each connection.
	if n := most - before; n > 64 {
		t.Errorf("%d objects of the device more than before", n)
	}
	c := ud.Counters(h.Iface)
	if c.Passive < maxEmbryos || c.Refused == 0 || c.Malformed == 0 || c.Short == 0 || c.Unknown == 0 || c.WrongSource == 0 {
		t.Errorf("%+v", c)
	}
	if len(h.Failures) != 0 {
		t.Errorf("%+v", h.Failures)
	}
}

// TestStormOfAnswers checks that an attacker that answers gets lasting connections, and that others
// can still connect. (The limit is tested in package flow.)
func TestStormOfAnswers(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, "UD_TIMEOUT", "30s")
	h, a := f.Open(t), f.Open(t)
	p := newScriptedPeer(t, net.Devices()[1], h)
	before := net.Devices()[0].Objects()
	for n := range uint32(600) {
		p.connect(n, n)
	}
	if n := net.Devices()[0].Objects() - before; n > 4 {
		t.Errorf("%d objects for the connections to one interface", n)
	}
	ep := a.Connect(t, h)
	got := h.Collect(t, 5)
	ucttest.Accept(t, func() error { return ep.AMShort(5, 1, nil, 0, nil) }, a, h)
	got.Wait(t, 1, a, h)
	if n := ud.Connections(h.Iface); n != 601 {
		t.Errorf("%d connections", n)
	}
}

// TestComplaints checks that dropped packets of unknown peers are logged, once a minute for each
// kind.
func TestComplaints(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	was := log.SetLogger(zap.New(core))
	defer log.SetLogger(was)
	ledger.LogAgain()
	_, h, p := two(t)
	other := rigtest.Must(ib.ParseAddress(p.dev))(t)
	other.GID[15]++
	for range 5 {
		p.send([]byte("short"))
		p.send(packed(wire.NewHeader(wire.NullID, 0, 1, 1)))
		p.send(wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), &wire.CREQ{QPN: p.QPN() + 1, EP: 1, DevAddr: p.dev}))
		p.send(wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), &wire.CREQ{QPN: p.QPN(), EP: 1, DevAddr: other.Append(nil)}))
		ucttest.Settle(h)
	}
	if c := ud.Counters(h.Iface); c.Short != 5 || c.Malformed != 5 || c.WrongSource != 5 || c.Refused != 5 {
		t.Errorf("%+v", c)
	}
	if logs.Len() != 3 {
		t.Errorf("%d lines", logs.Len())
		for _, e := range logs.All() {
			t.Log(e.Message, e.ContextMap())
		}
	}
}

// TestCounted checks that each kind of dropped packet is counted in the ledger.
func TestCounted(t *testing.T) {
	quietly(t)
	_, h, p := two(t)
	id := p.connect(1, 0)
	counted := func(why ledger.Reason, what string, pkt []byte) {
		t.Helper()
		before := ledger.Refusals(why)
		p.send(pkt)
		ucttest.Settle(h)
		if n := ledger.Refusals(why) - before; n != 1 {
			t.Errorf("%s: counted %d times as %v", what, n, why)
		}
	}
	const psn, ack = 2, 1 // of the next packet
	counted(ledger.Stray, "for nobody", packed(wire.AMHeader(id+7, 5, psn, ack), 1))
	counted(ledger.Malformed, "an acknowledgement of what was never sent", packed(wire.AMHeader(id, 5, psn, ack+100), 1))
	counted(ledger.Malformed, "a number far ahead", packed(wire.AMHeader(id, 5, psn+20000, ack), 1))
	counted(ledger.Malformed, "a put", packed(wire.NewHeader(id, wire.FlagPut, psn, ack), make([]byte, 20)...))
	counted(ledger.Malformed, "a control packet that does not fit", packed(wire.NewHeader(id, wire.FlagCtl, psn, ack), 1, 2, 3))
	counted(ledger.Malformed, "what nobody sends", packed(wire.NewHeader(id, 0, psn, ack), 1))
	counted(ledger.Malformed, "less than a header", []byte{1, 2})
}

// TestNoWayBack checks that after a slow failed lookup of the path to an unknown peer, the
// interface waits for no other lookup. Paths are then resolved in the background, and a reachable
// peer is accepted when it repeats its CREQ.
func TestNoWayBack(t *testing.T) {
	quietly(t)
	net := network(t, verbstest.Config{}, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net)
	f.Component = net.Still()
	h := f.Open(t)
	p, q := newScriptedPeer(t, net.Devices()[1], h), newScriptedPeer(t, net.Devices()[2], h)
	p.connect(1, 0)
	net.Devices()[0].SetResolve(func(_, to [16]byte) syscall.Errno {
		time.Sleep(50 * time.Millisecond) // the duration of the lookup
		return syscall.ETIMEDOUT
	})
	q.send(q.creq(1, 0))
	ucttest.Settle(h)
	asked, answer := make(chan bool), make(chan syscall.Errno)
	net.Devices()[0].SetResolve(func(_, to [16]byte) syscall.Errno {
		asked <- true
		return <-answer
	})
	q.send(q.creq(1, 0))
	ucttest.Settle(h)
	if c := ud.Counters(h.Iface); c.Refused != 2 || c.Passive != 1 {
		t.Fatalf("%+v", c)
	}
	<-asked
	p.connect(2, 1)
	q.send(q.creq(1, 0))
	ucttest.Settle(h)
	if c := ud.Counters(h.Iface); c.Refused != 3 || c.Passive != 2 {
		t.Fatalf("%+v", c)
	}
	answer <- 0
	net.Devices()[0].SetResolve(nil)
	ucttest.Until(t, "an answer", func() bool {
		q.send(q.creq(1, 0))
		ucttest.Settle(h)
		return slices.ContainsFunc(q.Received(), isCREP)
	}, h)
}

// TestNoWayBackAndBusy checks that the duration of this state depends only on the lookup, not on
// the time that the program spends elsewhere.
func TestNoWayBackAndBusy(t *testing.T) {
	quietly(t)
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net)
	f.Component = net.Still()
	h := f.Open(t)
	q := newScriptedPeer(t, net.Devices()[1], h)
	time.Sleep(20 * time.Millisecond)                               // the program is busy
	net.Devices()[0].FailCall("CREATE_AH", 0, syscall.EHOSTUNREACH) // fails at once
	began := time.Now()
	q.send(q.creq(1, 0))
	ucttest.Settle(h)
	if c := ud.Counters(h.Iface); c.Refused != 1 {
		t.Fatalf("%+v", c)
	}
	if left, most := ud.Wary(h.Iface), 1024*time.Since(began); left <= 0 || left > most {
		t.Errorf("for %v, that should be %v at most", left, most)
	}
}

// FuzzPackets sends arbitrary packets, each with its length before it, from a connected peer.
// Another connection must not be affected.
func FuzzPackets(f *testing.F) {
	defer log.SetLogger(log.SetLogger(zap.NewNop()))
	f.Add([]byte{8, 0, 0, 0, 4, 2, 0, 1, 0, 9, 1, 0, 0, 4, 3, 0, 1, 0, 7})
	f.Add(append([]byte{65}, make([]byte, 65)...))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		net, h, hostile := two(t, "UD_VERBS_RX_QUEUE_LEN", "4", "UD_VERBS_TX_QUEUE_LEN", "2", "UD_TIMEOUT", "30s")
		good := newScriptedPeer(t, net.Devices()[1], h)
		got := h.Collect(t, 5)
		hostile.connect(3, 0)
		id := good.connect(4, 0)
		for len(b) > 0 {
			n := min(int(b[0]), len(b)-1)
			pkt := b[1 : 1+n]
			b = b[1+n:]
			hostile.send(pkt)
			hostile.Received()
			good.Received()
		}
		ucttest.Settle(h)
		before := got.Len()
		good.send(packed(wire.AMHeader(id, 5, 2, 1), 1, 2, 3))
		got.Wait(t, before+1, h)
		if ud.Connections(h.Iface) > maxEmbryos+2 || len(h.Failures) != 0 {
			t.Errorf("%d connections, %+v", ud.Connections(h.Iface), h.Failures)
		}
	})
}

// TestIndexInRequest checks that a connection request cannot choose the local GID by which it is
// answered.
func TestIndexInRequest(t *testing.T) {
	quietly(t)
	_, h, p := two(t)
	right := p.dev
	a := rigtest.Must(ib.ParseAddress(p.dev))(t)
	a.HasIndex, a.GIDIndex = true, 0
	p.dev = a.Append(nil)
	p.send(p.creq(1, 0))
	ucttest.Settle(h)
	if c := ud.Counters(h.Iface); c.Refused != 1 || c.Passive != 0 {
		t.Errorf("%+v", c)
	}
	p.dev = right
	p.connect(1, 0)
}
