//go:build linux

package cm

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// rawEnd is a process that talks to a manager through the kernel's interface.
type rawEnd struct {
	t     testing.TB
	ch    *rdmacm.EventChannel
	id    *rdmacm.ID
	hosts []*ucttest.ConnHost
}

func newRawEnd(t testing.TB, r *rig, hosts ...*ucttest.ConnHost) *rawEnd {
	t.Helper()
	ch, err := r.Channel()
	if err != nil {
		t.Fatal(err)
	}
	p := &rawEnd{t: t, ch: ch, hosts: hosts}
	t.Cleanup(p.vanish)
	p.id, err = ch.CreateID(rdmacm.PortSpaceTCP, 0)
	p.check(err)
	return p
}

// vanish ends the process.
func (p *rawEnd) vanish() { p.ch.Close() }

func (p *rawEnd) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// event waits for an event, which must be of type want.
func (p *rawEnd) event(want rdmacm.EventType) (e *rdmacm.Event) {
	p.t.Helper()
	ucttest.UntilConn(p.t, want.String(), func() bool {
		var err error
		e, err = p.ch.PollEvent()
		if err != nil && !errors.Is(err, ucs.ErrNoMessage) {
			p.t.Fatal(err)
		}
		return e != nil
	}, p.hosts...)
	if e.Type != want {
		p.t.Fatalf("%v (%v), want %v", e.Type, e.Err(), want)
	}
	return e
}

// ask sends a connection request to a listener, with arbitrary private data.
func (p *rawEnd) ask(l uct.Listener, data []byte) {
	p.t.Helper()
	p.check(p.id.ResolveAddr(netip.AddrPort{}, l.Addr(), time.Second))
	p.event(rdmacm.EventAddrResolved)
	p.check(p.id.ResolveRoute(time.Second))
	p.event(rdmacm.EventRouteResolved)
	p.check(p.id.Connect(&rdmacm.ConnParam{PrivateData: data, QPN: 17}))
}

// rawClient returns a client that has sent a request to a listener.
func rawClient(t testing.TB, r *rig, l uct.Listener, data []byte, hosts ...*ucttest.ConnHost) *rawEnd {
	t.Helper()
	p := newRawEnd(t, r, hosts...)
	p.ask(l, data)
	return p
}

// rawServer listens, makes h connect, and returns both ends. The server has received the request.
func rawServer(t testing.TB, r *rig, h *ucttest.ConnHost) (*ucttest.ConnEnd, *rawEnd) {
	t.Helper()
	p := newRawEnd(t, r, h)
	p.check(p.id.BindAddr(netip.AddrPortFrom(loopback4, 0)))
	p.check(p.id.Listen(0))
	at, err := p.id.LocalAddr()
	p.check(err)
	e := h.ConnectTo(t, uct.ConnectParams{
		Remote: at,
		Pack:   func(_ uct.PackArgs, dst []byte) (int, error) { return copy(dst, "client"), nil },
	})
	p.id = p.event(rdmacm.EventConnectRequest).ID
	return e, p
}

// told waits for the outcome of a connection attempt: nil if it is connected, else the error.
func told(t testing.TB, e *ucttest.ConnEnd, hosts ...*ucttest.ConnHost) error {
	t.Helper()
	ucttest.UntilConn(t, "an outcome", func() bool { return len(e.Opened) > 0 }, hosts...)
	return e.Opened[0].Err
}
