//go:build linux

package tcp

import (
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/uct"
)

// TestAnswersStay: a connection that carries replies to an active peer is not closed before one
// whose only message was long ago. Probes do not count as activity.
func TestAnswersStay(t *testing.T) {
	ca := certtest.New()
	a, b, c := tlsHost(t, ca.Mutual("alice")), tlsHost(t, ca.Mutual("bob")), tlsHost(t, ca.Mutual("carol"))
	out := a.connect(b)
	until(t, "connect", connected(out), a, b)
	ue, err := b.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: a.iface.DeviceAddress(), IfaceAddr: a.iface.Address(), ForPeer: true})
	if err != nil {
		t.Fatal(err)
	}
	back := ue.(*endpoint)
	until(t, "connect back", connected(back), a, b)
	if back.conn.active() {
		t.Error("the request of a connection counts as a message")
	}
	say := func(ep *endpoint, from, to *host) {
		t.Helper()
		n := len(to.got)
		if err := ep.AMShort(1, 7, nil, 0, nil); err != nil {
			t.Fatal(err)
		}
		until(t, "message", func() bool { return len(to.got) == n+1 }, from, to)
	}
	converse := func() {
		t.Helper()
		say(out, a, b)
		say(back, b, a)
	}
	longest := func() *conn { return b.iface.svc.guests.silentOf(netip.Prefix{}, nil) }

	quiet := c.connect(b)
	until(t, "connect", connected(quiet), b, c)
	word := b.iface.conns
	say(quiet, c, b)
	converse()
	if v := longest(); v == back.conn {
		t.Error("the connection that answers leaves before those that were heard")
	}
	converse()
	if v := longest(); v != word {
		t.Errorf("not the one that was silent leaves first, but that of the answers: %v", v == back.conn)
	}

	b.iface.svc.guests.notice(back.conn)
	before := back.conn.written
	if err := back.Check(nil); err != nil || back.conn.written == before {
		t.Fatalf("a probe: %v, %d bytes", err, back.conn.written-before)
	}
	if back.conn.active() {
		t.Error("a probe counts as a message")
	}
}
