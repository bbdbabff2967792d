package connkit

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var here = netip.MustParseAddrPort("10.0.0.1:7")

// transport is a manager without a network. It records the calls of connkit and the callbacks to
// the application.
type transport struct {
	Manager
	listener listener
	log      []string
}

type listener struct{ Listener }

// Close implements uct.Listener.
func (l *listener) Close() error {
	l.Drop(l)
	return nil
}

func open(t *testing.T, backlog int) *transport {
	t.Helper()
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	m := new(transport)
	m.Open(w, m, uct.ConnManagerAttr{Component: "test", MaxPrivate: 4}, Settings{})
	t.Cleanup(func() {
		if m.Worker != nil {
			m.CloseAll(m)
		}
		w.Close()
	})
	shown := func(_ uct.Listener, r *uct.ConnRequest) { m.note("shown %v", r.Source.Addr.Addr()) }
	if err := m.listener.Init(&m.Manager, here, uct.ListenParams{OnRequest: shown}, backlog); err != nil {
		t.Fatal(err)
	}
	m.listener.Opened(&m.listener, here)
	return m
}

func (m *transport) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

// want checks what was recorded since its last call.
func (m *transport) want(t *testing.T, what, want string) {
	t.Helper()
	if got := strings.Join(m.log, ", "); got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
	m.log = nil
}

// client is a client that has sent a request.
type client struct {
	Request
	m *transport
}

// Reject implements Client.
func (c *client) Reject() { c.m.note("rejected %v", c.Public.Source.Addr.Addr()) }

// Drop implements Client.
func (c *client) Drop() { c.m.note("dropped %v", c.Public.Source.Addr.Addr()) }

// ask simulates a request from a client at an address.
func (m *transport) ask(from string) *client {
	c := &client{m: m}
	at := netip.MustParseAddr(from)
	c.Init(&m.listener.Listener, c, ChargeTo(at, 1))
	c.Public.Source.Addr = netip.AddrPortFrom(at, 1)
	m.listener.Present(&m.listener, &c.Request)
	return c
}

// conn is a connection.
type conn struct {
	Endpoint
	Route
	m *transport
}

// Ending implements Conn.
func (c *conn) Ending(error, Phase) { c.m.note("ending") }

// Notify implements uct.ConnEndpoint.
func (c *conn) Notify() error { return c.BeginNotify() }

// Disconnect implements uct.ConnEndpoint.
func (c *conn) Disconnect() error {
	_, err := c.BeginDisconnect(true)
	return err
}

// Close implements uct.ConnEndpoint.
func (c *conn) Close() {
	if c.BeginClose() != Closed {
		c.Unregister()
	}
}

func (m *transport) ended(_ uct.ConnEndpoint, err error) { m.note("OnDisconnected(%v)", err) }

// connect makes a client's endpoint.
func (m *transport) connect() *conn {
	c := &conn{m: m, Route: Route{Remote: here}}
	c.InitClient(&m.Manager, c, &uct.ConnectParams{
		OnConnected:    func(_ uct.ConnEndpoint, a uct.ConnectedArgs) { m.note("OnConnected(%v)", a.Err) },
		OnDisconnected: m.ended,
	})
	c.Register()
	return c
}

// serve makes a server's endpoint.
func (m *transport) serve() *conn {
	c := &conn{m: m}
	c.InitServer(&m.Manager, c, &uct.AcceptParams{
		OnNotify:       func(_ uct.ConnEndpoint, err error) { m.note("OnNotify(%v)", err) },
		OnDisconnected: m.ended,
	})
	c.Register()
	return c
}

// TestCallbacks runs every sequence of three events on the endpoints of both sides. An endpoint
// makes one callback at the end of each of the phases Opening and Connected, and none once closed.
func TestCallbacks(t *testing.T) {
	m := open(t, 1)
	gone := errors.New("gone")
	events := []struct {
		name string
		do   func(*conn)
	}{
		{"succeed", func(c *conn) { // the transport reports success to endpoints in phase Opening only
			if c.Phase == Opening {
				c.Succeed(uct.ConnectedArgs{})
			}
		}},
		{"fail", func(c *conn) { c.Fail(gone) }},
		{"fail later", func(c *conn) { c.FailLater(gone); c.FailLater(nil); m.Progress() }},
		{"close", func(c *conn) { c.Close(); c.Close() }},
	}
	for side, first := range map[string]string{"client": "OnConnected", "server": "OnNotify"} {
		for n := range 4 * 4 * 4 {
			c := m.serve()
			if side == "client" {
				c = m.connect()
			}
			phase, name, want := Opening, side, []string{}
			for _, k := range []int{n / 16, n / 4 % 4, n % 4} {
				e := events[k]
				name += " " + e.name
				e.do(c)
				switch {
				case e.name == "close":
					phase = Closed
				case phase >= Over:
				case e.name == "succeed" && phase == Opening:
					phase = Connected
					want = append(want, first+"(<nil>)")
				case e.name == "succeed":
				case phase == Opening:
					phase = Over
					want = append(want, "ending", first+"(gone)")
				default:
					phase = Over
					want = append(want, "ending", "OnDisconnected(gone)")
				}
			}
			m.want(t, name, strings.Join(want, ", "))
			if c.Phase != phase {
				t.Errorf("%s: phase %d, want %d", name, c.Phase, phase)
			}
		}
	}
	m.CloseAll(m)
	if m.dialing != 0 || len(m.endpoints) != 0 {
		t.Errorf("%d clients are being connected, %d endpoints are left", m.dialing, len(m.endpoints))
	}
}

// TestFailLater: a worker whose manager has an error to report cannot be armed.
func TestFailLater(t *testing.T) {
	m := open(t, 1)
	c := m.connect()
	if err := m.Arm(uct.EventAny); err != nil {
		t.Errorf("armed: %v", err)
	}
	c.FailLater(ucs.ErrUnreachable)
	m.want(t, "before Progress", "")
	if err := m.Arm(uct.EventAny); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("armed: %v", err)
	}
	if n := m.Progress(); n != 1 {
		t.Errorf("%d events", n)
	}
	if err := m.Arm(uct.EventAny); err != nil {
		t.Errorf("armed: %v", err)
	}
}

// TestRequests: a request can be used once, and not by managers of other components.
func TestRequests(t *testing.T) {
	m, other := open(t, 4), open(t, 4)
	var p uct.AcceptParams
	accepted, rejected, long, dropped := m.ask("10.1.0.1"), m.ask("10.1.0.2"), m.ask("10.1.0.3"), m.ask("10.1.0.4")
	m.want(t, "four requests", "shown 10.1.0.1, shown 10.1.0.2, shown 10.1.0.3, shown 10.1.0.4")
	if _, err := other.Consume(&accepted.Public, &p); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("accepting a request of another component: %v", err)
	}
	if c, err := m.Consume(&accepted.Public, &p); c != accepted || err != nil {
		t.Errorf("accepting: %v, %v", c, err)
	}
	if err := rejected.Public.Reject(); err != nil {
		t.Error(err)
	}
	if _, err := m.Consume(&long.Public, &uct.AcceptParams{Private: make([]byte, 5)}); !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Errorf("answering with too much: %v", err)
	}
	for _, c := range []*client{accepted, rejected, long} {
		if err := c.Public.Reject(); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("consuming twice: %v", err)
		}
	}
	m.listener.Close()
	m.want(t, "the end", "rejected 10.1.0.2, rejected 10.1.0.3, dropped 10.1.0.4")
	if err := dropped.Public.Reject(); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("rejecting a dropped request: %v", err)
	}
	m.CloseAll(m)
	if _, err := m.Consume(&dropped.Public, &p); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("accepting by a closed manager: %v", err)
	}
	if c, f := ledger.Total(ledger.Conns), ledger.Total(ledger.Files); c != 0 || f != 0 {
		t.Errorf("%d connections and %d descriptors are charged", c, f)
	}
}

// TestBacklogIsShared: when the backlog is full, the source with the most requests loses one, as
// long as it has more than the source of the new request.
func TestBacklogIsShared(t *testing.T) {
	m := open(t, 2)
	flood := []*client{m.ask("10.1.0.1"), m.ask("10.1.0.1")}
	m.log = nil
	m.ask("10.2.0.2")
	m.want(t, "the first of another source", "rejected 10.1.0.1, shown 10.2.0.2")
	m.ask("10.2.0.2")
	m.want(t, "the second of it", "rejected 10.2.0.2")
	if full := m.listener.Full(flood[0].Charge); full == "" {
		t.Error("not full")
	}
	crowded := 0
	for _, c := range flood {
		if err := c.Public.Reject(); errors.Is(err, ucs.ErrCanceled) {
			crowded++
		} else if err != nil {
			t.Error(err)
		}
	}
	m.listener.Close()
	if n := ledger.Total(ledger.Conns); crowded != 1 || n != 0 {
		t.Errorf("%d requests made room, %d are charged", crowded, n)
	}
}
