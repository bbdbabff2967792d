package ucttest

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// connTests is the suite of connection managers.
var connTests = []struct {
	name string
	run  func(t *testing.T, f *ConnFixture)
}{
	{"manager", testConnManager},
	{"listener", testConnListener},
	{"conversation", testConnConversation},
	{"private data", testConnPrivate},
	{"private data too long", testConnTooLong},
	{"pack fails", testConnPackFails},
	{"parameters", testConnParams},
	{"refused", testConnRefused},
	{"reject", testConnReject},
	{"policy", testConnPolicy},
	{"consumed once", testConnOnce},
	{"calls too early", testConnTooEarly},
	{"disconnect", testConnDisconnect},
	{"client gone", testConnClientGone},
	{"server gone", testConnServerGone},
	{"listener closed", testConnListenerClosed},
	{"manager closed", testConnManagerClosed},
	{"close from within", testConnCloseWithin},
	{"backlog", testConnBacklog},
	{"many", testConnMany},
	{"another worker", testConnAnotherWorker},
	{"anybody rejects", testConnAnybody},
	{"wakeup", testConnWakeup},
}

func (f *ConnFixture) pair(t *testing.T) (client, server *ConnHost) {
	return f.Open(t), f.Open(t)
}

// testConnManager checks the attributes of the component and of the manager.
func testConnManager(t *testing.T, f *ConnFixture) {
	if f.Component.Flags()&uct.ComponentFlagCM == 0 {
		t.Error("the component does not announce its manager")
	}
	h := f.Open(t)
	a := h.Manager.Attr()
	if a.Component != f.Component.Name() || a.MaxPrivate <= 0 {
		t.Errorf("attributes %+v", *a)
	}
}

func testConnListener(t *testing.T, f *ConnFixture) {
	h := f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	at := l.Addr()
	if at.Addr().Unmap() != f.Addr || at.Port() == 0 {
		t.Errorf("listens on %v, want a port of %v", at, f.Addr)
	}
	params := uct.ListenParams{OnRequest: func(uct.Listener, *uct.ConnRequest) {}}
	if _, err := f.Open(t).Manager.Listen(at, params); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("listening on a port in use: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing the listener: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing the listener again: %v", err)
	}
	again, err := h.Manager.Listen(at, params)
	if err != nil {
		t.Fatalf("listening on %v again: %v", at, err)
	}
	if again.Addr() != at {
		t.Errorf("listens on %v, want %v", again.Addr(), at)
	}
	if _, err := h.Manager.Listen(netip.MustParseAddrPort("203.0.113.77:0"), params); err == nil {
		t.Error("listening on an address of another machine succeeded")
	}
}

// testConnConversation runs the whole protocol once and checks the callbacks of both sides.
func testConnConversation(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	client := a.Connect(t, l, []byte("from the client"))
	r := b.Request(t, a)
	if string(r.Private) != "from the client" {
		t.Errorf("the request has private data %q", r.Private)
	}
	if f.Device != "" && r.Device != f.Device {
		t.Errorf("the request came over device %q, want %q", r.Device, f.Device)
	}
	if len(client.Packed) != 1 || client.Packed[0].Device != r.Device && f.Device != "" {
		t.Errorf("packed for %+v", client.Packed)
	}
	if len(r.RemoteDeviceAddr) == 0 {
		t.Error("the request has no device address")
	}
	SettleConn(a, b)
	if len(client.Opened) > 0 {
		t.Fatalf("the client was notified %v before the server replied", client.Opened)
	}
	served := b.Accept(t, r, []byte("from the server"))
	UntilConn(t, "the answer", func() bool { return len(client.Opened) > 0 }, a, b)
	if o := client.Opened[0]; o.Err != nil || string(o.Private) != "from the server" || len(o.RemoteDeviceAddr) == 0 {
		t.Errorf("the client got %+v", o)
	}
	SettleConn(a, b)
	if len(served.Opened) > 0 {
		t.Fatalf("the server was notified %v before the client notified it", served.Opened)
	}
	if err := client.EP.Notify(); err != nil {
		t.Fatalf("notifying: %v", err)
	}
	UntilConn(t, "the notification", func() bool { return len(served.Opened) > 0 }, a, b)
	SettleConn(a, b)
	if !client.Up() || !served.Up() {
		t.Errorf("the client got %v %v, the server %v %v", client.Opened, client.Ended, served.Opened, served.Ended)
	}
	c, s := client.EP, served.EP
	if c.RemoteAddr() != l.Addr() || s.LocalAddr() != c.RemoteAddr() || c.LocalAddr() != s.RemoteAddr() || r.Source.Addr != c.LocalAddr() || r.LocalAddr != s.LocalAddr() {
		t.Errorf("the client is %v to %v, the server %v to %v, listening on %v; the request of %v to %v",
			c.LocalAddr(), c.RemoteAddr(), s.LocalAddr(), s.RemoteAddr(), l.Addr(), r.Source.Addr, r.LocalAddr)
	}
	if client.Packed[0].LocalAddr != c.LocalAddr() {
		t.Errorf("packed for %v at %v", client.Packed[0].LocalAddr, c.LocalAddr())
	}
}

// testConnPrivate sends private data of sizes up to the limit, in both directions.
func testConnPrivate(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	most := b.Manager.Attr().MaxPrivate
	for _, n := range []int{0, 1, 15, 16, most / 2, most - 1, most} {
		there, back := Pattern(n, 1), Pattern(most-n, 2)
		client := a.Connect(t, l, there)
		r := b.Request(t, a)
		served := b.Accept(t, r, back)
		UntilConn(t, "the answer", func() bool { return len(client.Opened) > 0 }, a, b)
		o := client.Opened[0]
		if o.Err != nil || !bytes.Equal(r.Private, there) || !bytes.Equal(o.Private, back) {
			t.Errorf("%d bytes there and %d back: came as %d and %d, %v", n, most-n, len(r.Private), len(o.Private), o.Err)
		}
		client.EP.Close()
		served.EP.Close()
	}
	nothing := a.ConnectTo(t, uct.ConnectParams{Remote: l.Addr()}) // without Pack
	if r := b.Request(t, a); len(r.Private) != 0 {
		t.Errorf("the request of a client that packs nothing has private data %q", r.Private)
	}
	nothing.EP.Close()
}

// testConnTooLong checks that private data longer than the limit is never sent.
func testConnTooLong(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	most := b.Manager.Attr().MaxPrivate
	for _, n := range []int{most + 1, -1} {
		long := a.ConnectTo(t, uct.ConnectParams{Remote: l.Addr(), Pack: func(_ uct.PackArgs, dst []byte) (int, error) { return n, nil }})
		wantEnd(t, "packing too much", long, ucs.ErrExceedsLimit, a, b)
	}
	client := a.Connect(t, l, nil)
	r := b.Request(t, a)
	if _, err := b.TryAccept(t, r, make([]byte, most+1)); !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Fatalf("an answer that is too long: %v", err)
	}
	if _, err := b.TryAccept(t, r, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("accepting after a failure: %v", err)
	}
	wantEnd(t, "the client of a failed accept", client, ucs.ErrRejected, a, b)
	if len(b.Requests) > 0 {
		t.Errorf("%d requests came of data that was too long", len(b.Requests))
	}
}

func testConnPackFails(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	sentinel := errors.New("nothing to pack")
	e := a.ConnectTo(t, uct.ConnectParams{Remote: l.Addr(), Pack: func(uct.PackArgs, []byte) (int, error) { return 0, sentinel }})
	UntilConn(t, "the end", func() bool { return len(e.Opened) > 0 }, a, b)
	if !errors.Is(e.Opened[0].Err, sentinel) {
		t.Errorf("OnConnected got %v", e.Opened[0].Err)
	}
	SettleConn(a, b)
	if len(e.Opened) != 1 || len(e.Packed) != 1 || len(b.Requests) != 0 {
		t.Errorf("OnConnected got %v, packed %d times, %d requests", e.Opened, len(e.Packed), len(b.Requests))
	}
}

// testConnParams checks that calls with invalid parameters fail at once.
func testConnParams(t *testing.T, f *ConnFixture) {
	h := f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	on := func(uct.Listener, *uct.ConnRequest) {}
	at := netip.AddrPortFrom(f.Addr, 0)
	for what, p := range map[string]uct.ListenParams{"no OnRequest": {}, "a negative backlog": {Backlog: -1, OnRequest: on}} {
		if _, err := h.Manager.Listen(at, p); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("listening with %s: %v", what, err)
		}
	}
	if _, err := h.Manager.Listen(netip.AddrPort{}, uct.ListenParams{OnRequest: on}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("listening nowhere: %v", err)
	}
	fail := func(uct.ConnEndpoint, uct.ConnectedArgs) {
		t.Error("OnConnected was called for an endpoint that does not exist")
	}
	other := netip.MustParseAddrPort("[::1]:0")
	if f.Addr.Is6() {
		other = netip.MustParseAddrPort("127.0.0.1:0")
	}
	for what, p := range map[string]uct.ConnectParams{
		"nowhere":                    {OnConnected: fail},
		"without OnConnected":        {Remote: l.Addr()},
		"from an address of another": {Remote: l.Addr(), Local: netip.MustParseAddrPort("203.0.113.77:0"), OnConnected: fail},
		"from another family":        {Remote: l.Addr(), Local: other, OnConnected: fail},
	} {
		if ep, err := h.Manager.Connect(p); err == nil {
			t.Errorf("connecting %s gives %v", what, ep)
		}
	}
	if _, err := h.Manager.Accept(&uct.ConnRequest{}, uct.AcceptParams{}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("accepting a request of no component: %v", err)
	}
	SettleConn(h)
	// A valid local address works.
	from := h.ConnectTo(t, uct.ConnectParams{Remote: l.Addr(), Local: at})
	if r := h.Request(t); r.Source.Addr.Addr() != f.Addr {
		t.Errorf("connected from %v, not %v", r.Source.Addr, f.Addr)
	}
	from.EP.Close()
}

// testConnRefused connects to an address without a listener; Progress reports the failure.
func testConnRefused(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	e := a.Connect(t, l, nil)
	wantEnd(t, "connecting to a port without listener", e, ucs.ErrNotConnected, a, b)
	if len(e.Packed) != 0 && !f.PacksFirst {
		t.Error("packed for a port without listener")
	}
	if err := e.EP.Notify(); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("notifying without a connection: %v", err)
	}
	if err := e.EP.Disconnect(); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("disconnecting without a connection: %v", err)
	}
}

func testConnReject(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	for range 3 {
		e := a.Connect(t, l, []byte("please"))
		if err := b.Request(t, a).Reject(); err != nil {
			t.Fatalf("rejecting: %v", err)
		}
		wantEnd(t, "a rejected client", e, ucs.ErrRejected, a, b)
	}
	a.Pair(t, b, l)
}

// testConnPolicy checks that no request arrives from a client that ListenParams.Accept refuses.
func testConnPolicy(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	want := false
	var seen []uct.SourceInfo
	l := b.Listen(t, uct.ListenParams{Accept: func(s uct.SourceInfo) bool {
		seen = append(seen, s)
		return want
	}})
	e := a.Connect(t, l, nil)
	UntilConn(t, "the end", func() bool { return len(e.Opened) > 0 || len(b.Requests) > 0 }, a, b)
	SettleConn(a, b)
	if len(b.Requests) != 0 || len(seen) != 1 || !seen[0].Addr.IsValid() {
		t.Fatalf("%d requests, Accept was called for %v, the client got %+v", len(b.Requests), seen, e.Opened)
	}
	want = true
	client, _ := a.Pair(t, b, l)
	if last := seen[len(seen)-1]; last.Addr != client.EP.LocalAddr() {
		t.Errorf("Accept was called for %v, the client is %v", last.Addr, client.EP.LocalAddr())
	}
}

// testConnOnce checks that a request can be consumed only once, by Accept or Reject.
func testConnOnce(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	client := a.Connect(t, l, nil)
	r := b.Request(t, a)
	b.Accept(t, r, nil)
	again := func() {
		t.Helper()
		if _, err := b.TryAccept(t, r, nil); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("accepting a request that is consumed: %v", err)
		}
		if err := r.Reject(); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("rejecting a request that is consumed: %v", err)
		}
	}
	again()
	UntilConn(t, "the answer", client.Up, a, b)
	client = a.Connect(t, l, nil)
	r = b.Request(t, a)
	if err := r.Reject(); err != nil {
		t.Fatal(err)
	}
	again()
	wantEnd(t, "a rejected client", client, ucs.ErrRejected, a, b)
}
