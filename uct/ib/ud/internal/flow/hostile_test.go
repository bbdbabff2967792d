//go:build linux

package flow

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/capturetest"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// forge passes a forged packet to a host, since any host on the network can send to the port.
func (h *host) forge(data []byte, src uint32) {
	h.it.Clock(h.net.now)
	if e, _, _ := h.it.Receive(data, &From{QPN: src}); e != nil {
		h.t.Fatalf("%s takes %s", h.name, show(data))
	}
	h.it.Dispatch()
}

func packed(h wire.Header, body ...byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(h)), body...)
}

// TestForged passes packets that cannot be the peer's to a working endpoint. Each must be counted,
// and have no other effect.
func TestForged(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.open(a)
	n.push(a, e, 20, 8)
	n.push(b, f, 20, 8)
	n.run()
	n.push(a, e, 3, 8)
	held := n.air
	n.air = nil
	c := &a.it.Counters
	id, got, psn, acked := e.ID(), e.got, e.psn, e.acked
	crep := func(ep uint32, psn, ack wire.PSN) []byte {
		return wire.AppendCREP(nil, wire.NewHeader(id, wire.FlagCtl, psn, ack), &wire.CREP{EP: ep})
	}
	creq := func(q wire.CREQ) []byte {
		return wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), &q)
	}
	for name, tc := range map[string]struct {
		data  []byte
		src   uint32
		count *uint64
	}{
		"nothing":                    {nil, 20, &c.Short},
		"seven bytes":                {make([]byte, 7), 20, &c.Short},
		"acknowledges the future":    {packed(wire.AMHeader(id, 1, got+1, psn)), 20, &c.WrongAck},
		"acknowledges far ahead":     {packed(wire.NewHeader(id, 0, got+1, acked+0x7fff)), 20, &c.WrongAck},
		"number beyond the window":   {packed(wire.AMHeader(id, 1, got+maxAhead+1, acked)), 20, &c.WrongNumber},
		"of another queue pair":      {packed(wire.AMHeader(id, 1, got+1, acked)), 21, &c.WrongSource},
		"for an id that never was":   {packed(wire.AMHeader(77, 1, got+1, acked)), 20, &c.Unknown},
		"for another use of the id":  {packed(wire.AMHeader(id|1<<indexBits, 1, got+1, acked)), 20, &c.Unknown},
		"for the largest id":         {packed(wire.AMHeader(wire.NullID-1, 1, got+1, acked)), 20, &c.Unknown},
		"a message for nobody":       {packed(wire.AMHeader(wire.NullID, 1, got+1, acked)), 20, &c.Malformed},
		"an ACK for nobody":          {packed(wire.NewHeader(wire.NullID, 0, 1, 1)), 20, &c.Malformed},
		"neither this nor that":      {packed(wire.NewHeader(id, 0, got+1, acked), 1, 2, 3), 20, &c.Malformed},
		"a short put":                {packed(wire.NewHeader(id, wire.FlagPut, got+1, acked), 1, 2), 20, &c.Malformed},
		"a put":                      {packed(wire.NewHeader(id, wire.FlagPut, got+1, acked), make([]byte, 16)...), 20, &c.Puts},
		"control of one byte":        {packed(wire.NewHeader(id, wire.FlagCtl, got+1, acked), 2), 20, &c.WrongControl},
		"a CREP of somebody else":    {crep(f.ID()+1, got+1, acked), 20, &c.WrongControl},
		"a CREP of no id":            {crep(wire.NullID, got+1, acked), 20, &c.WrongControl},
		"an old CREP":                {crep(f.ID(), 1, acked), 20, &c.Duplicate},
		"an old message":             {packed(wire.AMHeader(id, 1, got, acked)), 20, &c.Duplicate},
		"a very old message":         {packed(wire.AMHeader(id, 1, got-0x7fff, acked)), 20, &c.Duplicate},
		"a message ahead":            {packed(wire.AMHeader(id, 1, got+2, acked)), 20, &c.Ahead},
		"a CREQ of one byte":         {packed(wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), 1), 20, &c.Malformed},
		"a CREQ from elsewhere":      {creq(wire.CREQ{QPN: 20, EP: 1, DevAddr: b.devAddr()}), 21, &c.WrongSource},
		"a CREQ of no such address":  {creq(wire.CREQ{QPN: 20, EP: 1, DevAddr: make([]byte, 9)}), 20, &c.Refused},
		"a CREQ of a long address":   {creq(wire.CREQ{QPN: 20, EP: 1, DevAddr: make([]byte, 4000)}), 20, &c.Refused},
		"a CREQ that came before":    {creq(wire.CREQ{QPN: 20, EP: f.ID(), DevAddr: b.devAddr()}), 20, &c.Duplicate},
		"a CREQ with a later number": {wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, got+5, 0), &wire.CREQ{QPN: 20, EP: f.ID(), DevAddr: b.devAddr()}), 20, &c.WrongControl},
	} {
		was := *tc.count
		a.forge(tc.data, tc.src)
		if *tc.count != was+1 {
			t.Errorf("%s: not counted: %+v", name, *c)
		}
		if e.got != got || e.psn != psn || e.acked != acked || !e.Connected() {
			t.Fatalf("%s: received %d, next %d, acknowledged %d; was %d, %d, %d", name, e.got, e.psn, e.acked, got, psn, acked)
		}
	}
	if a.it.Endpoints() != 1 {
		t.Errorf("%d endpoints", a.it.Endpoints())
	}
	n.air = append(held, n.air...)
	n.run()
	n.push(a, e, 20, 8)
	n.push(b, f, 20, 8)
	n.run()
	n.same(a, e)
	n.same(b, f)
}

// TestForgedUnconnected checks that before its CREP an endpoint accepts no other packet.
func TestForgedUnconnected(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	e := a.open(b)
	a.it.Dispatch()
	held := n.air
	n.air = nil
	crep := func(ep uint32, psn, ack wire.PSN, size int) []byte {
		return wire.AppendCREP(nil, wire.NewHeader(0, wire.FlagCtl, psn, ack), &wire.CREP{EP: ep})[:size]
	}
	for _, data := range [][]byte{
		packed(wire.AMHeader(0, 1, 1, 1)), packed(wire.AMHeader(0, 1, 2, 1)), packed(wire.AMHeader(0, 1, 0x1234, 1)),
		packed(wire.NewHeader(0, wire.FlagAckReq, 1, 1)), packed(wire.NewHeader(0, wire.FlagNack, 9, 1)),
		crep(3, 1, 0, 48), crep(3, 1, 2, 48), crep(3, 1, 0x8001, 48), crep(wire.NullID, 1, 1, 48), crep(3, 1, 1, 47),
		wire.AppendKeepalive(nil, wire.NewHeader(0, 0, 1, 1)),
	} {
		a.forge(data, 20)
		if e.Connected() || e.Idle() || len(n.air) != 0 {
			t.Fatalf("%s: connected %v, posts %d", show(data), e.Connected(), len(n.air))
		}
	}
	a.forge(crep(3, 1, 1, 48), 21)
	if e.Connected() {
		t.Fatal("connected by somebody else")
	}
	n.air = held
	n.run()
	if !e.Connected() {
		t.Fatal("not connected")
	}
	n.push(a, e, 5, 8)
	n.run()
	n.same(a, e)
}

// TestStaleDestEPID checks that packets to a removed endpoint find no endpoint, even if its place
// in the table is taken again, and that ids are not reused soon.
func TestStaleDestEPID(t *testing.T) {
	n := newNetwork(t)
	a := n.add(10)
	seen := make(map[uint32]int)
	for i := 0; i < 20000; i++ {
		e, err := a.it.OpenPair()
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := seen[e.ID()]; ok && i-at < 10000 {
			t.Fatalf("id %d again after %d endpoints", e.ID(), i-at)
		}
		if e.ID() >= wire.NullID || a.it.table.find(e.ID()) != e {
			t.Fatalf("id %d", e.ID())
		}
		seen[e.ID()] = i
		id := e.ID()
		e.Close()
		was := a.it.Counters.Unknown
		a.forge(packed(wire.AMHeader(id, 1, 1, 0)), 20)
		if a.it.Counters.Unknown != was+1 {
			t.Fatal("it finds something")
		}
	}
	if places := len(a.it.table.eps); places > 2*reserve {
		t.Errorf("the table has %d places", places)
	}
}

// TestTableIsFull checks the limit of endpoints, and that endpoints can be opened again after it
// was reached.
func TestTableIsFull(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10, func(c *Config) { c.MaxEndpoints = 3 }), n.add(20)
	var es []*Endpoint
	for range 3 {
		es = append(es, a.open(b))
	}
	if _, err := a.it.Open(b.peer(0)); err != ErrFull {
		t.Fatalf("%v", err)
	}
	if _, err := a.it.OpenPair(); err != ErrFull {
		t.Fatalf("%v", err)
	}
	if _, err := a.it.Open(Peer{QPN: 99}); err != ErrFull || len(a.it.peers.byKey) != 1 {
		t.Fatalf("%v, %d peers", err, len(a.it.peers.byKey))
	}
	es[0].Close()
	e := a.open(b)
	n.run()
	if !e.Connected() || e.connSN != 3 {
		t.Fatalf("connected %v, conn_sn %d", e.Connected(), e.connSN)
	}
}

// creqFrom returns a CREQ of the peer number who.
func creqFrom(who uint32, sn uint32) []byte {
	return wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), &wire.CREQ{
		QPN: who + 0x1000, EP: who % 1000, ConnSN: sn, DevAddr: binary.BigEndian.AppendUint64([]byte{0x48}, uint64(who)),
	})
}

// TestStorm sends CREQs of a million senders that do not exist. The memory and the packets that
// they cost must be bounded, existing connections must not be affected, and a real peer must be
// able to connect by repeating its CREQ.
func TestStorm(t *testing.T) {
	n, a, b, e := pair(t)
	limit := b.it.cfg.MaxEmbryos
	count := uint32(1000000)
	if testing.Short() {
		count = 50000
	}
	c := n.add(30)
	f := c.open(b)
	for i := range count {
		if i%1000 == 0 {
			n.now += int64(time.Millisecond)
			b.it.Clock(n.now)
			b.it.Tick()
		}
		b.accepted = b.accepted[:0]
		clear(b.conns)
		b.forge(creqFrom(i, i%3), 0)
		if b.it.peers.embryos.n > limit || b.it.Endpoints() > limit+2 {
			t.Fatalf("%d endpoints", b.it.Endpoints())
		}
	}
	if k := b.it.Counters; k.Passive < uint64(limit) || k.Passive+k.Refused != uint64(count)+1 {
		t.Errorf("%d made, %d refused", k.Passive, k.Refused)
	}
	if got := len(b.it.peers.byKey); got > limit+2 {
		t.Errorf("%d peers are remembered", got)
	}
	n.settle()
	for i := 0; i < 40 && !f.Connected(); i++ {
		n.pass(time.Second)
	}
	if !f.Connected() {
		t.Fatal("a peer that exists does not come through")
	}
	n.push(a, e, 20, 8)
	n.push(c, f, 20, 8)
	n.run()
	n.same(a, e)
	n.same(c, f)
	if b.it.Endpoints() > 3 {
		t.Errorf("%d endpoints are left of it", b.it.Endpoints())
	}
}

// TestStormFromOne checks that a peer that makes as many embryos as possible, at any speed, does
// not prevent others from connecting.
func TestStormFromOne(t *testing.T) {
	n := newNetwork(t)
	b, c := n.add(20, func(c *Config) { c.MaxEmbryos = 64 }), n.add(30)
	one := func(sn uint32) []byte {
		return wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), &wire.CREQ{QPN: 66, EP: sn, ConnSN: sn, DevAddr: append([]byte{0x48}, make([]byte, 8)...)})
	}
	sn := uint32(0)
	for range 1000 {
		b.forge(one(sn), 66)
		sn++
	}
	if k := b.it.Counters; k.Passive != 64 || k.Evicted != 0 {
		t.Fatalf("%d made, %d driven out", k.Passive, k.Evicted)
	}
	f := c.open(b)
	for range 3 { // after each packet of the other peer
		c.it.Dispatch()
		for range 100 {
			b.forge(one(sn), 66)
			sn++
		}
		n.step()
	}
	if !f.Connected() {
		t.Error("somebody else is kept out")
	}
	if k := b.it.Counters; k.Evicted != 1 || b.it.peers.embryos.n > 64 {
		t.Errorf("%d driven out, %d embryos", k.Evicted, b.it.peers.embryos.n)
	}
}

// TestPassiveFromOne checks the same for a peer that answers.
func TestPassiveFromOne(t *testing.T) {
	n := newNetwork(t)
	a, c := n.add(10), n.add(30)
	b := n.add(20, func(c *Config) { c.MaxPassive = 50 })
	for range 60 {
		a.open(b)
	}
	n.pass(time.Second)
	d := n.add(40)
	for k, h := range []*host{c, d, c} {
		f := h.open(b)
		n.settle()
		if !f.Connected() || b.it.peers.passive != 50 || b.it.Counters.Evicted != uint64(k+1) {
			t.Fatalf("connected %v, %d passive, %d driven out", f.Connected(), b.it.peers.passive, b.it.Counters.Evicted)
		}
		n.push(h, f, 3, 8)
		n.run()
		n.same(h, f)
	}
}

// TestPassiveIsNotSearched checks that the table is not searched for a CREQ, accepted or not, when
// there is no room. So a CREQ costs its sender more than the receiver.
func TestPassiveIsNotSearched(t *testing.T) {
	const most = 3 * heavyPart
	full := func() (n *network, b *host) {
		n = newNetwork(t)
		b = n.add(20, func(c *Config) { c.MaxPassive, c.MaxEmbryos = most, most+1 })
		for k := range uint32(most) {
			b.forge(creqFrom(max(k, 3)-3, k), 0) // four of one address
		}
		for k, e := range b.accepted {
			n.now += int64(time.Millisecond)
			b.forge(packed(wire.NewHeader(e.ID(), 0, 2, 1)), 0) // its peer has answered
			b.it.table.eps[k] = nil                             // a search finds nothing
		}
		return n, b
	}
	_, b := full()
	b.refuse = true
	b.forge(creqFrom(1000, 0), 0)
	b.refuse = false
	b.forge(creqFrom(1000, 0), 0)
	if k := b.it.Counters; k.Evicted != 1 || k.Refused != 1 || !b.conns[b.accepted[0]].gone {
		t.Errorf("%d driven out, %d refused", k.Evicted, k.Refused)
	}
	n, b := full()
	n.now += int64(b.it.cfg.Linger)
	b.forge(creqFrom(0, 1000), 0)
	if k := b.it.Counters; k.Evicted != 1 || !b.conns[b.accepted[0]].gone {
		t.Errorf("%d driven out after a long silence", k.Evicted)
	}
}

// TestPassiveFromMany checks that, if no address has a large part of all endpoints, an endpoint is
// evicted only after it was silent for long.
func TestPassiveFromMany(t *testing.T) {
	const each, most = 3, 3*heavyPart + heavyPart - 1
	n := newNetwork(t)
	b := n.add(20, func(c *Config) { c.MaxPassive, c.MaxEmbryos = most+1, most+1 })
	for k := uint32(0); b.it.peers.passive < most+1; k++ {
		b.forge(creqFrom(k/each, k%each), 0)
	}
	for _, e := range b.accepted {
		b.forge(packed(wire.NewHeader(e.ID(), 0, 2, 1)), 0) // its peer has answered
	}
	n.pass(time.Second)
	b.forge(creqFrom(1000, 0), 0)
	if k := b.it.Counters; k.Evicted != 0 || k.Refused != 1 {
		t.Errorf("%d driven out, %d refused", k.Evicted, k.Refused)
	}
	b.forge(creqFrom(0, each), 0) // now one address has a large part
	n.pass(b.it.cfg.Linger)
	b.forge(creqFrom(1000, 0), 0)
	if k := b.it.Counters; k.Evicted != 1 {
		t.Errorf("%d driven out after a long silence", k.Evicted)
	}
}

// TestBurdens checks the counts of endpoints by address while endpoints are made, adopted and
// dropped.
func TestBurdens(t *testing.T) {
	n := newNetwork(t)
	b := n.add(20, func(c *Config) { c.MaxPassive, c.MaxEmbryos = 40, 10 })
	rng := rand.New(rand.NewPCG(1, 2))
	for sn := range uint32(3000) {
		who := rng.Uint32N(6)
		b.forge(creqFrom(who, sn), 0)
		if len(b.accepted) > 0 {
			switch e := b.accepted[rng.IntN(len(b.accepted))]; {
			case b.conns[e] != nil && b.conns[e].gone:
			case rng.IntN(3) == 0:
				b.forge(packed(wire.NewHeader(e.ID(), 0, 2, 1)), 0)
			case rng.IntN(3) == 0:
				e.Drop(errNonsense)
			case rng.IntN(3) == 0 && e.Passive():
				b.it.adopt(e)
			}
		}
		n.now += int64(20 * time.Millisecond)
		ps := &b.it.peers
		want := make(map[[24]byte]load)
		for _, e := range b.it.table.eps {
			if e != nil && e.is(passive) {
				w := want[e.account.addr]
				if w.passive++; e.is(halfOpen) {
					w.embryos++
				}
				want[e.account.addr] = w
			}
		}
		most, heavy := load{}, 0
		for addr, w := range want {
			if ps.has(addr) != w {
				t.Fatalf("%+v, counted %+v", w, ps.has(addr))
			}
			most.passive, most.embryos = max(most.passive, w.passive), max(most.embryos, w.embryos)
			if w.passive >= 40/heavyPart {
				heavy++
			}
			if n := len(ps.accounts[addr].ranking.heap); n != w.passive {
				t.Fatalf("%d are ranked of %d", n, w.passive)
			}
		}
		if len(ps.heavy) != heavy || len(ps.ranking.heap) != ps.passive {
			t.Fatalf("%d addresses have much, of %d; %d are ranked of %d", len(ps.heavy), heavy, len(ps.ranking.heap), ps.passive)
		}
		if len(ps.accounts) != len(want) || ps.passiveOf.most != most.passive || ps.embryosOf.most != most.embryos {
			t.Fatalf("%d addresses, at most %d and %d; counted %d, %d and %d", len(want), most.passive, most.embryos, len(ps.accounts), ps.passiveOf.most, ps.embryosOf.most)
		}
	}
	if k := b.it.Counters; k.Evicted < 10 {
		t.Errorf("%+v", k)
	}
}

// TestPassiveLimit has a real peer make endpoints without end. The limit must hold. Endpoints that
// were silent for long must be evicted for new ones, and others must not.
func TestPassiveLimit(t *testing.T) {
	n := newNetwork(t)
	a := n.add(10)
	b := n.add(20, func(c *Config) { c.MaxPassive = 50 })
	var es []*Endpoint
	for range 60 {
		es = append(es, a.open(b))
	}
	n.pass(20 * time.Second)
	if b.it.peers.passive != 50 || b.it.Counters.Refused == 0 || b.it.Counters.Evicted != 0 {
		t.Fatalf("%d passive, %d refused", b.it.peers.passive, b.it.Counters.Refused)
	}
	for i := range es[:50] {
		if !es[i].Connected() {
			t.Fatalf("endpoint %d is not connected", i)
		}
	}
	n.pass(4 * time.Minute)
	for i, e := range es[:50] { // all but five are used
		if i >= 5 {
			n.push(a, e, 1, 8)
		}
	}
	n.run()
	n.pass(2 * time.Minute)
	for range 10 {
		es = append(es, a.open(b))
	}
	n.settle()
	if got := b.it.Counters.Evicted; got != 5 {
		t.Errorf("%d went", got)
	}
	for i, e := range es[5:50] {
		n.push(a, e, 1, 8)
		n.run()
		n.same(a, e)
		_ = i
	}
}

// TestDrop checks that an endpoint is removed if its peer sends invalid data, and that its number
// is not used for another one, which C UCX 1.13.1 could not handle.
func TestDrop(t *testing.T) {
	n, a, b, e := pair(t)
	n.push(a, e, 5, 8)
	n.run()
	p := b.accepted[0]
	p.Drop(errNonsense)
	if !b.of(p).gone || b.of(p).failed != nil || b.it.Endpoints() != 0 || b.it.peers.passive != 0 {
		t.Fatal("it is not gone")
	}
	f := b.open(a)
	if f.connSN != 1 {
		t.Fatalf("conn_sn %d", f.connSN)
	}
	n.run()
	if !f.Connected() {
		t.Fatal("not connected")
	}
	a.send(e, 8)
	n.run()
	if a.of(e).failed == nil {
		t.Fatal("its peer does not notice")
	}
	// An endpoint of the application fails, and exists until it is closed.
	f.Drop(errNonsense)
	if b.of(f).failed != errNonsense || b.of(f).gone {
		t.Fatal("it has not failed")
	}
	f.Drop(errNonsense)
	f.Close()
	f.Close()
	if !b.of(f).gone {
		t.Fatal("it is not gone")
	}
}

// TestRefusedAddress checks a CREQ to whose sender no path is known.
func TestRefusedAddress(t *testing.T) {
	n := newNetwork(t)
	a, b := n.add(10), n.add(20)
	b.refuse = true
	e := a.open(b)
	n.settle()
	if b.it.Counters.Refused != 1 || b.it.Endpoints() != 0 || len(b.it.peers.byKey) != 0 || len(b.it.peers.conns) != 0 {
		t.Fatalf("%d endpoints, %d peers", b.it.Endpoints(), len(b.it.peers.byKey))
	}
	b.refuse = false
	n.run()
	if !e.Connected() {
		t.Fatal("not connected when there is one")
	}
}

// TestForgotten checks that the number of remembered peers whose endpoints were dropped is bounded.
func TestForgotten(t *testing.T) {
	n := newNetwork(t)
	b := n.add(20)
	for i := range uint32(3 * maxForgotten) {
		b.forge(creqFrom(i, 0), 0)
		e := b.accepted[len(b.accepted)-1]
		b.forge(packed(wire.NewHeader(e.ID(), 0, 2, 1)), 0) // its peer has answered
		e.Drop(errNonsense)
	}
	if got := len(b.it.peers.byKey); got > maxForgotten+1 {
		t.Errorf("%d peers are remembered", got)
	}
}

// TestForgottenOwn checks the same for peers to which the application had endpoints, possibly at
// the request of unknown peers. Their number is larger, and other peers do not displace them.
func TestForgottenOwn(t *testing.T) {
	n := newNetwork(t)
	b := n.add(20)
	peer := func(i int) Peer { return Peer{QPN: uint32(100 + i)} }
	use := func(i int) (sn uint32) {
		e, err := b.it.Open(peer(i))
		if err != nil {
			t.Fatal(err)
		}
		b.of(e)
		e.Close()
		return e.connSN
	}
	for i := range maxOwn {
		use(i)
	}
	for i := range uint32(maxForgotten) {
		b.forge(creqFrom(i, 0), 0)
		e := b.accepted[len(b.accepted)-1]
		b.forge(packed(wire.NewHeader(e.ID(), 0, 2, 1)), 0) // its peer has answered
		e.Drop(errNonsense)
	}
	if sn := use(0); sn != 1 {
		t.Errorf("number %d to a peer that had one before many others", sn)
	}
	use(maxOwn) // replaces the first entry of peer 0, which is stale, and not its last
	if sn := use(0); sn != 2 {
		t.Errorf("number %d to a peer that had two", sn)
	}
	for i := range maxOwn {
		use(maxOwn + 1 + i)
	}
	if got := len(b.it.peers.byKey); got > maxOwn+maxForgotten+1 {
		t.Errorf("%d peers are remembered", got)
	}
	if sn := use(0); sn != 0 {
		t.Errorf("number %d to a peer that is forgotten", sn)
	}
}

// FuzzIface passes arbitrary packets to a working interface, as if from its peer, while time
// passes. Nothing may panic, the state kept must be bounded, and another connection must still
// work.
func FuzzIface(f *testing.F) {
	for _, release := range capturetest.Releases {
		for _, name := range []string{"udloss", "udkeep"} {
			s, err := capturetest.Find(release, name)
			if err != nil {
				f.Fatal(err)
			}
			var all []byte
			for i, p := range s.Packets[:min(len(s.Packets), 40)] {
				b := p.Data[:min(len(p.Data), 80)]
				all = append(all, byte(len(b)), byte(i%3))
				all = append(all, b...)
			}
			f.Add(all)
		}
	}
	fuzztest.Run(f, func(t *testing.T, in []byte) {
		n := newNetwork(t)
		n.quiet = true
		small := func(c *Config) { c.MaxPassive, c.MaxEmbryos, c.MaxLinger, c.MaxEndpoints = 8, 4, 4, 16 }
		a, b, c := n.add(10, small), n.add(20, small), n.add(30)
		e, g := a.open(b), c.open(a)
		n.settle()
		h := a.accepted[0] // the endpoint of the connection from c
		for len(in) >= 2 {
			k, what := min(int(in[0]), len(in)-2), in[1]
			p := in[2 : 2+k]
			in = in[2+k:]
			if len(p) >= wire.HeaderLen && wire.Load(p).Dest() == h.ID() {
				continue
			}
			if k >= wire.MinCREQ && wire.Load(p).Dest() == wire.NullID {
				if q, err := wire.ParseCREQ(p); err == nil && q.QPN == 30 {
					continue
				}
			}
			a.it.Clock(n.now)
			a.it.Receive(append([]byte(nil), p...), &From{QPN: 0})
			switch what % 8 {
			case 0:
				n.now += int64(time.Second)
			case 1:
				n.now += int64(10 * time.Millisecond)
			case 2:
				if e.CanSend() {
					a.send(e, int(what))
				}
			case 3:
				n.step()
			case 4:
				a.it.Tick()
			case 5:
				e.Close()
			}
			a.it.Dispatch()
			if a.it.Endpoints() > 16 || a.it.peers.passive > 8 || a.it.peers.embryos.n > 4 || len(a.it.peers.byKey) > 64 || len(n.air) > 1<<16 {
				t.Fatalf("%d endpoints, %d peers", a.it.Endpoints(), len(a.it.peers.byKey))
			}
		}
		n.air = nil
		n.push(c, g, 5, 8)
		for i := 0; i < 100 && len(a.of(h).got) < 5; i++ {
			n.settle()
			n.pass(50 * time.Millisecond)
		}
		if len(a.of(h).got) != 5 {
			t.Fatalf("another connection is harmed: %d messages of 5", len(a.of(h).got))
		}
	})
}

// TestEmbryosAreSafe checks that new embryos do not evict others before these are old enough.
func TestEmbryosAreSafe(t *testing.T) {
	n := newNetwork(t)
	b := n.add(20, func(c *Config) { c.MaxEmbryos = 4 })
	for i := range uint32(10) {
		b.forge(creqFrom(i, 0), 0)
	}
	if k := b.it.Counters; k.Passive != 4 || k.Refused != 6 || k.Evicted != 0 {
		t.Fatalf("%d made, %d refused, %d driven out", k.Passive, k.Refused, k.Evicted)
	}
	n.pass(embryoGrace)
	for i := range uint32(3) {
		b.forge(creqFrom(100+i, 0), 0)
	}
	if k := b.it.Counters; k.Passive < 5 || k.Passive-k.Evicted > 4 {
		t.Fatalf("%d made, %d refused, %d driven out", k.Passive, k.Refused, k.Evicted)
	}
	if !b.conns[b.accepted[0]].gone {
		t.Error("the oldest is there")
	}
}
