//go:build linux

package tcp

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestTakeOverLost: a connection that an endpoint took over breaks before the peer has answered.
// The endpoint makes a connection of its own.
func TestTakeOverLost(t *testing.T) {
	for _, how := range []string{"end", "reset", "at once"} {
		t.Run(how, func(t *testing.T) {
			h := newHost(t, "")
			l := listenRaw(t, h, true)
			p := dial(t, h)
			p.send(flight(l.addr, 0))
			p.want(ack)
			var ep *endpoint
			switch how {
			case "end":
				ep = l.endpoint(h)
				p.want(req(h.iface.addr, 0))
				p.close()
			case "reset":
				ep = l.endpoint(h)
				p.reset()
			case "at once": // the request is written to a broken connection
				p.reset()
				ep = l.endpoint(h)
			}
			q := l.accept(h)
			q.want(flight(h.iface.addr, 0))
			q.send(ack)
			until(t, "connect", connected(ep), h)
			exact(t, h, 1)
			if len(h.errs) != 0 {
				t.Errorf("failures: %v", h.errs)
			}
		})
	}
}

// TestTakeOverGone is the same with a peer that has exited: the endpoint fails.
func TestTakeOverGone(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, true)
	p := dial(t, h)
	p.send(flight(l.addr, 0))
	p.want(ack)
	l.endpoint(h)
	l.close()
	p.reset()
	until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
	if !errors.Is(h.errs[0], unix.ECONNREFUSED) {
		t.Errorf("failure: %v", h.errs[0])
	}
	exact(t, h, 0)
}

// TestTakeOverClosed: a second connection of the peer, which waits behind the one taken over, is
// closed with the endpoint, even if the peer has not answered yet.
func TestTakeOverClosed(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	p := dial(t, h)
	p.send(flight(l.addr, 0))
	p.want(ack)
	ep := l.endpoint(h)
	p.want(req(h.iface.addr, 0))
	second := dial(t, h)
	second.send(flight(l.addr, 0))
	second.wantSilence()
	exact(t, h, 2)
	ep.Close()
	second.wantClosed()
	p.want(fin)
	p.send(am(1, "in"), fin)
	p.wantClosed()
	exact(t, h, 0)
	if len(h.got) != 1 {
		t.Errorf("received %v", h.got)
	}
}

// TestCancelTakenOver: canceling an endpoint that shares the peer's connection leaves the
// connection to the peer, as closing the endpoint does, even before the peer knows of the endpoint.
func TestCancelTakenOver(t *testing.T) {
	a, b, ep := pair(t)
	back := b.connect(a)
	if back.conn == nil || back.conn.state != stateWaitingAck || back.conn.outgoing {
		t.Fatal("not taken over")
	}
	if err := back.Flush(uct.FlushCancel, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "a message", func() bool {
		if err := ep.AMShort(1, 1, nil, 0, nil); err != nil && err != ucs.ErrNoResource {
			t.Fatal(err)
		}
		return len(b.got) > 0
	}, a, b)
	if len(a.errs) != 0 {
		t.Errorf("failures of the peer: %v", a.errs)
	}
	ep.Close()
	back.Close()
}
