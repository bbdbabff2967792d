//go:build linux

package tcp

import (
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
)

// TestLooksAreFew: when connections of one network are closed to make room, connections of other
// networks before them in a list are skipped once, not for each one that is closed. Of the network
// the longest silent is closed, with or without new connections.
func TestLooksAreFew(t *testing.T) {
	for _, heard := range []bool{false, true} {
		s := &service{}
		s.guests.init()
		i := &iface{svc: s, bounds: limits}
		l := &s.guests
		q := &l.neverActive
		if heard {
			q = &l.onceActive
		}
		add := func(ip netip.Addr) *conn {
			c := &conn{iface: i}
			c.from.addr = netip.AddrPortFrom(ip, 1)
			s.enroll(c)
			if heard {
				l.notice(c)
			}
			return c
		}
		const others, many = 300, 400
		for k := range others {
			add(netip.AddrFrom4([4]byte{11, byte(k), byte(k >> 8), 1}))
		}
		var crowd []*conn
		for k := range many {
			crowd = append(crowd, add(netip.AddrFrom4([4]byte{66, 6, byte(k >> 8), byte(k)})))
		}
		net := netip.MustParsePrefix("66.6.0.0/16")
		l.silentOf(net, nil)
		steps := 0
		leave := func(want, newcomer *conn) {
			t.Helper()
			_, n := l.look(q, net, newcomer)
			steps += n
			if c := l.silentOf(net, newcomer); c != want {
				t.Fatalf("heard %v: not the longest silent", heard)
			}
			s.leave(want)
		}
		for k, c := range crowd {
			var newcomer *conn
			if k%2 == 0 {
				newcomer = add(netip.AddrFrom4([4]byte{66, 6, 7, byte(k / 2)}))
				crowd = append(crowd, newcomer)
			}
			leave(c, newcomer)
		}
		crowd = crowd[many:]
		for k, c := range crowd {
			if k%10 == 0 { // others leave and connect, too
				s.leave(q.past)
				add(netip.AddrFrom4([4]byte{12, byte(k), 0, 1}))
			}
			leave(c, nil)
		}
		if l.silentOf(net, nil) != nil {
			t.Error("there is nobody left")
		}
		if steps > others+2*(many+len(crowd)) {
			t.Errorf("heard %v: %d steps", heard, steps)
		}
		// Skipped connections stay skipped for that network, even after a search among all
		// networks, which ignores them.
		first, second := add(netip.AddrFrom4([4]byte{66, 6, 8, 1})), add(netip.AddrFrom4([4]byte{66, 6, 8, 2}))
		l.silentOf(net, nil)
		q.past = first
		for range 2 {
			if l.silentOf(netip.Prefix{}, nil) != q.head {
				t.Error("not the longest silent of all")
			}
			if l.silentOf(net, nil) != second {
				t.Error("who was passed over is looked at again")
			}
		}
		s.leave(first)
		s.leave(second)
		last := add(netip.AddrFrom4([4]byte{66, 6, 7, 1}))
		add(netip.AddrFrom4([4]byte{12, 0, 0, 2})) // one of another network behind it
		if l.silentOf(net, last) != nil || l.silentOf(net, nil) != last {
			t.Error("a newcomer is passed over for good")
		}
		if other := q.head; l.silentOf(netip.PrefixFrom(other.from.addr.Addr(), 16).Masked(), nil) != other {
			t.Error("who was passed over for one network is for another")
		}
		for q.head != nil {
			s.leave(q.head)
		}
	}
	if n := ledger.Total(ledger.Conns); n != 0 {
		t.Errorf("the ledger counts %d connections", n)
	}
}
