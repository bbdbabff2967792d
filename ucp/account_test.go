package ucp

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/account"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// Tests of the accounts of peers: which account is charged, and which connection is evicted.

// sited is a connection whose source the kernel identifies.
type sited struct {
	uct.BasicConnection
	conn
	info   uct.SourceInfo
	paused bool
	pauses int
}

func (c *sited) SourceInfo() uct.SourceInfo      { return c.info }
func (c *sited) SourceTLS() *tls.ConnectionState { return c.info.TLS }
func (c *sited) HeldBy(uct.Process) bool         { return c.info.Local }
func (c *sited) PauseSource()                    { c.paused = true; c.pauses++ }
func (c *sited) ResumeSource()                   { c.paused = false }

// from returns a connection from an IP address.
func from(addr string) *sited {
	c := &sited{info: uct.SourceInfo{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 1000)}}
	c.Owner = c
	return c
}

// ofUser returns a connection of a user of this machine.
func ofUser(uid int) *sited {
	c := from("127.0.0.1")
	c.info.Local, c.info.User = true, uct.PeerUser{Known: true, UID: uid, GID: -1, PID: -1}
	return c
}

// newServer returns a targetWorker that may evict connections.
func newServer(t *testing.T, settings ...string) *targetWorker {
	t.Helper()
	v := newTarget(t, settings...)
	v.log.Allow("dropping the connection that holds the most")
	return v
}

// knows marks the account of a connection as known to the application.
func (v *targetWorker) knows(c *sited) {
	v.Helper()
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback})
	if err != nil {
		v.Fatal(err)
	}
	ep.w.accounts.bindAccount(ep, ledgerSource(&c.Source))
}

// brings delivers up to n messages of 1000 bytes with a tag over a connection, until one is
// refused, and returns how many were accepted.
func (v *targetWorker) brings(c *sited, tag Tag, n int) int {
	v.Helper()
	for i := range n {
		if c.dropped != nil {
			return i
		}
		if err := v.tag.onEagerOnly()(&c.Source, eagerOnly(tag, make([]byte, 1000)), nil); err != nil {
			c.DropSource(err)
			return i
		}
	}
	return n
}

// tagged returns the number of unexpected messages with a tag.
func (v *targetWorker) tagged(tag Tag) int {
	n := 0
	v.tag.list()
	for d := v.tag.arrived.head; d != nil; d = d.links[arrivalLinks].next {
		if d.tag == tag {
			n++
		}
	}
	return n
}

// mostHeld returns how many bytes all peers may make the process hold: the limit, and the
// sixteenth by which it may be exceeded.
func (v *targetWorker) mostHeld() int64 {
	n := v.accounts.Limits.Bytes
	return int64(n + n/16)
}

// nothingHeld checks that no account of the process is charged. No other test runs meanwhile.
func nothingHeld(t *testing.T) {
	t.Helper()
	for _, a := range ledger.Accounts() {
		if a.Amounts != [ledger.NumKinds]int64{} {
			t.Errorf("%v is still charged with %v", a.Source, a.Amounts)
		}
	}
	for k := range ledger.NumKinds {
		if n := ledger.Total(k); n != 0 {
			t.Errorf("%d %v are charged to somebody", n, k)
		}
	}
}

// TestManyConnectionsOfOne: connections of a source with 40 connections are evicted for an honest
// peer, although each of them holds less than the peer, because limits compare sources.
func TestManyConnectionsOfOne(t *testing.T) {
	for name, source := range map[string]func() *sited{
		"address":      func() *sited { return from("192.0.2.66") },
		"IPv6 network": func() *sited { return from("2001:db8::66") },
		"user":         func() *sited { return ofUser(66) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newServer(t, "MAX_UNEXP_BYTES", "64k")
			honest := from("192.0.2.1")
			if n := v.brings(honest, 1, 15); n != 15 {
				t.Fatalf("%d messages taken", n)
			}
			for range 40 { // up to the limit and beyond
				v.brings(source(), 2, 2)
			}
			if n := v.brings(honest, 1, 8); n != 8 || honest.dropped != nil {
				t.Errorf("%d more messages of an honest peer are taken, then %v", n, honest.dropped)
			}
			if n := v.tagged(1); n != 23 {
				t.Errorf("%d messages of the honest peer are left", n)
			}
			if v.Stats().Evicted == 0 {
				t.Error("nobody gave way: the test tests nothing")
			}
		})
		nothingHeld(t)
	}
}

// TestKnownKeepTheirs: many small unknown peers do not evict a peer that the application knows and
// that holds more. As long as unknown peers hold anything, they are evicted for the known peer.
func TestKnownKeepTheirs(t *testing.T) {
	v := newServer(t, "MAX_UNEXP_BYTES", "128k")
	honest := from("192.0.2.1")
	v.knows(honest)
	v.brings(honest, 1, 60) // more than half of the limit
	for i := range byte(100) {
		c := from("192.0.2.1")
		c.info.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, i}), 1)
		v.brings(c, 2, 5)
	}
	if n := v.tagged(1); n != 60 || honest.dropped != nil {
		t.Errorf("the honest peer has %d of 60 messages left, dropped by %v", n, honest.dropped)
	}
	if n := v.brings(honest, 1, 30); n != 30 {
		t.Errorf("%d more messages are taken while strangers hold some, then %v", n, honest.dropped)
	}
	if n := v.tagged(1); n != 90 {
		t.Errorf("the honest peer has %d of 90 messages left", n)
	}
	over := v.mostHeld()
	if held := ledger.Total(ledger.Bytes); held > over {
		t.Errorf("%d bytes are held, at most %d may be", held, over)
	}
}

// TestFairShare: a peer that holds less than its share is not dropped for the messages that it
// sends, even if no other peer may be evicted for it.
func TestFairShare(t *testing.T) {
	v := newServer(t, "MAX_UNEXP_BYTES", "1m")
	greedy := from("192.0.2.1")
	v.knows(greedy)
	v.brings(greedy, 1, 2000)
	held := v.tagged(1)
	if greedy.dropped == nil {
		t.Fatal("there is still room: the test tests nothing")
	}
	stranger := from("192.0.2.2")
	if n := v.brings(stranger, 2, 10); n != 10 || stranger.dropped != nil {
		t.Errorf("a modest stranger brings %d messages, then %v", n, stranger.dropped)
	}
	if n := v.tagged(1); n != held {
		t.Errorf("a known peer has %d of %d messages left, for a stranger", n, held)
	}
	v.brings(from("192.0.2.3"), 2, 1000)
	over := v.mostHeld()
	if held := ledger.Total(ledger.Bytes); held > over {
		t.Errorf("%d bytes are held, at most %d may be", held, over)
	}
}

// TestOneBudget: the workers of a process share one budget. If the largest holder is a peer of
// another worker, that worker is asked to evict it, and messages are accepted meanwhile.
func TestOneBudget(t *testing.T) {
	v, other := newServer(t, "MAX_UNEXP_BYTES", "256k"), newServer(t, "MAX_UNEXP_BYTES", "256k")
	hog, honest := from("192.0.2.66"), from("192.0.2.1")
	for ledger.Total(ledger.Bytes) < int64(v.accounts.Limits.Bytes)-2000 && v.brings(hog, 2, 1) == 1 {
	}
	if hog.dropped != nil {
		t.Fatal("the hoarder is gone already: the test tests nothing")
	}
	if n := other.brings(honest, 1, 10); n != 10 || honest.dropped != nil {
		t.Errorf("%d messages taken by the other worker, then %v", n, honest.dropped)
	}
	over := v.mostHeld()
	if held := ledger.Total(ledger.Bytes); held > over {
		t.Errorf("%d bytes are held, at most %d may be", held, over)
	}
	if !v.reclaimWanted.Load() {
		t.Fatal("the worker that has the hoarder was not asked")
	}
	if err := v.wake.arm(); err != ucs.ErrBusy {
		t.Errorf("a worker that was asked to give something back falls asleep: %v", err)
	}
	v.Progress()
	if hog.dropped == nil || v.tagged(2) != 0 {
		t.Errorf("the hoarder is dropped: %v, and has %d messages", hog.dropped, v.tagged(2))
	}
	if n := other.brings(honest, 1, 100); n != 100 || other.tagged(1) != 110 {
		t.Errorf("%d messages taken, %d wait", n, other.tagged(1))
	}
}

// TestEndpointsByAccount: the endpoints that peers open are counted by source, for all workers
// together.
func TestEndpointsByAccount(t *testing.T) {
	v, other := newServer(t, "MAX_UNEXP_EPS", "40"), newServer(t, "MAX_UNEXP_EPS", "40")
	var hogs []*sited
	for k := range uint64(80) { // one over each connection
		c := ofUser(66)
		hogs = append(hogs, c)
		if err := v.opens(&c.conn, 100+k, 0); err != nil {
			c.DropSource(err)
		}
	}
	honest := ofUser(1)
	for k := range uint64(5) {
		if err := v.opens(&honest.conn, 1000+k, 0); err != nil {
			t.Errorf("endpoint %d of an honest peer: %v", k, err)
		}
	}
	for k := range uint64(2) {
		if err := other.opens(&honest.conn, 2000+k, 0); err != nil {
			t.Errorf("endpoint %d of an honest peer, at another worker: %v", k, err)
		}
		v.Progress()
	}
	dropped := 0
	for _, c := range hogs {
		if c.dropped != nil {
			dropped++
		}
	}
	if honest.dropped != nil || dropped < 45 {
		t.Errorf("dropped %v and %d of the others", honest.dropped, dropped)
	}
	if n := ledger.Total(ledger.Endpoints); n > 42 {
		t.Errorf("%d endpoints of peers", n)
	}
}

// TestEvictionCost: an eviction does not visit the messages of other peers.
func TestEvictionCost(t *testing.T) {
	if testing.Short() {
		t.Skip("connections by the thousand")
	}
	v := newServer(t, "MAX_UNEXP_BYTES", "1g")
	hog, honest := from("192.0.2.66"), from("192.0.2.1")
	for range 100_000 {
		v.handle(v.tag.onEagerOnly(), &honest.conn, eagerOnly(1, nil))
	}
	v.handle(v.tag.onEagerOnly(), &hog.conn, eagerOnly(2, nil))
	s := hog.User.(*source)
	// The list of all messages is cut: a walk through it misses messages, or panics.
	d := v.tag.arrived.head.links[arrivalLinks].next
	next := d.links[arrivalLinks].next
	d.links[arrivalLinks].next = nil
	s.Evict(ucs.ErrExceedsLimit)
	d.links[arrivalLinks].next = next
	if v.tagged(2) != 0 || v.tagged(1) != 100_000 || hog.dropped == nil {
		t.Errorf("%d and %d messages are left", v.tagged(2), v.tagged(1))
	}
}

// TestSourcesComeAndGo checks that nothing is left of clients that connect and leave one after
// the other.
func TestSourcesComeAndGo(t *testing.T) {
	needtest.Goroutines(t)
	if testing.Short() {
		t.Skip("connections by the thousand")
	}
	v := newServer(t)
	before := ledger.OpenAccounts()
	cycle := func(i int) {
		c := ofUser(i)
		if err := v.opens(&c.conn, uint64(1000+i), 0); err != nil {
			t.Fatal(err)
		}
		v.brings(c, 1, 2)
		v.handle(v.tag.onEagerFirst, &c.conn, first(2, proto.MessageID(i), 100, make([]byte, 40)))
		for o := &c.User.(*source).openings; !o.Empty(); {
			b := o.First().Value
			b.ep.w.ends.destroy(b.ep, ucs.ErrCanceled) // as when its lane fails
		}
		if i%2 == 0 {
			c.Gone()
		}
		for range 2 {
			if _, err := v.TagRecv(1, FullMask, make([]byte, 1000), nil); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 1 {
			c.Gone()
		}
		v.passOrphanTime()
	}
	cycles := 5000
	if needtest.Full {
		cycles = 20_000
	}
	for i := range cycles {
		cycle(i)
	}
	s := v.Stats()
	if v.accounts.Len() != 1 || s.Sources != 0 || s.UnexpectedBytes != 0 || v.peers.Len() != 0 || v.wireups.unexpected != 0 || s.Endpoints != 1 ||
		len(v.eager.assemblies) != 0 || ledger.OpenAccounts() != before {
		t.Errorf("%d payers, %d accounts more, %d peers, %d endpoints opened by them: %+v", v.accounts.Len(), ledger.OpenAccounts()-before, v.peers.Len(), v.wireups.unexpected, s)
	}
	v.checkEmpty()
}

// TestAutoHeld: the limit "auto" depends on the machine, and a given limit is used as it is.
func TestAutoHeld(t *testing.T) {
	v := newServer(t, "MAX_UNEXP_BYTES", "auto")
	if v.accounts.Limits.Bytes != account.AutoBytes() {
		t.Errorf("auto is %d bytes", v.accounts.Limits.Bytes)
	}
	if v := newServer(t, "MAX_UNEXP_BYTES", "1g"); v.accounts.Limits.Bytes != 1<<30 {
		t.Errorf("1g is %d bytes", v.accounts.Limits.Bytes)
	}
}

// TestPeers checks what Worker.Peers reports about the sources of peers.
func TestPeers(t *testing.T) {
	v := newServer(t, "MAX_UNEXP_BYTES", "64k")
	a, b := from("192.0.2.1"), ofUser(7)
	v.knows(a)
	v.brings(a, 1, 5)
	v.brings(b, 2, 2)
	if err := v.opens(&b.conn, 5, 0); err != nil {
		t.Fatal(err)
	}
	list := v.Peers()
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	if p := list[0]; p.Addr.String() != "192.0.2.1" || p.UID != -1 || !p.Known || p.Connections != 1 || p.Bytes < 5000 || p.Endpoints != 0 {
		t.Errorf("%+v", p)
	}
	if p := list[1]; p.Addr.IsValid() || p.UID != 7 || p.Known || p.Connections != 1 || p.Bytes < 2000 || p.Endpoints != 1 || p.Refused != nil {
		t.Errorf("%+v", p)
	}
	for _, p := range v.Peers() {
		if s := v.Stats(); p.Bytes > s.UnexpectedBytes || s.Sources != 2 {
			t.Errorf("%+v, %+v", p, s)
		}
	}
	c := ofUser(7)
	if err := v.tag.onEagerOnly()(&c.Source, eagerOnly(1, make([]byte, 100_000)), nil); !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Fatal(err)
	}
	found := false
	for _, p := range v.Peers() {
		found = found || p.UID == 7 && p.Refused["memory"] == 1
	}
	if !found {
		t.Errorf("no refusal in %+v", v.Peers())
	}
}

// TestPeersOfTransports: Worker.Peers reports what a transport has refused to a source, even if
// the source has sent nothing. If the source holds something later, one entry reports both.
func TestPeersOfTransports(t *testing.T) {
	log := logtest.Watch(t)
	log.Allow("refusing a connection: source address not in UCX_TCP_ALLOW")
	ctx := targetContext(t, "TLS", "tcp", "NET_DEVICES", "lo")
	defer ctx.Close()
	asked, refuse := 0, false
	w, err := ctx.NewWorker(WorkerParams{Accept: func(PeerInfo) bool { asked++; return !refuse }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.own.packAddress(); err != nil {
		t.Fatal(err)
	}
	v := newTargetOf(t, w, log)
	connect := func() net.Conn {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", binary.BigEndian.Uint16(v.own.described.Devices[0].Ifaces[0].Addr)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	connect()
	until(t, "connection", func() bool { return asked > 0 }, v)
	before := asked
	refuse = true
	connect()
	until(t, "second connection", func() bool { return asked > before }, v)
	refusals := func() (list []PeerStats) {
		for _, p := range v.Peers() {
			if p.Refused["policy"] > 0 {
				list = append(list, p)
			}
		}
		return list
	}
	list := refusals()
	if len(list) != 1 {
		t.Fatalf("%+v", v.Peers())
	}
	p := list[0]
	if p.Refused["policy"] != 1 || p.Connections != 0 || p.Bytes != 0 || p.UID < 0 && p.Addr.String() != "127.0.0.1" {
		t.Errorf("%+v", p)
	}
	same := &sited{info: uct.SourceInfo{Addr: netip.AddrPortFrom(p.Addr, 1)}}
	if p.UID >= 0 {
		same = ofUser(p.UID)
	}
	same.Owner = same
	v.brings(same, 1, 3)
	if list = refusals(); len(list) != 1 || list[0].Refused["policy"] != 1 || list[0].Connections != 1 || list[0].Bytes < 3000 {
		t.Errorf("%+v", v.Peers())
	}
}

// TestWorkersMulti: workers on goroutines of their own share one budget. It is exceeded by no more
// than what all workers may accept at the same moment, and no charge is left at the end.
func TestWorkersMulti(t *testing.T) {
	const workers = 4
	var vs [workers]*targetWorker
	for i := range vs {
		vs[i] = newServer(t, "MAX_UNEXP_BYTES", "256k")
	}
	most := vs[0].mostHeld() + workers*4096
	var over atomic.Int64
	var done sync.WaitGroup
	for i, v := range vs {
		done.Add(1)
		go func() {
			defer done.Done()
			conns := make([]*sited, 8)
			for k := range 5000 {
				c := &conns[k%len(conns)]
				if *c == nil || (*c).dropped != nil {
					*c = ofUser(100 + (i+k)%6)
				}
				if err := v.tag.onEagerOnly()(&(*c).Source, eagerOnly(1, make([]byte, 1000)), nil); err != nil {
					(*c).DropSource(err)
				}
				if n := ledger.Total(ledger.Bytes); n > over.Load() {
					over.Store(n)
				}
				if k%16 == 0 {
					v.Progress()
					v.Peers()
				}
			}
		}()
	}
	done.Wait()
	if n := over.Load(); n > most {
		t.Errorf("%d bytes were held, at most %d may be", n, most)
	}
	for _, v := range vs {
		v.tag.dropMessages()
		v.accounts.Reclaim()
	}
	if n := ledger.Total(ledger.Bytes); n != 0 {
		t.Errorf("%d bytes are charged for nothing", n)
	}
}

// TestGiveWayEnds: eviction ends, and is not repeated forever, if the largest holder holds bytes
// that an eviction cannot free.
func TestGiveWayEnds(t *testing.T) {
	fragment := func(c *sited, v *targetWorker, id uint64, off, n int) error {
		return v.tag.onEagerMiddle(&c.Source, append(proto.EagerMiddle{MsgID: proto.MessageID(id), Offset: off}.Append(nil), make([]byte, n)...), nil)
	}
	t.Run("parts of several connections", func(t *testing.T) {
		v := newServer(t, "MAX_UNEXP_BYTES", "64k")
		a, b, honest := from("192.0.2.1"), from("192.0.2.2"), from("192.0.2.3")
		for k := range 45 {
			if err := fragment(a, v, 7, 1+1024*k, 1024); err != nil {
				t.Fatal(err)
			}
		}
		if err := fragment(b, v, 7, 0, 1); err != nil {
			t.Fatal(err)
		}
		if n := v.brings(honest, 1, 30); n != 30 || honest.dropped != nil {
			t.Errorf("%d messages of an honest peer, then %v", n, honest.dropped)
		}
	})
	t.Run("parts of a whole message", func(t *testing.T) { // completed over another connection
		v := newServer(t, "MAX_UNEXP_BYTES", "64k")
		a, b, honest := from("192.0.2.1"), from("192.0.2.2"), from("192.0.2.3")
		for k := range 45 {
			if err := fragment(a, v, 7, 1+1024*k, 1024); err != nil {
				t.Fatal(err)
			}
		}
		v.handle(v.tag.onEagerFirst, &b.conn, first(2, 7, 1+45*1024, make([]byte, 1)))
		for range 30 {
			v.brings(honest, 1, 1)
		}
		if n := v.Stats().Evicted; n == 0 || n > 2 {
			t.Errorf("%d evictions", n)
		}
	})
}

// TestTakenMessages: a message that the application has taken is not charged to its sender,
// however long the application keeps it: the sender is not evicted or remembered for it. A message
// in fragments is charged until all fragments have arrived.
func TestTakenMessages(t *testing.T) {
	take := func(v *targetWorker) *TagMessage {
		v.Helper()
		m, ok := v.TagTake(0, 0)
		if !ok {
			v.Fatal("no message")
		}
		return m
	}
	t.Run("eviction", func(t *testing.T) {
		v := newServer(t, "MAX_UNEXP_BYTES", "64k")
		a, b := from("192.0.2.1"), from("192.0.2.2")
		v.brings(a, 1, 45)
		var taken []*TagMessage
		for range 45 {
			taken = append(taken, take(v))
		}
		if n := v.accounts.Held(); n != 0 {
			t.Errorf("%d bytes are charged", n)
		}
		if n := v.brings(b, 2, 40); n != 40 || v.tagged(2) != 40 || v.Stats().Evicted != 0 {
			t.Errorf("%d messages of another peer, %d are there, %d evictions", n, v.tagged(2), v.Stats().Evicted)
		}
		if n := v.brings(a, 1, 5); n != 5 || a.dropped != nil {
			t.Errorf("%d messages more, then %v", n, a.dropped)
		}
		a.Gone()
		for _, m := range taken {
			if _, err := m.Recv(make([]byte, 2048), nil); err != nil {
				t.Error(err)
			}
		}
	})
	for _, size := range []int{0, inlineBytes, 5000} {
		for name, end := range map[string]func(v *targetWorker, m *TagMessage){
			"received": func(v *targetWorker, m *TagMessage) {
				_, err := m.Recv(make([]byte, 1<<14), nil)
				if err != nil && !errors.Is(err, ucs.ErrConnectionReset) {
					v.Error(err)
				}
			},
			"discarded": func(v *targetWorker, m *TagMessage) { m.Discard() },
			"dropped":   func(v *targetWorker, m *TagMessage) { v.tag.dropMessages() },
		} {
			t.Run(fmt.Sprintf("%d bytes %s", size, name), func(t *testing.T) {
				v := newServer(t)
				a := from("192.0.2.1")
				held := func(want bool, when string) {
					t.Helper()
					if n := v.accounts.Held(); want != (n > 0) {
						t.Errorf("%s: %d bytes are charged", when, n)
					}
				}
				v.handle(v.tag.onEagerOnly(), &a.conn, eagerOnly(1, make([]byte, size)))
				held(true, "a message")
				whole := take(v)
				held(false, "that was taken")
				end(v, whole)
				held(false, "and is over")

				v.handle(v.tag.onEagerFirst, &a.conn, first(1, 7, 2*size+2, make([]byte, size+1)))
				half := take(v)
				held(true, "half a message that was taken")
				v.handle(v.tag.onEagerMiddle, &a.conn, middle(7, size+1, make([]byte, size+1)))
				held(false, "all of it")
				end(v, half)
				held(false, "and it is over")

				v.handle(v.tag.onEagerFirst, &a.conn, first(1, 8, 2*size+2, make([]byte, size+1)))
				lost := take(v)
				a.Gone()
				held(true, "half a message whose rest may come")
				v.passOrphanTime()
				held(false, "half a message whose rest does not come")
				if n := v.accounts.Len(); n > 1 {
					t.Errorf("%d sources are kept in mind", n)
				}
				end(v, lost)
				v.checkEmpty()
			})
		}
	}
}
