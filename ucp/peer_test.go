package ucp

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucs"
)

// TestContestedNumber checks that two requests that claim the same endpoint of one peer are both
// answered, and that the application's endpoint is connected with neither.
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
			a.w.ends.destroy(a, ucs.ErrCanceled) // and again, with the number free
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

// TestPeersMerged checks that the endpoints of a peer that turns out to be another known peer are
// moved to that peer.
func TestPeersMerged(t *testing.T) {
	v := newTarget(t)
	var p [2]*peer
	var eps []*Endpoint
	for k := range p {
		p[k] = v.peers.NewUntrusted(&proto.WorkerAddress{Flags: proto.AddressHasUUID, UUID: 0xABC})
		ep, err := v.wireups.newEndpoint(&v.own.described, ErrModeNone, 0)
		if err != nil {
			t.Fatal(err)
		}
		v.peers.Add((*peerEnd)(ep), p[k])
		eps = append(eps, ep)
	}
	v.peers.Merge(p[0], p[1])
	if eps[0].peer != p[1] {
		t.Error("an endpoint has a peer that was merged into another one")
	}
	eps[1].handshake.Stage = connect.Requested
	if !v.replies.awaits(eps[0]) {
		t.Error("what another endpoint waits for does not count")
	}
	eps[1].handshake.Stage = connect.Open
	if v.replies.awaits(eps[0]) {
		t.Error("nothing is waited for")
	}
	for _, ep := range eps {
		v.Worker.ends.destroy(ep, ucs.ErrCanceled)
	}
	if v.peers.Len() != 0 {
		t.Errorf("%d peers are left", v.peers.Len())
	}
}

// certified returns a connection whose peer has a certificate with these names and this key.
func certified(names, key string, verified bool) *located {
	l := newLocated(loop, true)
	c := &x509.Certificate{RawSubject: []byte{0x30, 0}, RawSubjectPublicKeyInfo: []byte(key)}
	if names != "" {
		c.Extensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: []byte(names)}}
	}
	l.tls = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
	if verified {
		l.tls.VerifiedChains = [][]*x509.Certificate{{c}}
	}
	return l
}

// TestCertificates: a peer whose first connection had a certificate is not the same as a peer at
// the same address with another certificate, or with none.
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
			if !c.same && (s == nil || s.peer == ep.peer || s.life.EverHeld()) {
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

// TestPeerForgotten: a peer whose endpoint has ended requests another one on the same connection,
// and its messages count as those of the new endpoint's peer.
func TestPeerForgotten(t *testing.T) {
	v, peer, _ := strangers(t)
	l := newLocated(loop, true)
	for k := range 3 {
		id := evilID + proto.EndpointID(2*k)
		ep := v.asks(l, peer.uuid, 0, id, &peer.own.described)
		if ep == nil || !v.accounts.sourceOf(&l.Source).owner.Is(ep.peer) {
			t.Fatalf("request %d: the connection does not belong to the peer of %p", k, ep)
		}
		if v.admission.spoofed(&l.Source, ep) {
			t.Fatalf("request %d: messages of the peer do not count as its own", k)
		}
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
		if v.peers.Len() != 0 {
			t.Fatal("the peer is remembered: the test tests nothing")
		}
	}
}
