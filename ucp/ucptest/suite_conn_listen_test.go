//go:build linux

package ucptest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

var listenCases = []testCase{
	{"who listens", anywhere, testListenParams},
	{"a port whose connections have ended", anywhere, testListenReuse},
	{"a handler of endpoints", anywhere, inBothModes(testListenAccepts)},
	{"a worker that accepts for another", anywhere, inBothModes(testAcceptElsewhere)},
	{"reject", anywhere, inBothModes(testConnReject)},
	{"nobody listens", anywhere, inBothModes(testConnRefused)},
	{"endpoint parameters", anywhere, testConnParams},
	{"accept twice", anywhere, testAcceptTwice},
	{"another context", anywhere, testAcceptAnotherContext},
	{"another error mode", anywhere, testAcceptAnotherMode},
	{"the client's error mode", anywhere, testAcceptClientsMode},
	{"client id", anywhere, testClientID},
	{"listener closed with requests", anywhere, testListenerClosed},
	{"listener closed in its handler", anywhere, testListenerClosedInside},
	{"listener closed behind endpoints", anywhere, testListenerGone},
	{"a worker that is being shut down", anywhere, testListenShutdown},
	{"addresses", anywhere, testConnAddresses},
	{"the application refuses connections", anywhere, testConnNotWelcome},
	{"a local address", anywhere, testConnLocalAddr},
}

func anybody(*ucp.ConnRequest) {}

func testListenParams(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	s := r.open()
	at := tr.anyPort(t)
	for what, p := range map[string]ucp.ListenerParams{
		"no address":   {OnConnRequest: anybody},
		"no handler":   {Addr: at},
		"two handlers": {Addr: at, OnConnRequest: anybody, OnAccept: func(*ucp.Endpoint) {}},
	} {
		if l, err := s.NewListener(p); l != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
	l, err := s.NewListener(ucp.ListenerParams{Addr: at, OnConnRequest: anybody})
	if err != nil {
		t.Fatal(err)
	}
	if a := l.Addr(); a.Addr() != at.Addr() || a.Port() == 0 {
		t.Errorf("it listens at %v, asked for %v", a, at)
	}
	if second, err := r.open().NewListener(ucp.ListenerParams{Addr: l.Addr(), OnConnRequest: anybody}); second != nil || !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("an address in use: %v, %v", second, err)
	}
	elsewhere := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), 0)
	if o, err := s.NewListener(ucp.ListenerParams{Addr: elsewhere, OnConnRequest: anybody}); o != nil || err == nil {
		t.Errorf("an address of another machine: %v, %v", o, err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	again, err := s.NewListener(ucp.ListenerParams{Addr: l.Addr(), OnConnRequest: anybody})
	if err != nil {
		t.Errorf("the address of a listener that was closed: %v", err)
	} else if again.Addr() != l.Addr() {
		t.Errorf("it listens at %v, not %v", again.Addr(), l.Addr())
	}
	if err := s.Worker.Close(); err != nil {
		t.Error(err)
	}
	if l, err := s.NewListener(ucp.ListenerParams{Addr: at, OnConnRequest: anybody}); l != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a closed worker: %v, %v", l, err)
	}
	again.Close()
}

// testListenReuse checks that a restarted server that had closed its connections first can listen
// at its port with ReuseAddr, and that the error without ReuseAddr names it.
func testListenReuse(t *testing.T, tr transport) {
	if tr.dialedRDMA {
		t.Skip("ports of RDMA do not rest")
	}
	r := newConnRig(t, tr)
	s := r.open()
	old, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(tr.anyPort(t)))
	if err != nil {
		t.Fatal(err)
	}
	at := old.Addr().(*net.TCPAddr).AddrPort()
	client, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	server, err := old.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server.Close() // leaves the port in TIME_WAIT
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(err)
	}
	client.Close()
	old.Close()
	p := ucp.ListenerParams{Addr: at, OnConnRequest: anybody}
	if l, err := s.NewListener(p); l != nil || !errors.Is(err, ucs.ErrBusy) || !strings.Contains(err.Error(), "ReuseAddr") {
		t.Errorf("without ReuseAddr: %v, %v", l, err)
	}
	p.ReuseAddr = true
	l, err := s.NewListener(p)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := r.open().NewListener(p); second != nil || !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("an address where somebody listens: %v, %v", second, err)
	}
	l.Close()
}

func testListenAccepts(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	var got []*ucp.Endpoint
	l, err := s.NewListener(ucp.ListenerParams{Addr: tr.anyPort(t), OnAccept: func(ep *ucp.Endpoint) { got = append(got, ep) }})
	if err != nil {
		t.Fatal(err)
	}
	there, err := c.NewEndpoint(ucp.EndpointParams{RemoteAddr: l.Addr(), ErrMode: mode})
	if err != nil {
		t.Fatal(err)
	}
	r.until("an endpoint", func() bool { return len(got) > 0 })
	r.exchange(there, s, got[0], c)
	if _, err := got[0].CloseAsync(force); (err == nil) != (mode == ucp.ErrModePeer) {
		t.Errorf("forced close of an endpoint of a client in mode %v: %v", mode, err)
	}
}

// testAcceptElsewhere checks that a request can be accepted on another worker of the context, which
// then owns the endpoint.
func testAcceptElsewhere(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h, other := s.hall(true), s.onAlso()
	for range 3 {
		there := c.dial(h, ucp.EndpointParams{ErrMode: mode})
		r.until("a request", func() bool { return len(h.requests) > 0 })
		back := h.admit(other)
		r.exchange(there, other, back, c)
	}
	r.endpoints(3, other)
	r.endpoints(0, s)
}

// testConnReject checks that the client and its operations fail with Rejected.
func testConnReject(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	for k := range 3 {
		var f failure
		there := c.dial(h, ucp.EndpointParams{ErrMode: mode, OnError: f.onError, UserData: k})
		send := r.started(there.TagSend(1, make([]byte, 8), nil))
		var closing *ucp.Request
		if k == 2 {
			closing = r.started(there.CloseAsync(nil))
		}
		r.until("a request", func() bool { return len(h.requests) > 0 })
		q := h.requests[0]
		h.requests = nil
		if err := h.Reject(q); err != nil {
			t.Error(err)
		}
		for what, again := range map[string]error{"a second reject": h.Reject(q), "ConnRequest.Reject behind it": q.Reject()} {
			if !errors.Is(again, ucs.ErrInvalidParam) {
				t.Errorf("%s: %v", what, again)
			}
		}
		if err := r.finish(send, nil); !errors.Is(err, ucs.ErrRejected) {
			t.Errorf("send: %v", err)
		}
		if closing != nil {
			if err := r.finish(closing, nil); !errors.Is(err, ucs.ErrRejected) {
				t.Errorf("close: %v", err)
			}
			continue
		}
		r.failsWith(there, &f, mode, ucs.ErrRejected)
		if k == 1 {
			r.inTheCall(there.CloseAsync(nil))
		}
	}
	if err := h.Reject(nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("rejecting nothing: %v", err)
	}
}

// failsWith waits until an endpoint has failed with one of these errors, and checks whether its
// handler was called.
func (r *rig) failsWith(ep *ucp.Endpoint, f *failure, mode ucp.ErrMode, want ...ucs.Status) {
	r.Helper()
	told := 0
	if mode == ucp.ErrModePeer {
		told = 1
	}
	r.until("the failure", func() bool { return ep.Err() != nil })
	r.eventually(func() bool { return f.calls >= told }) // an orderly end is reported a bit later
	if !isOneOf(ep.Err(), want...) {
		r.Errorf("the endpoint has failed with %v, want %v", ep.Err(), want)
	}
	if f.calls != told {
		r.Errorf("the handler ran %d times, want %d", f.calls, told)
	}
	if told > 0 && (f.err != ep.Err() || f.ep != ep) {
		r.Errorf("the handler was told %v of %v", f.err, f.ep)
	}
	if req, err := ep.TagSend(1, nil, nil); req != nil || err != ep.Err() {
		r.Errorf("a send behind the failure: %v, %v", req, err)
	}
}

func testConnRefused(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	h.Listener.Close()
	var f failure
	there := c.dial(h, ucp.EndpointParams{ErrMode: mode, OnError: f.onError})
	r.failsWith(there, &f, mode, ucs.ErrNotConnected)
	if a, err := there.RemoteAddr(); a != h.Listener.Addr() {
		t.Errorf("it has tried %v, %v", a, err)
	}
}

func testConnParams(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	at := h.Listener.Addr()
	for what, p := range map[string]ucp.EndpointParams{
		"nothing":                    {},
		"two ways":                   {RemoteAddr: at, Address: s.address()},
		"port 0":                     {RemoteAddr: netip.AddrPortFrom(at.Addr(), 0)},
		"from, but not to":           {LocalAddr: at, Address: s.address()},
		"an id by worker address":    {Address: s.address(), Flags: ucp.EndpointSendClientID},
		"another family":             {RemoteAddr: at, LocalAddr: netip.MustParseAddrPort(map[bool]string{true: "[::1]:0", false: "127.0.0.1:0"}[at.Addr().Is4()])},
		"no loopback":                {RemoteAddr: at, Flags: ucp.EndpointNoLoopback},
		"an error mode that is none": {RemoteAddr: at, ErrMode: 2},
	} {
		if ep, err := c.NewEndpoint(p); ep != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v, %v", what, ep, err)
		}
	}
	r.endpoints(0, c)
	// A failed accept consumes the request, whatever the error.
	c.dial(h, ucp.EndpointParams{})
	r.until("a request", func() bool { return len(h.requests) > 0 })
	if ep, err := s.NewEndpoint(ucp.EndpointParams{ConnRequest: h.requests[0], Address: s.address()}); ep != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("two ways: %v, %v", ep, err)
	}
	if err := h.requests[0].Reject(); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("rejecting what was consumed: %v", err)
	}
}

func testAcceptTwice(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	r.until("a request", func() bool { return len(h.requests) > 0 })
	q := h.requests[0]
	back := h.admit(s)
	if ep, err := s.NewEndpoint(ucp.EndpointParams{ConnRequest: q, ErrMode: ucp.ErrModePeer}); ep != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a second endpoint: %v, %v", ep, err)
	}
	if err := h.Reject(q); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("rejecting who was accepted: %v", err)
	}
	r.exchange(there, s, back, c)
	r.endpoints(1, s)
}

// testAcceptAnotherContext checks that accepting on a worker of another context fails and rejects
// the client.
func testAcceptAnotherContext(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s, o := r.open(), r.open(), r.open()
	h := s.hall(true)
	var f failure
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
	r.until("a request", func() bool { return len(h.requests) > 0 })
	if ep, err := o.NewEndpoint(ucp.EndpointParams{ConnRequest: h.requests[0], ErrMode: ucp.ErrModePeer}); ep != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("accepting on another context: %v, %v", ep, err)
	}
	r.failsWith(there, &f, ucp.ErrModePeer, ucs.ErrRejected)
	r.endpoints(0, s, o)
}

// testAcceptAnotherMode checks that accepting in another error mode than the client's fails and
// rejects the client.
func testAcceptAnotherMode(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	for _, mode := range bothModes {
		var f failure
		there := c.dial(h, ucp.EndpointParams{ErrMode: mode, OnError: f.onError})
		r.until("a request", func() bool { return len(h.requests) > 0 })
		q := h.requests[0]
		h.requests = nil
		if q.ErrMode() != mode {
			t.Errorf("the request says mode %v, the client %v", q.ErrMode(), mode)
		}
		if mode == ucp.ErrModePeer {
			q.Reject() // the other mode is the zero value: testAcceptClientsMode
		} else if ep, err := s.NewEndpoint(ucp.EndpointParams{ConnRequest: q, ErrMode: ucp.ErrModePeer}); ep != nil || !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("accepting in another mode: %v, %v", ep, err)
		}
		r.failsWith(there, &f, mode, ucs.ErrRejected)
	}
	r.endpoints(0, s)
}

// testAcceptClientsMode checks that an endpoint that is accepted without a mode gets that of the
// client, as in C UCX, and that its error handler is called when the client has ended.
func testAcceptClientsMode(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	r.until("a request", func() bool { return len(h.requests) > 0 })
	var f failure
	back, err := s.NewEndpoint(ucp.EndpointParams{ConnRequest: h.requests[0], OnError: f.onError})
	if err != nil {
		t.Fatal(err)
	}
	r.exchange(there, s, back, c)
	there.Close()
	r.until("the end of the connection", func() bool { return f.calls > 0 })
	if err := back.Close(); err != nil {
		t.Error(err)
	}
}

func testClientID(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c := r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{ClientID: 0xFEED_F00D_1234_5678})
	s := r.open()
	h := s.hall(true)
	for flags, want := range map[ucp.EndpointFlags]uint64{0: 0, ucp.EndpointSendClientID: 0xFEED_F00D_1234_5678} {
		there := c.dial(h, ucp.EndpointParams{Flags: flags})
		r.until("a request", func() bool { return len(h.requests) > 0 })
		if got := h.requests[0].ClientID(); got != want {
			t.Errorf("flags %v: client id %#x, want %#x", flags, got, want)
		}
		r.exchange(there, s, h.admit(s), c)
	}
}

// testListenerClosed checks that clients with pending requests fail when the listener is closed,
// and that their requests can no longer be used.
func testListenerClosed(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	var fails [3]failure
	var there []*ucp.Endpoint
	for k := range fails {
		there = append(there, c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: fails[k].onError}))
	}
	r.until("the requests", func() bool { return len(h.requests) == len(fails) })
	if err := h.Listener.Close(); err != nil {
		t.Error(err)
	}
	if ep, err := s.NewEndpoint(ucp.EndpointParams{ConnRequest: h.requests[0], ErrMode: ucp.ErrModePeer}); ep != nil || !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("accepting behind the listener: %v, %v", ep, err)
	}
	if err := h.requests[1].Reject(); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("rejecting behind the listener: %v", err)
	}
	for k, ep := range there {
		r.failsWith(ep, &fails[k], ucp.ErrModePeer, ucs.ErrRejected, ucs.ErrNotConnected, ucs.ErrConnectionReset)
	}
	r.endpoints(0, s)
}

// testListenerClosedInside checks a listener that its own handler closes, with a request that is
// pending or already accepted.
func testListenerClosedInside(t *testing.T, tr transport) {
	for _, accepts := range []bool{false, true} {
		r := newConnRig(t, tr)
		c, s := r.open(), r.open()
		var l *ucp.Listener
		var back *ucp.Endpoint
		l, err := s.NewListener(ucp.ListenerParams{Addr: tr.anyPort(t), OnConnRequest: func(q *ucp.ConnRequest) {
			if accepts {
				var err error
				if back, err = s.NewEndpoint(ucp.EndpointParams{ConnRequest: q, ErrMode: ucp.ErrModePeer}); err != nil {
					t.Error(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		var f failure
		there, err := c.NewEndpoint(ucp.EndpointParams{RemoteAddr: l.Addr(), ErrMode: ucp.ErrModePeer, OnError: f.onError})
		if err != nil {
			t.Fatal(err)
		}
		if accepts {
			r.until("an endpoint", func() bool { return back != nil })
			r.exchange(there, s, back, c)
		} else {
			r.failsWith(there, &f, ucp.ErrModePeer, ucs.ErrRejected, ucs.ErrNotConnected, ucs.ErrConnectionReset)
		}
	}
}

// testListenerGone checks that accepted endpoints outlive the listener, whatever their stage.
func testListenerGone(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(false)
	there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	late := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	r.until("the last endpoint", func() bool { return len(h.eps) == 2 })
	if err := h.Listener.Close(); err != nil {
		t.Error(err)
	}
	r.swap(there, s, back, c)
	r.swap(late, s, h.eps[1], c)
}

// testListenShutdown checks that no client is accepted during a shutdown, which might not end
// otherwise.
func testListenShutdown(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	l, err := s.NewListener(ucp.ListenerParams{Addr: tr.anyPort(t), OnAccept: func(*ucp.Endpoint) {}})
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (*ucp.Endpoint, *failure) {
		f := new(failure)
		ep, err := c.NewEndpoint(ucp.EndpointParams{RemoteAddr: l.Addr(), ErrMode: ucp.ErrModePeer, OnError: f.onError})
		if err != nil {
			t.Fatal(err)
		}
		return ep, f
	}
	dial()
	r.until("an endpoint", func() bool { return s.Stats().Endpoints == 1 })
	over := make(chan error, 1)
	stop := c.leads()
	// The first connection is closed in order; later clients are not accepted.
	go func() { over <- s.Worker.Shutdown(t.Context()) }()
	if err := <-over; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	stop()
	s.close()
	r.sides = r.sides[:1]
	ep, f := dial()
	r.failsWith(ep, f, ucp.ErrModePeer, ucs.ErrNotConnected)
}

// testConnAddresses checks the addresses of both ends of a connection at all times.
func testConnAddresses(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	if a, err := there.LocalAddr(); a.IsValid() || !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("before it is connected: %v, %v", a, err)
	}
	r.until("a request", func() bool { return len(h.requests) > 0 })
	from, err := h.requests[0].ClientAddr()
	if err != nil {
		t.Error(err)
	}
	// With RDMA it is unknown whether the peer is local.
	if p := h.requests[0].Peer(); p.Local == tr.dialedRDMA || p.Addr != from {
		t.Errorf("the client is %+v", p)
	}
	back := h.admit(s)
	r.exchange(there, s, back, c)
	check := func(when string) {
		t.Helper()
		for what, a := range map[string][2]netip.AddrPort{
			"client": {r.addr(there.LocalAddr), r.addr(back.RemoteAddr)},
			"server": {r.addr(back.LocalAddr), r.addr(there.RemoteAddr)},
			"source": {r.addr(there.LocalAddr), from},
			"door":   {r.addr(back.LocalAddr), h.Listener.Addr()},
		} {
			if a[0] != a[1] {
				t.Errorf("%s, %s: %v and %v", when, what, a[0], a[1])
			}
		}
	}
	check("connected")
	r.must(there.CloseAsync(nil))
	r.until("the other end's failure", func() bool { return back.Err() != nil })
	check("failed")
	r.inTheCall(back.CloseAsync(nil))
	check("closed")
	for _, get := range []func() (netip.AddrPort, error){c.connect(s).LocalAddr, s.connect(c).RemoteAddr} {
		if a, err := get(); a.IsValid() || !errors.Is(err, ucs.ErrNotConnected) {
			t.Errorf("an endpoint by worker address: %v, %v", a, err)
		}
	}
}

// addr returns an address of an endpoint, once it is known.
func (r *rig) addr(get func() (netip.AddrPort, error)) netip.AddrPort {
	r.Helper()
	a, err := get()
	if err != nil {
		r.Error(err)
	}
	return a
}

// testConnNotWelcome checks that WorkerParams.Accept also decides about connections of the
// connection manager.
func testConnNotWelcome(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c := r.open()
	s := r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{Accept: func(ucp.PeerInfo) bool { return false }})
	h := s.hall(true)
	var f failure
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
	want := []ucs.Status{ucs.ErrNotConnected, ucs.ErrConnectionReset}
	if tr.dialedRDMA { // its refusal is not the end of the connection
		want = []ucs.Status{ucs.ErrRejected}
	}
	r.failsWith(there, &f, ucp.ErrModePeer, want...)
	if len(h.requests) > 0 {
		t.Error("the request has arrived")
	}
}

func testConnLocalAddr(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(true)
	first := c.dial(h, ucp.EndpointParams{LocalAddr: tr.anyPort(t)})
	r.until("a request", func() bool { return len(h.requests) > 0 })
	from, err := h.requests[0].ClientAddr()
	if err != nil || from.Addr() != tr.anyPort(t).Addr() {
		t.Errorf("the client is at %v, %v, want %v", from, err, tr.anyPort(t))
	}
	r.exchange(first, s, h.admit(s), c)
	// The first client already has a connection from this address to the server.
	var f failure
	second, err := c.NewEndpoint(ucp.EndpointParams{RemoteAddr: h.Listener.Addr(), LocalAddr: from, ErrMode: ucp.ErrModePeer, OnError: f.onError})
	inUse, foreign := ucs.ErrIO, ucs.ErrInvalidAddr
	if tr.dialedRDMA { // whose kernel reports it at bind
		inUse, foreign = ucs.ErrBusy, ucs.ErrNoDevice
	}
	if second != nil || !errors.Is(err, inUse) {
		t.Errorf("from an address in use: %v, %v", second, err)
	}
	elsewhere := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), 0)
	if tr.listen.IsValid() {
		elsewhere = netip.MustParseAddrPort("[2001:db8::1]:0")
	}
	if ep, err := c.NewEndpoint(ucp.EndpointParams{RemoteAddr: h.Listener.Addr(), LocalAddr: elsewhere}); ep != nil || !errors.Is(err, foreign) {
		t.Errorf("from another machine: %v, %v", ep, err)
	}
	r.endpoints(1, c)
}
