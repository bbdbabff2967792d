package ucp

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/admit"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Tests of peers that claim to be another peer.

// loop is the address of a connection from this machine.
const loop = "127.0.0.1:40000"

// says handles a wireup message as if a peer had sent it over a connection; by is nil for memory of
// this process.
func (v *targetWorker) says(by *located, kind proto.WireupType, uuid uint64, sn uint16, src, dst proto.EndpointID, addr *proto.WorkerAddress) error {
	v.Helper()
	a := addr.Clone()
	a.UUID = uuid
	m := proto.Wireup{Type: kind, ConnSN: sn, SrcEp: src, DstEp: dst, Address: *a}
	b, err := m.Append(nil)
	if err != nil {
		v.Fatal(err)
	}
	var from *uct.Source
	if by != nil {
		from = &by.Source
	}
	return v.wireups.onWireup(from, b, nil)
}

// asks handles a request to open an endpoint. It returns the worker's endpoint toward the
// peer's endpoint src, nil if there is none, because the peer may be unreachable.
func (v *targetWorker) asks(by *located, uuid uint64, sn uint16, src proto.EndpointID, addr *proto.WorkerAddress) *Endpoint {
	v.Helper()
	if err := v.says(by, proto.WireupRequest, uuid, sn, src, 0, addr); err != nil && !errors.Is(err, ucs.ErrUnreachable) {
		v.Fatal(err)
	}
	return v.toward(src)
}

// toward returns the endpoint that is connected with the endpoint id of a peer, nil if there is
// none.
func (v *targetWorker) toward(id proto.EndpointID) (found *Endpoint) {
	v.endpoints.Each(func(ep *Endpoint) {
		if ep.remoteID == id {
			found = ep
		}
	})
	return found
}

// laneNames returns the transports of an endpoint, each once, sorted.
func laneNames(ep *Endpoint) string {
	if ep == nil {
		return "none"
	}
	var names []string
	for _, l := range ep.w.selection.transports(ep) {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// part returns the worker's address with only the named transports.
func (v *targetWorker) part(transports ...string) *proto.WorkerAddress {
	a := v.own.described.Clone()
	for d := range a.Devices {
		a.Devices[d].Ifaces = slices.DeleteFunc(a.Devices[d].Ifaces, func(f proto.AddressIface) bool {
			return !slices.ContainsFunc(transports, func(t string) bool { return proto.TransportIDOf(t) == f.Transport })
		})
	}
	a.Devices = slices.DeleteFunc(a.Devices, func(d proto.AddressDevice) bool { return len(d.Ifaces) == 0 })
	return a
}

// process returns this process as the transports of the worker identify it.
func (v *targetWorker) process() (p uct.Process) {
	v.Helper()
	for _, i := range v.ifaces {
		if f, ok := i.uct.(uct.ProcessIface); ok && i.inside() {
			var err error
			if p, err = f.FindProcess(uct.ReachableParams{DeviceAddr: i.uct.DeviceAddress(), IfaceAddr: i.uct.Address()}, nil); err != nil {
				v.Fatal(err)
			}
		}
	}
	return p
}

// TestConfusedDeputyAddress: an address that came over tcp leads to a process of this machine only
// if the kernel confirms that this process holds the connection. Otherwise a peer could make the
// worker read and write the memory of any process of the same user.
func TestConfusedDeputyAddress(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,posix,sysv,cma", "NET_DEVICES", "lo")
	peer := newTarget(t, "TLS", "tcp,posix,sysv,cma", "NET_DEVICES", "lo")
	if !strings.Contains(laneNames(v.ep), "cma") {
		t.Skip("missing: cma")
	}
	mine := v.process()
	id := proto.EndpointID(3)
	try := func(what string, by *located, addr *proto.WorkerAddress, want string, asked int) {
		t.Helper()
		id += 2
		ep := v.asks(by, 0xABC, proto.ConnSNNone, id, addr)
		if got := laneNames(ep); got != want {
			t.Errorf("%s: lanes over %s, want %s", what, got, want)
		}
		if by != nil && by.asked != asked {
			t.Errorf("%s: the kernel was asked %d times, want %d", what, by.asked, asked)
		}
		if ep != nil {
			ep.w.ends.destroy(ep, ucs.ErrCanceled)
		}
	}
	all := &peer.own.described
	honest := laneNames(v.asks(nil, 0xABC, proto.ConnSNNone, 3, all))
	v.ends.destroy(v.toward(3), ucs.ErrCanceled)
	held := func(p uct.Process) *located {
		l := newLocated(loop, true)
		l.holder = p
		return l
	}
	try("through memory of ours", nil, all, honest, 0)
	try("its own connection", held(mine), all, honest, 1)
	try("somebody else's", held(mine+1), all, "tcp", 1)
	try("from elsewhere", newLocated("192.0.2.1:4000", false), all, "none", 0)
	try("only tcp", held(mine), peer.part("tcp"), "tcp", 0)
	try("only cma and a target", held(mine+1), peer.part("tcp", "cma"), "tcp", 1)

	third := peer.own.described.Clone() // names another process besides the peer's
	for d := range third.Devices {
		for _, f := range third.Devices[d].Ifaces {
			if f.Transport == proto.TransportIDOf("cma") {
				pid := binary.LittleEndian.Uint32(f.Addr)
				binary.LittleEndian.PutUint32(f.Addr, pid&(1<<31)|uint32(os.Getppid()))
			}
		}
	}
	by := held(mine)
	ep := v.asks(by, 0xABC, proto.ConnSNNone, 1, third)
	if got := laneNames(ep); strings.Contains(got, "cma") || ep == nil || ep.process != mine {
		t.Errorf("with a third process: lanes over %s", got)
	}
}

// TestNamesOfFiles: an address entry that names a file, and not its process, is opened only if
// another entry names a process that holds the connection.
func TestNamesOfFiles(t *testing.T) {
	open := func() *targetWorker {
		return newTarget(t, "TLS", "tcp,posix,sysv", "NET_DEVICES", "lo", "POSIX_USE_PROC_LINK", "n")
	}
	v, peer := open(), open()
	id := proto.EndpointID(3)
	try := func(what string, holder uct.Process, addr *proto.WorkerAddress, want string, claims uint64) {
		t.Helper()
		id += 2
		by := newLocated(loop, true)
		by.holder = holder
		before := v.stats.Refused
		ep := v.asks(by, 0xABC, proto.ConnSNNone, id, addr)
		if got := laneNames(ep); got != want {
			t.Errorf("%s: lanes over %s, want %s", what, got, want)
		}
		if n := v.stats.Refused - before; n != claims {
			t.Errorf("%s: %d claims", what, n)
		}
		if ep != nil {
			ep.w.ends.destroy(ep, ucs.ErrCanceled)
		}
	}
	mine := v.process()
	v.asks(nil, 0xABC, proto.ConnSNNone, 3, &peer.own.described)
	honest := laneNames(v.toward(3))
	v.ends.destroy(v.toward(3), ucs.ErrCanceled)
	if !strings.Contains(honest, "posix") {
		t.Fatalf("lanes over %s", honest)
	}
	try("a process with a segment of System V", mine, &peer.own.described, honest, 0)
	try("somebody else's", mine+1, &peer.own.described, "tcp", 1)
	try("nothing but a name", mine, peer.part("tcp", "posix"), "tcp", 0)
}

// TestSlowPeers: if the look-ups for a user have taken too long, no more look-ups are made for the
// user for a while, and its endpoints get only lanes that need none. Other users are not affected.
func TestSlowPeers(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,posix", "NET_DEVICES", "lo")
	peer := newTarget(t, "TLS", "tcp,posix", "NET_DEVICES", "lo")
	var clock time.Duration
	v.admission.gate.Rates.Clock = func() time.Duration { return clock }
	id := proto.EndpointID(1)
	try := func(takes time.Duration, uid int, want bool) {
		t.Helper()
		id += 2
		by := newLocated(loop, true)
		by.uid = uid
		by.look = func() { clock, takes = clock+takes, 0 }
		ep := v.asks(by, 0xABC, proto.ConnSNNone, id, &peer.own.described)
		if got := strings.Contains(laneNames(ep), "posix"); got != want || want != (by.asked > 0) || want != (by.listeners > 0) {
			t.Errorf("lanes over %s, looked for %d and %d times", laneNames(ep), by.asked, by.listeners)
		}
		if ep != nil {
			ep.w.ends.destroy(ep, ucs.ErrCanceled)
		}
	}
	try(admit.LookupBurst-1, 7, true)
	try(1, 7, true)
	try(0, 7, false)
	try(0, 8, true)
	clock += 2 * admit.LookupShare * admit.LookupBurst
	try(0, 7, true)
	for range admit.LookupBurst / (2 * time.Millisecond) { // short look-ups, again and again
		try(2*time.Millisecond, 9, true)
	}
	for r := v.admission.gate.Rates.Of(ledger.SourceOf(newLocated(loop, true).from.Addr(), 9)); !r.Lookups.Exhausted(clock); {
		try(2*time.Millisecond, 9, true)
		if clock > 20*admit.LookupShare*admit.LookupBurst {
			t.Fatal("look-ups that take little are not charged")
		}
	}
	try(0, 9, false)
}

// TestManyHomes: a peer with several devices names all of them, whichever it connects from. That
// does not count as a false claim.
func TestManyHomes(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "CHECK_SOURCE", "y")
	addr := v.own.described.Clone()
	lo := addr.Devices[0]
	for _, ip := range []byte{7, 8} { // 192.0.2.x in the form of tcp
		d := lo
		d.Addr = []byte{0, 2, 192, 0, 2, ip}
		d.Ifaces = slices.Clone(lo.Ifaces)
		addr.Devices = append(addr.Devices, d)
	}
	for _, c := range []struct {
		from   string
		claims uint64
	}{{"192.0.2.7:1", 0}, {"192.0.2.8:1", 0}, {"192.0.2.9:1", 1}} {
		before := v.stats.Refused
		by := newLocated(c.from, false)
		v.admission.validateAddress(v.accounts.sourceOf(&by.Source), addr.Clone(), false)
		if n := v.stats.Refused - before; n != c.claims {
			t.Errorf("from %s: %d claims", c.from, n)
		}
	}
}

// TestConnectBack: a request makes the worker connect only to the address that it comes from,
// unless CHECK_SOURCE is n, and never to this machine for a peer on another machine.
func TestConnectBack(t *testing.T) {
	for _, check := range []string{"y", "n", "try"} {
		v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", check)
		addr := func() *proto.WorkerAddress {
			a := v.own.described.Clone()
			lo := a.Devices[slices.IndexFunc(a.Devices, func(d proto.AddressDevice) bool {
				return d.Ifaces[0].Transport == proto.TransportIDOf("tcp")
			})]
			for _, ip := range []byte{7, 8} { // 192.0.2.x in the form of tcp
				d := lo
				d.Addr = []byte{0, 2, 192, 0, 2, ip}
				d.Ifaces = slices.Clone(lo.Ifaces)
				a.Devices = append(a.Devices, d)
			}
			return a
		}
		for _, c := range []struct {
			from      string
			here      bool
			want, any string
		}{
			{"192.0.2.7:4000", false, "7", "7 8"},
			{"[::ffff:192.0.2.7]:4000", false, "7", "7 8"},
			{"192.0.2.9:4000", false, "", "7 8"},
			{loop, true, "self lo", "self lo 7 8"},
		} {
			a := addr()
			by := newLocated(c.from, c.here)
			v.admission.validateAddress(v.accounts.sourceOf(&by.Source), a, false)
			var got []string
			a.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
				switch {
				case f.Transport == proto.TransportIDOf("self"):
					got = append(got, "self")
				case d.Addr[0] != 0:
					got = append(got, "lo")
				default:
					got = append(got, string('0'+rune(d.Addr[5])))
				}
				return true
			})
			want := c.want
			if check == "n" {
				want = c.any
			}
			slices.Sort(got)
			wanted := strings.Fields(want)
			slices.Sort(wanted)
			if !slices.Equal(got, wanted) {
				t.Errorf("from %s, CHECK_SOURCE=%s: believed %v, want %v", c.from, check, got, wanted)
			}
		}
	}
}

// strangers returns a worker, a peer of the application, and an attacker that claims to be this
// peer. All have the same IP address, so that it does not tell them apart.
func strangers(t *testing.T) (v, peer, evil *targetWorker) {
	open := func() *targetWorker { return newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo") }
	v, peer, evil = open(), open(), open()
	evil.log.Allow("message dropped: it names an operation with another peer")
	return v, peer, evil
}

// until progresses workers until something has happened.
func until(t *testing.T, what string, done func() bool, workers ...*targetWorker) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
		for _, w := range workers {
			w.Progress()
		}
	}
}

const (
	peersID = proto.EndpointID(0x1001) // of the real peer's endpoint
	evilID  = proto.EndpointID(0x2001)
)

// TestStolenUUID: in any order of requests, the application's endpoint is connected with the peer
// whose address it gave. An attacker that claims the peer's uuid gets an endpoint of its own.
func TestStolenUUID(t *testing.T) {
	type step func(t *testing.T, v, peer, evil *targetWorker)
	var ep *Endpoint
	theft := func(t *testing.T, v, peer, evil *targetWorker) {
		if v.asks(newLocated(loop, true), peer.uuid, 0, evilID, &evil.own.described) == nil {
			t.Error("the stranger has no endpoint of his own")
		}
	}
	own := func(t *testing.T, v, peer, evil *targetWorker) {
		var err error
		if ep, err = v.NewEndpoint(EndpointParams{Address: peer.own.address}); err != nil {
			t.Fatal(err)
		}
	}
	comes := func(t *testing.T, v, peer, evil *targetWorker) {
		if v.asks(newLocated(loop, true), peer.uuid, 0, peersID, &peer.own.described) == nil {
			t.Error("the peer is not connected")
		}
	}
	for name, steps := range map[string][]step{
		"stranger, application, peer":            {theft, own, comes},
		"stranger, peer, application":            {theft, comes, own},
		"application, stranger, peer":            {own, theft, comes},
		"application, peer, stranger":            {own, comes, theft},
		"peer, stranger, application":            {comes, theft, own},
		"peer, application, stranger":            {comes, own, theft},
		"stranger twice, application, and again": {theft, theft, own, theft, comes, theft},
	} {
		t.Run(name, func(t *testing.T) {
			v, peer, evil := strangers(t)
			for _, s := range steps {
				s(t, v, peer, evil)
			}
			if ep.remoteID != peersID || ep.err != nil {
				t.Fatalf("the application's endpoint is with %#x (%v)", ep.remoteID, ep.err)
			}
			if s := v.toward(evilID); s == nil || s.peer == ep.peer || s.life.EverHeld() {
				t.Error("the stranger is not kept apart")
			}
			if n := ep.peer.TakeNumber(); n != 1 || !ep.w.peers.leadsTo(ep, &peer.own.described) {
				t.Errorf("the next endpoint would have number %d", n)
			}
			ep.peer.ReturnNumber(1)
			if !slices.Equal(identity.EntriesOf(ep.peer.Address()), identity.EntriesOf(&peer.own.described)) {
				t.Error("the stranger's address has taken the place of the peer's")
			}
			// The second pair of endpoints is connected correctly, too.
			two, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
			if err != nil {
				t.Fatal(err)
			}
			v.asks(newLocated(loop, true), peer.uuid, 1, evilID+2, &evil.own.described)
			v.asks(newLocated(loop, true), peer.uuid, 1, peersID+2, &peer.own.described)
			if two.remoteID != peersID+2 {
				t.Errorf("the second endpoint is with %#x", two.remoteID)
			}
			v.endpoints.Each(func(ep *Endpoint) {
				if ep != v.ep {
					ep.w.ends.destroy(ep, ucs.ErrCanceled)
				}
			})
			if !v.peers.HasNumbered(peer.uuid) || v.peers.Idle() != 1 || v.peers.Find(peer.uuid, ep.peer.Entries()) != nil {
				t.Errorf("%d peers are left, %d of them for their numbers", v.peers.Len(), v.peers.Idle())
			}
		})
	}
}

// TestStolenAddress: an attacker at another IP address cannot use the address of the peer.
func TestStolenAddress(t *testing.T) {
	v, peer, _ := strangers(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
	if err != nil {
		t.Fatal(err)
	}
	if s := v.asks(newLocated("192.0.2.1:4000", false), peer.uuid, 0, evilID, &peer.own.described); s != nil || ep.remoteID != 0 {
		t.Errorf("the endpoint is with %#x", ep.remoteID)
	}
	v.asks(newLocated(loop, true), peer.uuid, 0, peersID, &peer.own.described)
	if ep.remoteID != peersID {
		t.Error("the peer is not connected")
	}
}

// TestStolenReply: a reply of another worker, or over a connection that cannot be the peer's, is
// refused.
func TestStolenReply(t *testing.T) {
	v, peer, evil := strangers(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
	if err != nil {
		t.Fatal(err)
	}
	if err := ep.w.handshakes.request(ep); err != nil {
		t.Fatal(err)
	}
	by := newLocated(loop, true)
	v.asks(by, evil.uuid, 0, evilID, &evil.own.described)
	none := &proto.WorkerAddress{Flags: proto.AddressHasUUID}
	reply := func(by *located, kind proto.WireupType, uuid uint64, src proto.EndpointID) {
		t.Helper()
		if err := v.says(by, kind, uuid, 0, src, ep.localID, none); err != nil {
			t.Fatal(err)
		}
	}
	reply(newLocated(loop, true), proto.WireupReply, evil.uuid, evilID)
	reply(by, proto.WireupReply, peer.uuid, evilID)
	reply(by, proto.WireupEpRemoved, peer.uuid, 0)
	reply(newLocated(loop, true), proto.WireupEpRemoved, evil.uuid, 0)
	reply(newLocated("192.0.2.1:4000", false), proto.WireupEpRemoved, peer.uuid, 0)
	if ep.remoteID != 0 || ep.err != nil || v.stats.Refused != 5 {
		t.Fatalf("the endpoint is with %#x (%v), %d refused", ep.remoteID, ep.err, v.stats.Refused)
	}
	reply(newLocated(loop, true), proto.WireupReply, peer.uuid, peersID)
	if ep.remoteID != peersID {
		t.Error("the peer is not connected")
	}
	reply(newLocated(loop, true), proto.WireupEpRemoved, peer.uuid, 0)
	if ep.err == nil {
		t.Error("the peer's own word is not taken")
	}
}

// TestRequestBehindReply: both sides have sent a request, and the peer's reply arrives before its
// request, over another connection. The request then opens no second endpoint. A request of another
// endpoint opens one, and so does the first request again when the endpoint here is gone.
func TestRequestBehindReply(t *testing.T) {
	v, peer, _ := strangers(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
	if err != nil {
		t.Fatal(err)
	}
	if err := ep.w.handshakes.request(ep); err != nil {
		t.Fatal(err)
	}
	by := newLocated(loop, true)
	none := &proto.WorkerAddress{Flags: proto.AddressHasUUID}
	if err := v.says(by, proto.WireupReply, peer.uuid, 0, peersID, ep.localID, none); err != nil || ep.remoteID != peersID {
		t.Fatalf("not connected: %v", err)
	}
	request := func(sn uint16, src proto.EndpointID) (opened int, dropped, sent uint64) {
		t.Helper()
		n, was := v.endpoints.Len(), v.stats
		if err := v.says(newLocated(loop, true), proto.WireupRequest, peer.uuid, sn, src, 0, &peer.own.described); err != nil {
			t.Fatal(err)
		}
		return v.endpoints.Len() - n, uint64(v.stats.Dropped - was.Dropped), uint64(v.stats.WireupSent - was.WireupSent)
	}
	if opened, dropped, sent := request(0, peersID); opened != 0 || dropped != 1 || sent != 0 {
		t.Errorf("behind the reply: %d endpoints opened, %d requests dropped, %d answers", opened, dropped, sent)
	}
	if opened, _, sent := request(1, peersID+2); opened != 1 || sent != 1 {
		t.Errorf("another endpoint: %d opened, %d answers", opened, sent)
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
	if opened, _, sent := request(0, peersID); opened != 1 || sent != 1 {
		t.Errorf("without ours: %d opened, %d answers", opened, sent)
	}
}

// TestWiden: an endpoint that was opened with the verified part of an address gets the lanes of the
// whole address when the application gives it, unless an operation is in flight.
func TestWiden(t *testing.T) {
	for _, busy := range []bool{false, true} {
		v := newTarget(t, "TLS", "tcp,posix", "NET_DEVICES", "lo")
		peer := newTarget(t, "TLS", "tcp,posix", "NET_DEVICES", "lo")
		by := newLocated(loop, true)
		by.holder = 1 // not verified as the peer's process
		opened := v.asks(by, peer.uuid, 0, peersID, &peer.own.described)
		if got := laneNames(opened); got != "tcp" {
			t.Fatalf("lanes over %s", got)
		}
		until(t, "answer on its way", opened.idle, v, peer)
		was := opened.localID
		opened.state |= epNoRemoteWrite
		if busy {
			r := opened.control(wireupMessage{})
			opened.outstanding.Push(&r.node)
			defer r.node.Remove()
		}
		ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address, Name: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		if ep != opened || ep.localID != was || ep.remoteID != peersID {
			t.Error("the endpoint is another one")
		}
		if got, want := laneNames(ep) != "tcp", !busy; got != want {
			t.Errorf("busy %v: lanes over %s", busy, laneNames(ep))
		}
		if astray := ep.state&epNoRemoteWrite != 0; astray != busy {
			t.Errorf("busy %v: it is told where to write: %v", busy, !astray)
		}
		if !busy && len(ep.Explain().Searches) == 0 {
			t.Error("the lanes cannot be explained")
		}
		if busy {
			continue
		}
		src := make([]byte, 8)
		if _, err := ep.TagSend(5, src, nil); err != nil {
			t.Error(err)
		}
		until(t, "message over the new lanes", func() bool { return peer.tag.oldest() != nil }, v, peer)
		peer.tag.dropMessages()
	}
}

// TestMixedAddress: an attacker's request names the peer's address besides its own. The endpoint
// that it opens leads to the attacker, so the application does not get it.
func TestMixedAddress(t *testing.T) {
	v, peer, evil := strangers(t)
	port := func(w *targetWorker) uint16 {
		return binary.BigEndian.Uint16(w.own.described.Devices[0].Ifaces[0].Addr)
	}
	mixed := evil.own.described.Clone()
	mixed.Devices = append(mixed.Devices, peer.own.described.Clone().Devices...)
	s := v.asks(newLocated(loop, true), peer.uuid, 0, evilID, mixed)
	if s == nil || s.w.peers.leadsTo(s, &peer.own.described) {
		t.Fatal("the stranger's endpoint does not lead to him: the test tests nothing")
	}
	ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
	if err != nil {
		t.Fatal(err)
	}
	if ep == s || ep.remoteID != 0 || !ep.w.peers.leadsTo(ep, &peer.own.described) {
		t.Error("the application got the stranger's endpoint")
	}
	// If another user listens at the named address, as the kernel reports, naming it does not help.
	other := newLocated(loop, true)
	other.others = []uint16{port(peer)}
	v.asks(other, peer.uuid, 0, evilID+2, mixed)
	v.asks(other, peer.uuid, 0, evilID+4, &peer.own.described)
	if ep.remoteID != 0 || v.toward(evilID+4) != nil {
		t.Errorf("the endpoint is with %#x", ep.remoteID)
	}
	v.asks(newLocated(loop, true), peer.uuid, 0, peersID, &peer.own.described)
	if ep.remoteID != peersID {
		t.Error("the peer is not connected")
	}
}
