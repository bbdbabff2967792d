//go:build linux

package tcp

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// asksFrom returns a connection that claims a listener but comes from another address, and the
// parameters of an endpoint that replies over the connection.
func asksFrom(t *testing.T, h *host, l *rawListener, sn uint64) (*rawPeer, uct.EndpointParams) {
	t.Helper()
	p := dialFrom(t, h, addr("127.0.0.2:0"), -1)
	p.send(flight(l.addr, sn))
	p.want(ack)
	return p, uct.EndpointParams{
		DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: []byte{byte(l.addr.port >> 8), byte(l.addr.port)},
		UserData: l, Over: &h.iface.conns.src,
	}
}

// TestReturn: an endpoint that only replies uses the peer's connection, whichever listener the peer
// claims. It never connects to that listener, even when the peer's connection ends, and the
// listener's owner is not taken for the peer.
func TestReturn(t *testing.T) {
	for _, first := range []string{"answer", "endpoint"} {
		for _, smaller := range []bool{false, true} {
			h := newHost(t, "")
			l := listenRaw(t, h, smaller)
			p, params := asksFrom(t, h, l, 0)
			at := uct.ReachableParams{DeviceAddr: params.DeviceAddr, IfaceAddr: params.IfaceAddr}
			if !h.iface.CanSendOver(params.Over, at) {
				t.Fatal("the connection cannot be answered over")
			}
			if h.iface.CanSendOver(params.Over, uct.ReachableParams{DeviceAddr: at.DeviceAddr, IfaceAddr: []byte{0, 5}}) {
				t.Error("an address that was not claimed can be answered")
			}
			if first == "endpoint" { // the peer may be the endpoint's peer
				l.endpoint(h)
				if h.iface.CanSendOver(params.Over, at) {
					t.Error("the number is taken")
				}
				if _, err := h.iface.NewEndpoint(params); err == nil {
					t.Error("an endpoint over a connection whose number is taken")
				}
				continue
			}
			ue, err := h.iface.NewEndpoint(params)
			if err != nil {
				t.Fatal(err)
			}
			ep := ue.(*endpoint)
			p.want(req(h.iface.addr, 0))
			p.send(ack)
			until(t, "connect", connected(ep), h)
			ep.AMShort(1, 7, []byte("hi"), 0, nil)
			p.want(am(1, "\x07\x00\x00\x00\x00\x00\x00\x00hi"))
			if h.iface.CanSendOver(params.Over, at) {
				t.Error("a connection is answered over twice")
			}

			buf := []byte("untouched")
			exposed := h.exposeTo(buf, l)
			mine := l.endpoint(h)
			own := l.accept(h)
			own.want(flight(h.iface.addr, 1)) // the other endpoint has number 0
			own.send(ack)
			until(t, "connect", connected(mine), h)

			p.send(putReq(exposed, 4, 0), []byte("evil"))
			p.wantClosed()
			if string(buf) != "untouched" {
				t.Errorf("memory of the listener's owner holds %q", buf)
			}
			until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
			if ep.err == nil || mine.err != nil || ep.conn.state != stateClosed {
				t.Errorf("after the connection: %v, %v", ep.err, mine.err)
			}
			ep.Close()
			own.wantSilence()
			if h.iface.match.returning != nil || len(h.iface.match.aside) != 0 {
				t.Errorf("left: %v, %v", h.iface.match.returning, h.iface.match.aside)
			}
		}
	}
}

// TestReturnEnds: an endpoint that only replies does not reconnect when its connection is lost,
// established or not. Closing the endpoint leaves the connection to the peer.
func TestReturnEnds(t *testing.T) {
	for _, stands := range []bool{false, true} {
		h := newHost(t, "")
		l := listenRaw(t, h, false)
		p, params := asksFrom(t, h, l, 3)
		ue, err := h.iface.NewEndpoint(params)
		if err != nil {
			t.Fatal(err)
		}
		p.want(req(h.iface.addr, 3))
		if stands {
			p.send(ack)
			until(t, "connect", connected(ue.(*endpoint)), h)
		}
		p.close()
		until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
		if n := h.conns(); n != 0 {
			t.Errorf("stands %v: %d connections", stands, n)
		}
		ue.Close()
	}
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	p, params := asksFrom(t, h, l, 0)
	ue, err := h.iface.NewEndpoint(params)
	if err != nil {
		t.Fatal(err)
	}
	p.want(req(h.iface.addr, 0))
	p.send(ack)
	until(t, "connect", connected(ue.(*endpoint)), h)
	ue.Close()
	p.want(fin)
	p.send(am(1, "still heard"))
	until(t, "a message", func() bool { return len(h.got) == 1 }, h)
	ep := l.endpoint(h)
	own := l.accept(h) // not the attacker's connection
	own.want(flight(h.iface.addr, 0))
	own.send(ackReq)
	until(t, "connect", connected(ep), h)
	p.wantSilence()
}
