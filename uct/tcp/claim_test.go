//go:build linux

package tcp

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/uct"
)

// strangers are peers that claim the listener of another peer.
var strangers = []struct {
	name string
	dial func(t *testing.T, h *host) *rawPeer
}{
	{"another address", func(t *testing.T, h *host) *rawPeer { return dialFrom(t, h, addr("127.0.0.2:0"), -1) }},
	{"another user", func(t *testing.T, h *host) *rawPeer { return dialFrom(t, h, sockaddr{}, os.Getuid()+1) }},
}

// TestStrangerClaims: a peer that claims another peer's listener gets neither the endpoint to that
// peer nor the place of its connection, and closes nothing.
func TestStrangerClaims(t *testing.T) {
	for _, s := range strangers {
		for _, smaller := range []bool{false, true} {
			side := map[bool]string{false: "larger", true: "smaller"}[smaller]
			attack := func(t *testing.T, h *host, l *rawListener) *rawPeer {
				t.Helper()
				p := s.dial(t, h)
				p.send(flight(l.addr, 0))
				p.want(ack) // served, without an endpoint
				return p
			}
			// served expects all that h sends to arrive at the owner of the listener.
			served := func(t *testing.T, h *host, ep *endpoint, owner, stranger *rawPeer) {
				t.Helper()
				until(t, "connect", connected(ep), h)
				ep.AMShort(1, 7, []byte("hi"), 0, nil)
				owner.want(am(1, "\x07\x00\x00\x00\x00\x00\x00\x00hi"))
				n := len(h.got)
				owner.send(am(2, "owner"))
				stranger.send(am(3, "stranger"))
				until(t, "messages of both", func() bool { return len(h.got) == n+2 }, h)
				stranger.wantSilence()
				stranger.close()
				until(t, "the stranger to be gone", func() bool { return h.conns() == 1 }, h)
				if len(h.iface.match.aside) != 0 || len(h.errs) != 0 {
					t.Errorf("%d kept aside, failures %v", len(h.iface.match.aside), h.errs)
				}
			}
			name := s.name + ", the listener is " + side + ", "
			t.Run(name+"while we connect", func(t *testing.T) {
				h := newHost(t, "")
				l := listenRaw(t, h, smaller)
				ep := l.endpoint(h)
				own := l.accept(h)
				own.want(flight(h.iface.addr, 0))
				before := ledger.Refusals(ledger.Claim)
				p := attack(t, h, l)
				if ledger.Refusals(ledger.Claim) == before {
					t.Error("not counted")
				}
				own.send(ackReq)
				served(t, h, ep, own, p)
			})
			t.Run(name+"when we are connected", func(t *testing.T) {
				h := newHost(t, "")
				l := listenRaw(t, h, smaller)
				ep := l.endpoint(h)
				own := l.accept(h)
				own.want(flight(h.iface.addr, 0))
				own.send(ackReq)
				until(t, "connect", connected(ep), h)
				served(t, h, ep, own, attack(t, h, l))
			})
			t.Run(name+"before the owner", func(t *testing.T) {
				h := newHost(t, "")
				l := listenRaw(t, h, smaller)
				p := attack(t, h, l)
				own := dial(t, h)
				own.send(flight(l.addr, 0))
				own.want(ack)
				ep := l.endpoint(h)
				own.want(req(h.iface.addr, 0))
				own.send(ack)
				served(t, h, ep, own, p)
			})
			t.Run(name+"after the owner", func(t *testing.T) {
				h := newHost(t, "")
				l := listenRaw(t, h, smaller)
				own := dial(t, h)
				own.send(flight(l.addr, 0))
				own.want(ack)
				p := attack(t, h, l)
				ep := l.endpoint(h)
				own.want(req(h.iface.addr, 0))
				own.send(ack)
				served(t, h, ep, own, p)
			})
			t.Run(name+"before our endpoint", func(t *testing.T) {
				h := newHost(t, "")
				l := listenRaw(t, h, smaller)
				p := attack(t, h, l)
				ep := l.endpoint(h)
				own := l.accept(h)
				own.want(flight(h.iface.addr, 0))
				own.send(ackReq)
				served(t, h, ep, own, p)
			})
		}
	}
}

// TestOwnerConfirms: a peer that connects from another address than its listener's, as C UCX 1.13
// does with several addresses, closes this side's connection once its own is established. The
// endpoint then takes the peer's connection over.
func TestOwnerConfirms(t *testing.T) {
	for _, smaller := range []bool{false, true} {
		for _, first := range []string{"endpoint", "peer"} {
			h := newHost(t, "")
			l := listenRaw(t, h, smaller)
			dialed := func() *rawPeer {
				theirs := dialFrom(t, h, addr("127.0.0.2:0"), -1)
				theirs.send(flight(l.addr, 0))
				theirs.want(ack)
				return theirs
			}
			var theirs *rawPeer
			var ep *endpoint
			if first == "peer" {
				theirs = dialed()
			}
			ep = l.endpoint(h)
			own := l.accept(h)
			own.want(flight(h.iface.addr, 0))
			if first == "endpoint" {
				theirs = dialed()
			}
			theirs.send(am(1, "early"))
			own.close()
			theirs.want(req(h.iface.addr, 0))
			theirs.send(ack)
			until(t, "connect", connected(ep), h)
			ep.AMShort(1, 7, []byte("hi"), 0, nil)
			theirs.want(am(1, "\x07\x00\x00\x00\x00\x00\x00\x00hi"))
			theirs.send(am(2, "late"))
			until(t, "messages", func() bool { return len(h.got) == 2 }, h)
			exact(t, h, 1)
			if len(h.iface.match.aside) != 0 || len(h.errs) != 0 {
				t.Errorf("%d kept aside, failures %v", len(h.iface.match.aside), h.errs)
			}
		}
	}
}

// TestNobodyConfirmed: a reset of this side's connection confirms none of the connections kept
// aside. Nor does an orderly end if several, or one of another user, could be meant. The endpoint
// then reconnects, with a number that no other connection has claimed.
func TestNobodyConfirmed(t *testing.T) {
	for _, how := range []string{"reset", "another user", "two"} {
		t.Run(how, func(t *testing.T) {
			h := newHost(t, "")
			l := listenRaw(t, h, false)
			ep := l.endpoint(h)
			uid := -1
			if how == "another user" {
				uid = os.Getuid() + 1
			}
			var aside []*rawPeer
			for i := range 2 {
				if i == 0 || how == "two" {
					p := dialFrom(t, h, addr("127.0.0.2:0"), uid)
					p.send(flight(l.addr, 0))
					p.want(ack)
					aside = append(aside, p)
				}
			}
			own := l.accept(h)
			own.want(flight(h.iface.addr, 0))
			if how == "reset" {
				own.reset()
			}
			own.close()
			own = l.accept(h)
			sn := uint64(0)
			if how == "two" {
				sn = 1
			}
			own.want(flight(h.iface.addr, sn))
			own.send(ack)
			until(t, "connect", connected(ep), h)
			for _, p := range aside {
				p.wantSilence()
			}
		})
	}
}

// TestRefusedIsReset: a peer that is refused before its request is read gets a reset, so that it
// does not take the refusal for a confirmation of another connection.
func TestRefusedIsReset(t *testing.T) {
	a, b := newHost(t, "", "MAX_CONN_RETRIES=3"), newHost(t, "")
	b.iface.accept = func(uct.SourceInfo) bool { return false }
	ep := a.connect(b)
	p := dialFrom(t, a, addr("127.0.0.2:0"), -1)
	p.send(flight(b.iface.addr, 0))
	p.want(ack)
	until(t, "failure", func() bool { return len(a.errs) == 1 }, a, b)
	p.wantSilence()
	if ep.err == nil || !errors.Is(ep.err, unix.ECONNRESET) {
		t.Errorf("failed with %v", ep.err)
	}
}

// TestCrossedClaim: a peer that connects at the same time as this side closes its own connection on
// receiving this side's. Its request, read after that, must not count as a false claim.
func TestCrossedClaim(t *testing.T) {
	for _, smaller := range []bool{false, true} {
		h := newHost(t, "")
		l := listenRaw(t, h, smaller)
		p := dial(t, h)
		p.send(flight(l.addr, 0)[:magicLen])
		until(t, "accept", func() bool { return h.conns() == 1 }, h)
		ep := l.endpoint(h)
		own := l.accept(h)
		before := ledger.Refusals(ledger.Claim)
		unix.Write(p.fd, req(l.addr, 0)) // the host makes no progress
		p.close()
		own.want(flight(h.iface.addr, 0))
		own.send(ackReq)
		until(t, "connect", connected(ep), h)
		exact(t, h, 1)
		if n := ledger.Refusals(ledger.Claim) - before; n != 0 || len(h.iface.match.aside) != 0 {
			t.Errorf("%d refusals, %d kept aside", n, len(h.iface.match.aside))
		}
	}
}

// TestLockOut: an attacker keeps connections aside by claiming the listener of a peer that connects
// from another of its addresses. The endpoint to that peer must still connect.
func TestLockOut(t *testing.T) {
	for _, strangers := range []int{0, 1, 3} {
		h := newHost(t, "")
		l := listenRaw(t, h, false)
		claim := func(from string, sn uint64) *rawPeer {
			p := dialAs(t, h, from)
			p.send(flight(l.addr, sn))
			p.want(ack)
			return p
		}
		ep := l.endpoint(h)
		first := l.accept(h)
		first.want(flight(h.iface.addr, 0))
		var others []*rawPeer
		for k := range strangers {
			others = append(others, claim("192.0.2.66", 0), claim("192.0.2.66", uint64(k+1)))
		}
		peer := claim("192.0.2.1", 0) // the peer's endpoint has this connection
		first.close()
		second := l.accept(h)
		second.want(flight(h.iface.addr, 1))
		second.send(ack)
		until(t, "connect", connected(ep), h)
		ep.AMShort(1, 7, []byte("hi"), 0, nil)
		second.want(am(1, "\x07\x00\x00\x00\x00\x00\x00\x00hi"))
		peer.send(am(2, "from the peer"))
		until(t, "message", func() bool { return len(h.got) == 1 }, h)
		for _, p := range others {
			p.wantSilence()
		}
		// The peer's endpoint with number 1 uses this connection.
		second.send(req(l.addr, 1))
		second.want(ack)
	}
}

// TestAroundReturning: an endpoint that takes another number also skips the numbers of endpoints
// that only reply.
func TestAroundReturning(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	answered, params := asksFrom(t, h, l, 1)
	if _, err := h.iface.NewEndpoint(params); err != nil {
		t.Fatal(err)
	}
	answered.want(req(h.iface.addr, 1))
	answered.send(ack)
	ep := l.endpoint(h) // number 0
	for range 2 {       // the owner could mean either of them
		p := dialFrom(t, h, addr("127.0.0.2:0"), -1)
		p.send(flight(l.addr, 0))
		p.want(ack)
	}
	own := l.accept(h)
	own.want(flight(h.iface.addr, 0))
	own.close()
	own = l.accept(h)
	own.want(flight(h.iface.addr, 2))
	own.send(ack)
	until(t, "connect", connected(ep), h)
}
