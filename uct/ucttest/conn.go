package ucttest

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// ConnFixture describes the connection manager that RunConnManager tests.
type ConnFixture struct {
	// Component is the component of the manager.
	Component uct.ConnManagerComponent

	// Config contains the settings of the managers. nil: defaults.
	Config *config.Set

	// Addr is an address of this machine, to listen at and to connect to. Device is the device
	// that has the address; empty: any device name is accepted.
	Addr   netip.Addr
	Device string

	// PacksFirst says that the client's data is in the first packet, so it is packed even if
	// there is no listener.
	PacksFirst bool

	// Skip maps the names of tests that do not apply to the reasons.
	Skip map[string]string
}

// RunConnManager runs the conformance suite of connection managers.
func RunConnManager(t *testing.T, f ConnFixture) {
	t.Helper()
	known := make(map[string]bool)
	for _, test := range connTests {
		known[test.name] = true
		t.Run(test.name, func(t *testing.T) {
			if why := f.Skip[test.name]; why != "" {
				t.Skip(why)
			}
			NoLeaks(t)
			test.run(t, &f)
		})
	}
	var unknown []string
	for name := range f.Skip {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		t.Errorf("ConnFixture.Skip names tests that do not exist: %s", strings.Join(unknown, ", "))
	}
}

// ConnHost is one side of a test of connection managers: a worker with a manager.
type ConnHost struct {
	Worker  *uct.Worker
	Manager uct.ConnManager

	// Requests are the requests that have arrived and were not returned by Request.
	Requests []*uct.ConnRequest

	host    Host
	fixture *ConnFixture
	busy    bool // inside a call that must not make callbacks
}

// Open opens a host, which is closed when the test ends.
func (f *ConnFixture) Open(t testing.TB) *ConnHost {
	t.Helper()
	h := &ConnHost{fixture: f}
	t.Cleanup(func() { h.Close(t) })
	var err error
	if h.Worker, err = uct.NewWorker(); err != nil {
		t.Fatalf("new worker: %v", err)
	}
	h.host.Worker = h.Worker
	if h.Manager, err = f.Component.OpenConnManager(h.Worker, f.Config); err != nil {
		t.Fatalf("opening the connection manager: %v", err)
	}
	return h
}

// Close closes the manager and the worker. It is idempotent.
func (h *ConnHost) Close(t testing.TB) {
	t.Helper()
	if h.Manager != nil {
		h.call(func() {
			if err := h.Manager.Close(); err != nil {
				t.Errorf("closing the connection manager: %v", err)
			}
		})
		h.Manager = nil
	}
	h.host.Close(t)
}

// call runs fn, which must not make callbacks.
func (h *ConnHost) call(fn func()) {
	h.busy = true
	fn()
	h.busy = false
}

// called checks that a callback is permitted now.
func (h *ConnHost) called(t testing.TB, what string) {
	t.Helper()
	if h.busy {
		t.Errorf("%s is called outside of Progress", what)
	}
}

// Listen listens at the fixture's address. If p has no OnRequest, requests are collected in
// Requests.
func (h *ConnHost) Listen(t testing.TB, p uct.ListenParams) uct.Listener {
	t.Helper()
	if p.OnRequest == nil {
		p.OnRequest = func(_ uct.Listener, r *uct.ConnRequest) { h.Requests = append(h.Requests, r) }
	}
	inner := p.OnRequest
	p.OnRequest = func(l uct.Listener, r *uct.ConnRequest) {
		h.called(t, "OnRequest")
		inner(l, r)
	}
	l, err := h.Manager.Listen(netip.AddrPortFrom(h.fixture.Addr, 0), p)
	if err != nil {
		t.Fatalf("listening at %v: %v", h.fixture.Addr, err)
	}
	return l
}

// Request waits for the next request and removes it from Requests.
func (h *ConnHost) Request(t testing.TB, others ...*ConnHost) *uct.ConnRequest {
	t.Helper()
	UntilConn(t, "a request", func() bool { return len(h.Requests) > 0 }, append(others, h)...)
	r := h.Requests[0]
	h.Requests = h.Requests[1:]
	return r
}

// UntilConn is like Until, for hosts with managers.
func UntilConn(t testing.TB, what string, cond func() bool, hosts ...*ConnHost) {
	t.Helper()
	Until(t, what, cond, plainHosts(hosts)...)
}

// SettleConn is like Settle, for hosts with managers.
func SettleConn(hosts ...*ConnHost) { Settle(plainHosts(hosts)...) }

func plainHosts(hosts []*ConnHost) []*Host {
	list := make([]*Host, len(hosts))
	for i, h := range hosts {
		list[i] = &h.host
	}
	return list
}

// ConnEnd is an endpoint with a record of its callbacks.
type ConnEnd struct {
	EP     uct.ConnEndpoint
	Packed []uct.PackArgs
	Opened []uct.ConnectedArgs // arguments of OnConnected, or the errors of OnNotify
	Ended  []error             // errors of OnDisconnected

	// Then is called at the end of each callback, with the name of the callback. nil: nothing.
	Then func(what string)
}

// Up reports whether the endpoint was reported as connected, and not as ended.
func (e *ConnEnd) Up() bool {
	return len(e.Opened) == 1 && e.Opened[0].Err == nil && len(e.Ended) == 0
}

// Reported returns whether OnConnected, OnNotify or OnDisconnected reported the end of the
// endpoint, and with which error.
func (e *ConnEnd) Reported() (err error, ok bool) {
	switch {
	case len(e.Ended) > 0:
		return e.Ended[0], true
	case len(e.Opened) > 0 && e.Opened[0].Err != nil:
		return e.Opened[0].Err, true
	}
	return nil, false
}

func (e *ConnEnd) then(what string) {
	if e.Then != nil {
		e.Then(what)
	}
}

// Connect begins to connect to a listener, with the given private data.
func (h *ConnHost) Connect(t testing.TB, to uct.Listener, private []byte) *ConnEnd {
	t.Helper()
	return h.ConnectTo(t, uct.ConnectParams{
		Remote: to.Addr(),
		Pack:   func(_ uct.PackArgs, dst []byte) (int, error) { return copy(dst, private), nil },
	})
}

// ConnectTo is like Connect, with other parameters. It records the calls of p.Pack and replaces
// p.OnConnected and p.OnDisconnected.
func (h *ConnHost) ConnectTo(t testing.TB, p uct.ConnectParams) *ConnEnd {
	t.Helper()
	e := &ConnEnd{}
	if pack := p.Pack; pack != nil {
		p.Pack = func(a uct.PackArgs, dst []byte) (int, error) {
			h.called(t, "Pack")
			if len(dst) != h.Manager.Attr().MaxPrivate {
				t.Errorf("Pack is given %d bytes, MaxPrivate is %d", len(dst), h.Manager.Attr().MaxPrivate)
			}
			e.Packed = append(e.Packed, a)
			n, err := pack(a, dst)
			e.then("Pack")
			return n, err
		}
	}
	p.OnConnected = func(ep uct.ConnEndpoint, a uct.ConnectedArgs) {
		h.called(t, "OnConnected")
		if ep != e.EP {
			t.Error("OnConnected was called with another endpoint")
		}
		e.Opened = append(e.Opened, a)
		e.then("OnConnected")
	}
	p.OnDisconnected = func(_ uct.ConnEndpoint, err error) { e.disconnected(t, h, err) }
	h.call(func() {
		var err error
		if e.EP, err = h.Manager.Connect(p); err != nil {
			t.Fatalf("connecting to %v: %v", p.Remote, err)
		}
	})
	return e
}

// Accept accepts a request, with private data.
func (h *ConnHost) Accept(t testing.TB, r *uct.ConnRequest, private []byte) *ConnEnd {
	t.Helper()
	e, err := h.TryAccept(t, r, private)
	if err != nil {
		t.Fatalf("accepting %v: %v", r.Source.Addr, err)
	}
	return e
}

// TryAccept is like Accept, but returns the error instead of failing the test.
func (h *ConnHost) TryAccept(t testing.TB, r *uct.ConnRequest, private []byte) (e *ConnEnd, err error) {
	t.Helper()
	e = &ConnEnd{}
	h.call(func() {
		e.EP, err = h.Manager.Accept(r, uct.AcceptParams{
			Private: private,
			OnNotify: func(ep uct.ConnEndpoint, err error) {
				h.called(t, "OnNotify")
				if ep != e.EP {
					t.Error("OnNotify was called with another endpoint")
				}
				e.Opened = append(e.Opened, uct.ConnectedArgs{Err: err})
				e.then("OnNotify")
			},
			OnDisconnected: func(_ uct.ConnEndpoint, err error) { e.disconnected(t, h, err) },
		})
	})
	return e, err
}

func (e *ConnEnd) disconnected(t testing.TB, h *ConnHost, err error) {
	t.Helper()
	h.called(t, "OnDisconnected")
	if len(e.Opened) != 1 || e.Opened[0].Err != nil {
		t.Errorf("OnDisconnected of an endpoint after OnConnected with %v", e.Opened)
	}
	e.Ended = append(e.Ended, err)
	e.then("OnDisconnected")
}

// Pair connects h to server, which has the listener l, and returns both endpoints.
func (h *ConnHost) Pair(t testing.TB, server *ConnHost, l uct.Listener) (client, served *ConnEnd) {
	t.Helper()
	client = h.Connect(t, l, []byte("client"))
	served = server.Accept(t, server.Request(t, h), []byte("server"))
	UntilConn(t, "the answer", func() bool { return len(client.Opened) > 0 }, h, server)
	if err := client.Opened[0].Err; err != nil {
		t.Fatalf("connecting: %v", err)
	}
	h.call(func() {
		if err := client.EP.Notify(); err != nil {
			t.Fatalf("notifying: %v", err)
		}
	})
	UntilConn(t, "the notification", served.Up, h, server)
	return client, served
}

// wantEnd waits until the end of an endpoint is reported, and checks the status.
func wantEnd(t testing.TB, what string, e *ConnEnd, want ucs.Status, hosts ...*ConnHost) {
	t.Helper()
	UntilConn(t, what, func() bool { _, ok := e.Reported(); return ok }, hosts...)
	err, _ := e.Reported()
	if want == ucs.OK {
		if err != nil {
			t.Errorf("%s: %v, want none", what, err)
		}
		return
	}
	WantStatus(t, what, err, want)
}
