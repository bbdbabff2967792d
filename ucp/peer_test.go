package ucp

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// TestContestedNumber: two who say that they are the peer's end of one pair are both
// answered, and the application gets neither.
func TestContestedNumber(t *testing.T) {
	for _, alone := range []bool{true, false} {
		v, peer, _ := strangers(t)
		a := v.asks(newLocated(loop, true), peer.uuid, 0, evilID, &peer.own.described)
		sent := v.stats.WireupSent
		if !alone {
			b := v.asks(newLocated(loop, true), peer.uuid, 0, peersID, &peer.own.described)
			if a == nil || b == nil || a == b || v.stats.WireupSent != sent+1 {
				t.Fatalf("both are not answered: %p, %p", a, b)
			}
			sent++
		}
		v.asks(newLocated(loop, true), peer.uuid, 0, evilID, &peer.own.described)
		if v.stats.WireupSent != sent {
			t.Error("the same is answered twice")
		}
		if !alone {
			a.w.ends.destroy(a, ucs.ErrCanceled) // and once more, when the number is free again
			a = v.asks(newLocated(loop, true), peer.uuid, 0, evilID+2, &peer.own.described)
		}
		ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
		if err != nil {
			t.Fatal(err)
		}
		if adopted := ep == a; adopted != alone || alone == (ep.remoteID == 0) {
			t.Errorf("alone %v: the endpoint is with %#x", alone, ep.remoteID)
		}
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
	}
}

// TestStrangersOfOneName: those who go by one uuid are not looked for among more than a
// few, and nothing is left of them.
func TestStrangersOfOneName(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo")
	const n = 5 * maxUntrustedPeers
	var all []*peer
	for k := range n {
		a := v.far(0xABC, 7)
		binary.BigEndian.PutUint16(a.Devices[0].Ifaces[0].Addr, uint16(1+k))
		p := v.Worker.peers.newUntrustedPeer(a)
		all = append(all, p)
		v.peers.setPeer(new(Endpoint), p)
		if found := v.peers.findPeer(0xABC, entriesOf(a)); (found == p) != (k < maxUntrustedPeers) {
			t.Fatalf("stranger %d: found %v", k, found == p)
		}
	}
	k := v.peers.byUUID[0xABC]
	if len(k.peers) != maxUntrustedPeers {
		t.Errorf("%d are looked at", len(k.peers))
	}
	mine := v.peers.peerOf(v.far(0xABC, 8))
	mine.given = true
	if v.peers.findPeer(0xABC, mine.entries) != mine {
		t.Error("the application's peer is not found")
	}
	v.peers.releasePeer(mine)
	for _, p := range all {
		if v.peers.byUUID[0xABC] != k {
			t.Fatal("forgotten while there is a way to one of them")
		}
		v.peers.endpointClosed(p, p.endpoints[0])
	}
	if len(v.peers.byUUID) != 0 {
		t.Errorf("%d names are left", len(v.peers.byUUID))
	}
}

// TestJoin: a peer that turns out to be another one brings its endpoints, and no others
// are looked at, for there may be many.
func TestJoin(t *testing.T) {
	v := newTarget(t)
	var p [2]*peer
	var eps []*Endpoint
	for k := range p {
		p[k] = v.peers.newPeer(0xABC)
		for sn := range uint16(3) {
			ep, err := v.wireups.newEndpoint(&v.own.described, ErrModeNone, 0)
			if err != nil {
				t.Fatal(err)
			}
			ep.w.peers.setPeer(ep, p[k])
			ep.connSN = 2*sn + uint16(k)
			p[k].addUnmatched(ep)
			eps = append(eps, ep)
		}
	}
	unlisted := &Endpoint{w: v.Worker, peer: p[0]}
	id := v.endpoints.Put(unlisted)
	v.peers.mergePeers(p[0], p[1])
	v.endpoints.Remove(id)
	if unlisted.peer != p[0] {
		t.Error("all endpoints were looked at")
	}
	if len(p[1].endpoints) != 6 || len(p[1].unmatched) != 6 || p[0].canonical() != p[1] || len(p[1].identity.peers) != 1 {
		t.Errorf("%d endpoints of %d", len(p[1].unmatched), len(p[1].endpoints))
	}
	eps[4].state |= epRequested
	if !eps[0].w.replies.awaits(eps[0]) {
		t.Error("what another endpoint waits for does not count")
	}
	eps[4].state &^= epRequested
	if eps[0].w.replies.awaits(eps[0]) {
		t.Error("nothing is waited for")
	}
	for _, k := range []int{2, 0, 5, 1, 4, 3} {
		eps[k].w.ends.destroy(eps[k], ucs.ErrCanceled)
	}
	if len(v.peers.byUUID) != 0 {
		t.Errorf("%d names are left", len(v.peers.byUUID))
	}
}

// certified is a connection from a place whose peer has a certificate.
func certified(names, key string, verified bool) *located {
	l := newLocated(loop, true)
	c := &x509.Certificate{RawSubject: []byte{0x30, 0}, RawSubjectPublicKeyInfo: []byte(key)}
	if names != "" {
		c.Extensions = []pkix.Extension{{Id: extensionSAN, Value: []byte(names)}}
	}
	l.tls = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
	if verified {
		l.tls.VerifiedChains = [][]*x509.Certificate{{c}}
	}
	return l
}

// TestCertificates: who was heard with a certificate is not somebody at the same place
// with another, or without.
func TestCertificates(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second *located
		same          bool
	}{
		{"the same names, renewed", certified("a", "1", true), certified("a", "2", true), true},
		{"other names", certified("a", "1", true), certified("b", "1", true), false},
		{"names that nobody has verified", certified("a", "1", false), certified("a", "2", false), false},
		{"the same key", certified("", "1", false), certified("", "1", false), true},
		{"no names", certified("", "1", true), certified("", "2", true), false},
		{"no certificate", certified("a", "1", true), newLocated(loop, true), false},
		{"an empty state", certified("a", "1", true), &located{conn: conn{}, tls: new(tls.ConnectionState)}, false},
		{"later with one", newLocated(loop, true), certified("a", "1", true), true},
		{"memory of ours", certified("a", "1", true), nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, peer, _ := strangers(t)
			ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
			if err != nil {
				t.Fatal(err)
			}
			if c.second != nil && c.second.Owner == nil {
				c.second.from, c.second.Owner = c.first.from, c.second
			}
			v.asks(c.first, peer.uuid, 0, peersID, &peer.own.described)
			two, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
			if err != nil {
				t.Fatal(err)
			}
			claims := v.stats.Refused
			v.asks(c.second, peer.uuid, 1, evilID, &peer.own.described)
			if n := v.stats.Refused - claims; n > 1 || n == 1 && c.same || n == 0 && !c.same {
				t.Errorf("%d claims are counted", n)
			}
			if same := two.remoteID == evilID; ep.remoteID != peersID || same != c.same {
				t.Errorf("the endpoints are with %#x and %#x", ep.remoteID, two.remoteID)
			}
			s := v.toward(evilID)
			if !c.same && (s == nil || s.peer == ep.peer || s.life.Mine()) {
				t.Error("the other one is not kept apart")
			}
			if c.same {
				return
			}
			v.asks(c.first, peer.uuid, 1, peersID+2, &peer.own.described)
			if two.remoteID != peersID+2 {
				t.Errorf("the peer is not connected: %#x", two.remoteID)
			}
			_ = v.says(c.second, proto.WireupEpRemoved, peer.uuid, 0, 0, ep.localID, &proto.WorkerAddress{Flags: proto.AddressHasUUID})
			if ep.err != nil {
				t.Error("the other one has ended the peer's endpoint")
			}
		})
	}
}
