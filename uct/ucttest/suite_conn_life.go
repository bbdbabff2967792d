package ucttest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testConnTooEarly checks the errors of calls that an endpoint does not permit yet, again, or
// at all.
func testConnTooEarly(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	client := a.Connect(t, l, nil)
	r := b.Request(t, a)
	if err := client.EP.Notify(); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("notifying a server that has not answered: %v", err)
	}
	if err := client.EP.Disconnect(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("disconnecting a client that is not connected: %v", err)
	}
	served := b.Accept(t, r, nil)
	if err := served.EP.Disconnect(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("disconnecting a server that was not notified: %v", err)
	}
	UntilConn(t, "the answer", client.Up, a, b)
	if err := served.EP.Notify(); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("a server notifies: %v", err)
	}
	if err := client.EP.Notify(); err != nil {
		t.Fatal(err)
	}
	if err := client.EP.Notify(); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("notifying again: %v", err)
	}
	UntilConn(t, "the notification", served.Up, a, b)
	client.EP.Close()
	client.EP.Close()
	if err := client.EP.Disconnect(); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("disconnecting a closed endpoint: %v", err)
	}
	if err := client.EP.Notify(); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("notifying with a closed endpoint: %v", err)
	}
}

// testConnDisconnect ends connections with Disconnect by the client, the server, and both.
func testConnDisconnect(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	disconnect := func(e *ConnEnd) {
		t.Helper()
		if err := e.EP.Disconnect(); err != nil {
			t.Errorf("disconnecting: %v", err)
		}
	}
	for _, first := range []string{"client", "server"} {
		client, served := a.Pair(t, b, l)
		one, two := client, served
		if first == "server" {
			one, two = served, client
		}
		a.call(func() { b.call(func() { disconnect(one); disconnect(one) }) })
		wantEnd(t, "the other side when the "+first+" disconnects", two, ucs.ErrConnectionReset, a, b)
		SettleConn(a, b)
		if len(one.Ended) != 0 {
			t.Errorf("the %s got %v before the other side replied", first, one.Ended)
		}
		local := two.EP.LocalAddr()
		disconnect(two)
		wantEnd(t, "the "+first+" that has disconnected", one, ucs.OK, a, b)
		SettleConn(a, b)
		if len(one.Ended) != 1 || len(two.Ended) != 1 {
			t.Errorf("the ends got %v and %v", one.Ended, two.Ended)
		}
		if !local.IsValid() || two.EP.LocalAddr() != local {
			t.Errorf("the address was %v, is %v", local, two.EP.LocalAddr())
		}
	}
	client, served := a.Pair(t, b, l)
	disconnect(client)
	disconnect(served)
	wantEnd(t, "a client when both disconnect", client, ucs.OK, a, b)
	wantEnd(t, "a server when both disconnect", served, ucs.OK, a, b)

	client, served = a.Pair(t, b, l)
	disconnect(client)
	served.EP.Close()
	wantEnd(t, "a client that has disconnected when the server closes", client, ucs.OK, a, b)
}

// testConnClientGone closes the client's endpoint at each step.
func testConnClientGone(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})

	a.Connect(t, l, nil).EP.Close() // at once
	SettleConn(a, b)
	for _, r := range b.Requests { // the request may have been sent before the close
		r.Reject()
	}
	b.Requests = nil

	client := a.Connect(t, l, []byte("client"))
	r := b.Request(t, a)
	client.EP.Close() // after the request
	SettleConn(a, b)
	served, err := b.TryAccept(t, r, nil)
	if err == nil {
		wantEnd(t, "a server whose client has closed", served, ucs.ErrConnectionReset, a, b)
	} else if !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("accepting a client that has closed: %v", err)
	}
	client = a.Connect(t, l, nil)
	r = b.Request(t, a)
	client.EP.Close()
	SettleConn(a, b)
	if err := r.Reject(); err != nil {
		t.Errorf("rejecting a client that has closed: %v", err)
	}

	client = a.Connect(t, l, nil)
	served = b.Accept(t, b.Request(t, a), nil)
	UntilConn(t, "the answer", client.Up, a, b)
	client.EP.Close() // after the answer, before the notification
	wantEnd(t, "a server that was not notified", served, ucs.ErrConnectionReset, a, b)
	if len(served.Ended) != 0 {
		t.Error("OnDisconnected of an endpoint that was not connected")
	}

	client, served = a.Pair(t, b, l)
	client.EP.Close()
	wantEnd(t, "a server whose client closes", served, ucs.ErrConnectionReset, a, b)
	SettleConn(a, b)
	if len(client.Ended) != 0 {
		t.Errorf("the closed endpoint got %v", client.Ended)
	}
}

// testConnServerGone closes the server's side at each step.
func testConnServerGone(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	client := a.Connect(t, l, nil)
	b.Request(t, a)
	if err := l.Close(); err != nil { // after the request
		t.Fatal(err)
	}
	wantEnd(t, "a client whose request is dropped", client, ucs.ErrNotConnected, a, b)

	l = b.Listen(t, uct.ListenParams{})
	client = a.Connect(t, l, nil)
	served := b.Accept(t, b.Request(t, a), nil)
	served.EP.Close() // after the answer
	UntilConn(t, "the end", func() bool { _, ok := client.Reported(); return ok }, a, b)
	if err, _ := client.Reported(); !errors.Is(err, ucs.ErrConnectionReset) && !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("a client whose server replied and closed got %v", err)
	}

	client = a.Connect(t, l, nil)
	served = b.Accept(t, b.Request(t, a), nil)
	UntilConn(t, "the answer", client.Up, a, b)
	served.EP.Close() // before the notification
	client.EP.Notify()
	wantEnd(t, "a client that could not notify", client, ucs.ErrConnectionReset, a, b)

	client, served = a.Pair(t, b, l)
	served.EP.Close()
	wantEnd(t, "a client whose server closes", client, ucs.ErrConnectionReset, a, b)
	if len(served.Ended) != 0 {
		t.Errorf("the closed endpoint got %v", served.Ended)
	}
}

// testConnListenerClosed checks that connections outlive their listener and that requests do
// not.
func testConnListenerClosed(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	client, served := a.Pair(t, b, l)
	half := a.Connect(t, l, nil)
	r := b.Request(t, a)
	accepted := a.Connect(t, l, nil)
	late := b.Accept(t, b.Request(t, a), nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryAccept(t, r, nil); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("accepting a request of a closed listener: %v", err)
	}
	if err := r.Reject(); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("rejecting a request of a closed listener: %v", err)
	}
	wantEnd(t, "the client of a dropped request", half, ucs.ErrNotConnected, a, b)
	SettleConn(a, b)
	if !client.Up() || !served.Up() {
		t.Fatalf("a connection ended with its listener: %v, %v", client.Ended, served.Ended)
	}
	UntilConn(t, "the answer", accepted.Up, a, b)
	if err := accepted.EP.Notify(); err != nil {
		t.Fatal(err)
	}
	UntilConn(t, "the notification", late.Up, a, b)
	served.EP.Close()
	wantEnd(t, "the client", client, ucs.ErrConnectionReset, a, b)
}

// testConnManagerClosed checks that Close of a manager closes all its objects and makes no
// callbacks, and that the closed manager refuses calls.
func testConnManagerClosed(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	client, served := a.Pair(t, b, l)
	opening := a.Connect(t, l, nil)
	r := b.Request(t, a)
	m := b.Manager
	b.call(func() {
		for range 2 {
			if err := m.Close(); err != nil {
				t.Errorf("closing the manager: %v", err)
			}
		}
	})
	SettleConn(b)
	if len(served.Ended) != 0 {
		t.Errorf("the closed endpoint got %v", served.Ended)
	}
	wantEnd(t, "a client", client, ucs.ErrConnectionReset, a, b)
	wantEnd(t, "a client that sent a request", opening, ucs.ErrNotConnected, a, b)
	if err := r.Reject(); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("rejecting a request of a closed manager: %v", err)
	}
	if _, err := m.Listen(l.Addr(), uct.ListenParams{OnRequest: func(uct.Listener, *uct.ConnRequest) {}}); err == nil {
		t.Error("a closed manager listens")
	}
	if _, err := m.Connect(uct.ConnectParams{Remote: l.Addr(), OnConnected: func(uct.ConnEndpoint, uct.ConnectedArgs) {}}); err == nil {
		t.Error("a closed manager connects")
	}
	if _, err := m.Accept(r, uct.AcceptParams{}); err == nil {
		t.Error("a closed manager accepts")
	}
}

// testConnCloseWithin closes endpoint, listener and manager in each callback.
func testConnCloseWithin(t *testing.T, f *ConnFixture) {
	for _, where := range []string{"Pack", "OnConnected", "OnNotify", "OnDisconnected", "OnRequest", "Accept", "refused"} {
		for _, what := range []string{"endpoint", "listener", "manager"} {
			t.Run(fmt.Sprintf("%s in %s", what, where), func(t *testing.T) {
				a, b := f.pair(t)
				done := false
				var l uct.Listener
				closing := func(h *ConnHost, ep func() uct.ConnEndpoint) {
					done = true
					switch what {
					case "endpoint":
						if ep != nil {
							ep().Close()
						}
					case "listener":
						l.Close()
					case "manager":
						h.Manager.Close()
					}
				}
				l = b.Listen(t, uct.ListenParams{
					Accept: func(uct.SourceInfo) bool {
						if where == "Accept" {
							closing(b, nil)
						}
						return true
					},
					OnRequest: func(_ uct.Listener, r *uct.ConnRequest) {
						b.Requests = append(b.Requests, r)
						if where == "OnRequest" {
							closing(b, nil)
						}
					},
				})
				then := func(h *ConnHost, e *ConnEnd) {
					e.Then = func(in string) {
						if in == where || where == "refused" && in == "OnConnected" {
							closing(h, func() uct.ConnEndpoint { return e.EP })
						}
					}
				}
				if where == "refused" {
					l.Close()
				}
				client := a.Connect(t, l, nil)
				then(a, client)
				var served *ConnEnd
				for range spinRounds + waitRounds { // run the protocol until the callback is called
					if done {
						break
					}
					progressOnce(a, b)
					if served == nil && len(b.Requests) > 0 {
						served, _ = b.TryAccept(t, b.Requests[0], nil)
						then(b, served)
					}
					if client.Up() {
						client.EP.Notify()
					}
					if served != nil && served.Up() && where == "OnDisconnected" {
						client.EP.Close()
					}
				}
				if !done {
					t.Fatalf("%s was not called", where)
				}
				SettleConn(a, b)
			})
		}
	}
}

func progressOnce(hosts ...*ConnHost) {
	if list := plainHosts(hosts); Progress(list...) == 0 {
		wait(list)
	}
}
