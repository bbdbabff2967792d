package ucp

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// tcpFrame returns a frame of the tcp transport.
func tcpFrame(id byte, body []byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{id}, uint32(len(body))), body...)
}

func tcpEvent(event uint32) []byte { return tcpFrame(32, binary.LittleEndian.AppendUint32(nil, event)) }

// tcpRequest returns a connection request whose sender claims to listen at a port of 127.0.0.1.
func tcpRequest(port uint16, sn uint64) []byte {
	b := append(binary.LittleEndian.AppendUint32(nil, 1), 0)
	b = binary.LittleEndian.AppendUint64(b, sn)
	b = append(b, 2, 0)
	b = append(binary.BigEndian.AppendUint16(b, port), 127, 0, 0, 1)
	return tcpFrame(32, append(b, make([]byte, 8)...))
}

// claimant connects to the worker and sends a request whose address it does not have: nobody listens at its port.
func claimant(t *testing.T, v *targetWorker) (c net.Conn, addr *proto.WorkerAddress) {
	t.Helper()
	own := v.own.described.Devices[0].Ifaces[0].Addr
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil { // so that no process of this user listens there
		t.Fatal(err)
	}
	c, err = net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), binary.BigEndian.Uint16(own)).String())
	if err != nil {
		t.Fatal(err)
	}
	addr = v.own.described.Clone()
	addr.UUID = 0xABC
	addr.Devices[0].Ifaces[0].Addr = binary.BigEndian.AppendUint16(nil, port)
	m := proto.Wireup{Type: proto.WireupRequest, ConnSN: 0, SrcEp: peersID, Address: *addr}
	asks, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	first := binary.LittleEndian.AppendUint64(nil, 0xCAFEBABE12345678)
	first = append(append(first, tcpRequest(port, 0)...), tcpFrame(byte(proto.IDWireup), asks)...)
	if _, err := c.Write(first); err != nil {
		t.Fatal(err)
	}
	return c, addr
}

// TestWayBackNotice: the connection of a request from an address that its sender does not have ends before the
// reply is sent. The worker does not notify whoever has the address.
func TestWayBackNotice(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "CHECK_SOURCE", "try")
	c, _ := claimant(t, v)
	defer c.Close()
	until(t, "the request", func() bool { return v.toward(peersID) != nil }, v)
	if !v.toward(peersID).dest.reversePath {
		t.Fatal("the endpoint leads to where the stranger says")
	}
	if err := c.Close(); err != nil { // the transport has not been told that it may send, so the reply waits
		t.Fatal(err)
	}
	until(t, "the end", func() bool { return v.toward(peersID) == nil }, v)
	if v.wireups.notices != 0 {
		t.Error("a notice is on its way")
	}
}

// TestWayBack: a request names an address that its sender does not have. The worker answers over
// the connection of the request and connects to nothing. The application does not get the sender's
// endpoint, and the sender gets no access to memory that is opened to the owner of the address.
func TestWayBack(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "CHECK_SOURCE", "try")
	own := v.own.described.Devices[0].Ifaces[0].Addr
	c, addr := claimant(t, v)
	defer c.Close()
	read := func(want []byte) {
		t.Helper()
		got, b := []byte(nil), make([]byte, 1)
		until(t, "answer", func() bool {
			for len(got) < len(want) {
				if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				if n, _ := c.Read(b); n == 0 {
					return false
				}
				got = append(got, b[0])
			}
			return true
		}, v)
		if !slices.Equal(got, want) {
			t.Fatalf("got % x, want % x", got, want)
		}
	}
	ack := tcpEvent(2)
	read(append(slices.Clone(ack), tcpRequest(binary.BigEndian.Uint16(own), 0)...))
	if _, err := c.Write(ack); err != nil {
		t.Fatal(err)
	}
	ep := v.toward(peersID)
	reply := proto.Wireup{Type: proto.WireupReply, ConnSN: 0, SrcEp: ep.localID, DstEp: peersID, Address: v.own.emptyAddress()}
	said, err := reply.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	read(tcpFrame(byte(proto.IDWireup), said))
	if !ep.dest.reversePath || ep.w.peers.leadsTo(ep, addr) {
		t.Error("the endpoint leads to where the stranger says")
	}
	if _, err := v.rights.guards.put[0].register(make([]byte, 8), uct.AccessRemotePut, ep); err == nil {
		t.Error("memory is opened to who is there")
	}

	packed, err := addr.Append(nil, proto.FormWorker)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := v.NewEndpoint(EndpointParams{Address: packed})
	if err != nil {
		t.Fatal(err)
	}
	if mine == ep || mine.remoteID != 0 || mine.peer == ep.peer {
		t.Error("the application got the stranger's endpoint")
	}
	mine.w.ends.destroy(mine, ucs.ErrCanceled)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "end", func() bool { return v.toward(peersID) == nil }, v)
	if v.wireups.unexpected != 0 {
		t.Errorf("%d endpoints are left", v.wireups.unexpected)
	}
}

// TestNoWayBack checks that a request that cannot be answered is refused at once, and that an endpoint
// check ends the connection too. The check is not counted, because most such peers have just ended.
func TestNoWayBack(t *testing.T) {
	v := newTarget(t, "TLS", "self")
	peer := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo")
	by := newLocated("192.0.2.66:4000", false)
	claims := ledger.Refusals(ledger.Claim)
	err := v.says(by, proto.WireupRequest, 0xABC, 0, evilID, 0, &peer.own.described)
	if !errors.Is(err, ucs.ErrUnreachable) || ledger.Refusals(ledger.Claim) != claims+1 || v.peers.Len() != 0 {
		t.Errorf("%v, %d claims, %d peers", err, ledger.Refusals(ledger.Claim)-claims, v.peers.Len())
	}
	err = v.says(by, proto.WireupEpCheck, 0xABC, 0, evilID, 0x7777, &peer.own.described)
	if !errors.Is(err, ucs.ErrUnreachable) || ledger.Refusals(ledger.Claim) != claims+1 || v.peers.Len() != 0 {
		t.Errorf("asks for an end: %v, %d claims, %d peers", err, ledger.Refusals(ledger.Claim)-claims, v.peers.Len())
	}
	for kind, dst := range map[proto.WireupType]proto.EndpointID{proto.WireupRequest: 0, proto.WireupEpCheck: 0x7777} {
		if err := v.says(nil, kind, 0xABC, 0, evilID, dst, &peer.own.described); err != nil {
			t.Errorf("%v through memory of ours: %v", kind, err)
		}
	}
}

// far returns an address with one device for each of the IP addresses that end in these numbers.
func (v *targetWorker) far(uuid uint64, ends ...byte) *proto.WorkerAddress {
	a := v.part("tcp")
	a.UUID = uuid
	lo := a.Devices[0]
	a.Devices = nil
	for _, ip := range ends {
		d := lo
		d.Addr = []byte{0, 2, 192, 0, 2, ip}
		d.Ifaces = slices.Clone(lo.Ifaces)
		a.Devices = append(a.Devices, d)
	}
	return a
}

// TestTrustedDevices checks that only a peer that the application knows at several addresses may
// send a request from one of them that names another.
func TestTrustedDevices(t *testing.T) {
	for _, check := range []string{"y", "try"} {
		v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", check)
		p := v.peers.Given(v.far(0xABC, 7, 8))
		p.Given = true
		stranger := v.peers.NewUntrusted(v.far(0xABC, 9, 5))
		for _, c := range []struct {
			from  string
			uuid  uint64
			names byte
			want  bool
		}{
			{"192.0.2.8:4000", 0xABC, 7, true},
			{"192.0.2.7:4000", 0xABC, 8, true},
			{"192.0.2.7:4000", 0xABC, 6, false},
			{"192.0.2.6:4000", 0xABC, 7, false},
			{"192.0.2.8:4000", 0xDEF, 7, false},
			{"192.0.2.9:4000", 0xABC, 5, false}, // known only by its own claim
		} {
			a := v.far(c.uuid, c.names)
			by := newLocated(c.from, false)
			said := v.admission.validateAddress(v.accounts.sourceOf(&by.Source), a, false)
			if got := a.NumIfaces() == 1; got != c.want || (said == nil) != c.want {
				t.Errorf("CHECK_SOURCE=%s, from %s, names %d: believed %v", check, c.from, c.names, got)
			}
			if said != nil && said.NumIfaces() != 1 {
				t.Errorf("what was said is lost: %+v", said)
			}
		}
		lo := v.part("tcp")
		by := newLocated("192.0.2.9:4000", false)
		if said := v.admission.validateAddress(v.accounts.sourceOf(&by.Source), lo, false); lo.NumIfaces() != 0 || said == nil || said.NumIfaces() != 0 {
			t.Errorf("CHECK_SOURCE=%s: our own listener, for somebody elsewhere: %+v", check, said)
		}
		p.Given = false
		v.peers.Release(p)
		v.peers.Release(stranger)
	}
}

// TestCheckSourceDefault checks that UCX_CHECK_SOURCE is try by default, the safe value.
func TestCheckSourceDefault(t *testing.T) {
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := NewContext(ContextParams{Features: FeatureTag}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	if c := ctx.settings.CheckSource; c != config.Try {
		t.Errorf("UCX_CHECK_SOURCE is %v", c)
	}
}

// TestSaidDevices: a peer that names two devices gets its answers at the one that its request comes
// from, and may access memory that is opened to it from both.
func TestSaidDevices(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "CHECK_SOURCE", "try")
	peer := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo")
	a := peer.own.described.Clone()
	a.Devices = append(a.Devices, v.far(peer.uuid, 7).Devices...)
	ep := v.asks(newLocated(loop, true), peer.uuid, 0, peersID, a)
	if ep == nil || !slices.Equal(identity.EntriesOf(ep.dest.address), identity.EntriesOf(&peer.own.described)) {
		t.Fatalf("the endpoint is %+v", ep)
	}
	if ep.dest.reversePath || !reflect.DeepEqual(ep.dest.scopes, v.rights.scopesOf(a)) || reflect.DeepEqual(ep.dest.scopes, v.rights.scopesOf(&peer.own.described)) {
		t.Error("memory is not open to the other device")
	}
	if !slices.Equal(ep.peer.Entries(), identity.EntriesOf(&peer.own.described)) {
		t.Error("the other device is believed")
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
}

// waits returns an endpoint of the application that waits for the peer of an address. Nothing
// reaches that address: the endpoint's messages go to the worker itself.
func (v *targetWorker) waits(a *proto.WorkerAddress) *Endpoint {
	v.Helper()
	p := v.peers.Given(a)
	p.Given = true
	ep, err := v.wireups.newEndpoint(&v.own.described, ErrModeNone, 0)
	if err != nil {
		v.Fatal(err)
	}
	ep.connSN = p.TakeNumber()
	ep.w.peers.Add((*peerEnd)(ep), p)
	ep.report(life.Claim, nil)
	v.accounts.unbound++
	p.AddUnmatched((*peerEnd)(ep))
	return ep
}

// TestMigratedPeer: an endpoint that waits for a peer of an old release accepts a request from one
// address that is not in the peer's worker address. Endpoints to newer peers do not.
func TestMigratedPeer(t *testing.T) {
	if connectsFromListed(&proto.WorkerAddress{Version: proto.AddressV2, Release: 16}) {
		t.Error("C UCX 1.13 with addresses of the second version is taken for 1.22")
	}
	for _, c := range []struct {
		name   string
		check  string
		change func(a *proto.WorkerAddress)
		want   bool
	}{
		{"C UCX 1.13", "try", func(a *proto.WorkerAddress) { a.Devices[0].MDCaps = 0x20 }, true},
		{"C UCX 1.17", "try", func(a *proto.WorkerAddress) { a.Release = 17 }, true},
		{"C UCX 1.22", "try", func(a *proto.WorkerAddress) { a.Release = 22 }, false},
		{"this library", "try", func(*proto.WorkerAddress) {}, false},
		{"C UCX 1.13, checked", "y", func(a *proto.WorkerAddress) { a.Devices[0].MDCaps = 0x20 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", c.check)
			a := v.far(0xABC, 7)
			c.change(a)
			eps := [...]*Endpoint{v.waits(a), v.waits(a)}
			p := eps[0].peer
			roams, thief := newLocated("192.0.2.1:4000", false), newLocated("192.0.2.2:4000", false)
			v.asks(newLocated("192.0.2.1:4000", false), 0xDEF, 0, evilID, a)
			v.asks(roams, 0xABC, 0, peersID, a)
			v.asks(thief, 0xABC, 1, evilID, a)
			if got := eps[0].remoteID == peersID; got != c.want {
				t.Errorf("the peer is connected: %v", got)
			}
			v.asks(roams, 0xABC, 1, peersID+2, a)
			if got := eps[1].remoteID == peersID+2; got != c.want {
				t.Errorf("the peer is connected again: %v", got)
			}
			if v.accounts.sourceOf(&roams.Source).owner.Is(p) || p.LastSource != nil {
				t.Error("the connection is the peer's without proof")
			}
			v.asks(roams, 0xABC, 2, peersID+4, a)
			if v.toward(peersID+4) != nil {
				t.Error("an endpoint that the application has not asked for")
			}
			for _, ep := range eps {
				ep.w.ends.destroy(ep, ucs.ErrCanceled)
			}
		})
	}
}

// TestPairwiseElsewhere: pairwise lanes may lead to addresses that a request does not come from,
// but not to this machine if the request comes from another one.
func TestPairwiseElsewhere(t *testing.T) {
	for _, pairwise := range []bool{false, true} {
		v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "CHECK_SOURCE", "try")
		attr := *v.ifaces[0].attr
		if pairwise {
			attr.Flags &^= uct.IfaceConnectToIface
		}
		v.ifaces[0].attr = &attr
		by := newLocated("192.0.2.9:4000", false)
		a := v.far(0xABC, 9, 5)
		said := v.admission.validateAddress(v.accounts.sourceOf(&by.Source), a, false)
		if n := a.NumIfaces(); n != map[bool]int{false: 1, true: 2}[pairwise] || (said == nil) != pairwise {
			t.Errorf("pairwise %v: %d entries are believed, %+v is not", pairwise, n, said)
		}
		lo := v.part("tcp")
		if said := v.admission.validateAddress(v.accounts.sourceOf(&by.Source), lo, false); lo.NumIfaces() != 0 || said == nil {
			t.Errorf("pairwise %v: our own listener, for somebody elsewhere: %+v", pairwise, said)
		}
	}
}
