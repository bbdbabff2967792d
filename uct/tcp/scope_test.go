//go:build linux

package tcp

import (
	"errors"
	"os"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// exposeTo registers memory of a host for the peer with one listener.
func (h *host) exposeTo(buf []byte, l *rawListener) (at uint64) {
	h.t.Helper()
	m := h.md.(uct.ScopedMemory)
	s := m.Scope([]uct.ReachableParams{{DeviceAddr: []byte{1, 2, 3}}, {
		DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: []byte{byte(l.addr.port >> 8), byte(l.addr.port)}}})
	mem, err := m.RegisterFor(buf, uct.AccessRemotePut, s)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := h.md.Deregister(mem); err != nil {
			h.t.Error(err)
		}
	})
	return addressOf(buf)
}

// TestScopeRefuses: memory that is exposed to one peer cannot be written by another peer, whose
// connection is closed for the attempt.
func TestScopeRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		dial    func(h *host) *rawPeer
		claimed func(l *rawListener) sockaddr
	}{
		{"another peer", func(h *host) *rawPeer { return dial(h.t, h) },
			func(*rawListener) sockaddr { return addr("127.0.0.1:5") }},
		{"another address that claims to be the peer", func(h *host) *rawPeer { return dialFrom(h.t, h, addr("127.0.0.2:0"), -1) },
			func(l *rawListener) sockaddr { return l.addr }},
		{"another user who claims to be the peer", func(h *host) *rawPeer { return dialFrom(h.t, h, sockaddr{}, os.Getuid()+1) },
			func(l *rawListener) sockaddr { return l.addr }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, "")
			l := listenRaw(t, h, true)
			buf := []byte("untouched")
			at := h.exposeTo(buf, l)
			p := c.dial(h)
			p.send(flight(c.claimed(l), 0))
			p.want(ack)
			p.send(putReq(at, 4, 0), []byte("evil"))
			p.wantClosed()
			if string(buf) != "untouched" {
				t.Errorf("memory holds %q", buf)
			}
		})
	}
}

// TestScopeAdmits: the peer itself can write, over any of its connections.
func TestScopeAdmits(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, true)
	buf := make([]byte, 8)
	at := h.exposeTo(buf, l)
	puts := func(t *testing.T, p *rawPeer, data string) {
		t.Helper()
		p.send(putReq(at, uint64(len(data)), 0), []byte(data))
		p.want(appendPutAck(nil, 0))
		if string(buf[:len(data)]) != data {
			t.Errorf("memory holds %q, want %q", buf, data)
		}
	}
	t.Run("of its own", func(t *testing.T) {
		p := dial(t, h)
		p.send(flight(l.addr, 0))
		p.want(ack)
		puts(t, p, "own")
		p.send(fin)
		p.wantClosed()
	})
	t.Run("of ours", func(t *testing.T) {
		ep := l.endpoint(h)
		defer ep.Close()
		p := l.accept(h)
		p.want(flight(h.iface.addr, 0))
		p.send(ackReq)
		puts(t, p, "ours")
	})
	t.Run("confirmed", func(t *testing.T) {
		ep := l.endpoint(h)
		defer ep.Close()
		own := l.accept(h)
		own.want(flight(h.iface.addr, 1))
		p := dialFrom(t, h, addr("127.0.0.2:0"), -1)
		p.send(flight(l.addr, 1))
		p.want(ack)
		own.close()
		p.want(req(h.iface.addr, 1))
		p.send(ack)
		puts(t, p, "taken")
	})
}

// TestScopeExcludes checks that Excludes tells in advance whether a peer's puts would be refused.
func TestScopeExcludes(t *testing.T) {
	claim := func(from, listener sockaddr) func(h *host, l *rawListener) *rawPeer {
		return func(h *host, l *rawListener) *rawPeer {
			p := dialFrom(h.t, h, from, -1)
			if listener == (sockaddr{}) {
				listener = l.addr
			}
			p.send(flight(listener, 0))
			p.want(ack)
			return p
		}
	}
	for _, c := range []struct {
		name string
		by   func(h *host, l *rawListener) *rawPeer
		want bool
	}{
		{"the peer", claim(sockaddr{}, sockaddr{}), false},
		{"another peer", claim(sockaddr{}, addr("127.0.0.1:5")), true},
		{"the peer from elsewhere", claim(addr("127.0.0.2:0"), sockaddr{}), true},
		{"our connection", func(h *host, l *rawListener) *rawPeer {
			ep := l.endpoint(h)
			h.t.Cleanup(func() { ep.Close() })
			p := l.accept(h)
			p.want(flight(h.iface.addr, 0))
			p.send(ackReq)
			return p
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, "")
			l := listenRaw(t, h, true)
			m := h.md.(uct.ScopedMemory)
			s := m.Scope([]uct.ReachableParams{{DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: []byte{byte(l.addr.port >> 8), byte(l.addr.port)}}})
			var by *uct.Source
			h.iface.SetAMHandler(9, func(src *uct.Source, _ []byte, _ *uct.AMDesc) error {
				by = src
				return nil
			})
			c.by(h, l).send(am(9, ""))
			until(t, "message", func() bool { return by != nil }, h)
			if got := m.Excludes(s, by); got != c.want {
				t.Errorf("excluded: %v", got)
			}
			other := newHost(t, "").md.(uct.ScopedMemory)
			if m.Excludes(s, new(uct.Source)) || m.Excludes("somebody", by) || other.Excludes(s, by) {
				t.Error("something is said of another transport or domain")
			}
		})
	}
}

// TestScopes checks how a scope is built, and that registering for a scope costs as little as
// registering for all peers.
func TestScopes(t *testing.T) {
	h := newHost(t, "")
	m := h.md.(uct.ScopedMemory)
	if _, err := m.RegisterFor(make([]byte, 1), uct.AccessRemotePut, "somebody"); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("scope of another domain: %v", err)
	}
	mem, err := m.RegisterFor(make([]byte, 1), uct.AccessRemotePut, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.md.Deregister(mem)
	many := make([]uct.ReachableParams, 100)
	for i := range many {
		many[i] = uct.ReachableParams{DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: h.iface.Address()}
	}
	s := m.Scope(many)
	if s := s.(*scope); len(s.listeners) != 1 || len(s.ips) != 1 {
		t.Errorf("%d listeners and %d addresses of one", len(s.listeners), len(s.ips))
	}
	if race.Enabled {
		return
	}
	buf := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		mem, _ := m.RegisterFor(buf, uct.AccessRemotePut, s)
		h.md.Deregister(mem)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
