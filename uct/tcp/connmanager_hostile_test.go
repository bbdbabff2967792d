//go:build linux

package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// rawEnd is a plain socket that exchanges bytes with a connection manager.
type rawEnd struct {
	t     testing.TB
	hosts []*ucttest.ConnHost
	fd    int
}

func newRawEnd(t testing.TB, fd int, hosts ...*ucttest.ConnHost) *rawEnd {
	unix.SetNonblock(fd, true)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	p := &rawEnd{t, hosts, fd}
	t.Cleanup(p.close)
	return p
}

// rawClient connects to a listener.
func rawClient(t testing.TB, l uct.Listener, hosts ...*ucttest.ConnHost) *rawEnd {
	t.Helper()
	sa, err := inet.Sockaddr(l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, sa)
	}
	if err != nil {
		t.Fatal(err)
	}
	return newRawEnd(t, fd, hosts...)
}

// rawServer listens, makes h connect and returns both ends.
func rawServer(t testing.TB, h *ucttest.ConnHost, private string) (*ucttest.ConnEnd, *rawEnd) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback4.As4()})
	}
	if err == nil {
		err = unix.Listen(fd, 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	e := h.ConnectTo(t, uct.ConnectParams{
		Remote: localAddr(t, fd),
		Pack:   func(_ uct.PackArgs, dst []byte) (int, error) { return copy(dst, private), nil },
	})
	accepted := -1
	ucttest.UntilConn(t, "a connection", func() bool {
		accepted, _, err = unix.Accept4(fd, unix.SOCK_CLOEXEC)
		return err == nil
	}, h)
	return e, newRawEnd(t, accepted, h)
}

func (p *rawEnd) close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// reset closes the connection with a reset.
func (p *rawEnd) reset() {
	resetOnClose(p.fd)
	p.close()
}

func (p *rawEnd) send(parts ...[]byte) {
	p.t.Helper()
	b := bytes.Join(parts, nil)
	ucttest.UntilConn(p.t, "raw send", func() bool {
		n, err := unix.SendmsgN(p.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		b = b[max(n, 0):]
		return len(b) == 0 || err != nil && err != unix.EAGAIN // for the rest there is no reader
	}, p.hosts...)
}

// recv returns the next n bytes, fewer if the connection ends before.
func (p *rawEnd) recv(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	got := 0
	ucttest.UntilConn(p.t, "raw receive", func() bool {
		for got < n {
			k, err := unix.Read(p.fd, b[got:])
			if err == unix.EAGAIN {
				return false
			}
			if k <= 0 {
				return true
			}
			got += k
		}
		return true
	}, p.hosts...)
	return b[:got]
}

// silent reports whether there is nothing to read, not even the end.
func (p *rawEnd) silent() bool {
	var b [1]byte
	_, _, err := unix.Recvfrom(p.fd, b[:], unix.MSG_PEEK)
	return err == unix.EAGAIN
}

// said returns a message as C sends it.
func said(status int8, private []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(private)))
	return append(append(b, byte(status), 0, 0, 0, 0, 0, 0, 0), private...)
}

// padded returns a message with arbitrary bytes where C leaves memory uninitialized.
func padded(private []byte) []byte {
	b := said(0, private)
	copy(b[9:], "garbage")
	return b
}

// TestConnManagerWire checks the bytes of whole conversations, as server and as client.
func TestConnManagerWire(t *testing.T) {
	f := connFixture(t, loopback4, "lo")
	h := f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	p := rawClient(t, l, h)
	p.send(padded([]byte("question")))
	r := h.Request(t)
	if string(r.Private) != "question" {
		t.Errorf("the request says %q", r.Private)
	}
	served := h.Accept(t, r, []byte("answer"))
	if got, want := p.recv(22), said(0, []byte("answer")); !bytes.Equal(got, want) {
		t.Errorf("answered %x, want %x", got, want)
	}
	p.send(padded(nil))
	ucttest.UntilConn(t, "the notification", served.Up, h)
	if !p.silent() {
		t.Error("more than the answer came")
	}
	unix.Shutdown(p.fd, unix.SHUT_WR)
	ucttest.UntilConn(t, "the end", func() bool { return len(served.Ended) > 0 }, h)
	if !p.silent() {
		t.Error("the connection is closed before the application has done that")
	}
	if err := served.EP.Disconnect(); err != nil {
		t.Error(err)
	}
	if got := p.recv(1); len(got) > 0 {
		t.Errorf("%x instead of the end", got)
	}

	q := rawClient(t, l, h)
	q.send(said(0, nil))
	if err := h.Request(t).Reject(); err != nil {
		t.Fatal(err)
	}
	if got, want := q.recv(17), ucttest.Unhex(t, "0000000000000000e900000000000000"); !bytes.Equal(got, want) {
		t.Errorf("rejected by %x, want %x and the end", got, want)
	}

	e, s := rawServer(t, h, "question")
	if got, want := s.recv(24), said(0, []byte("question")); !bytes.Equal(got, want) {
		t.Errorf("asked by %x, want %x", got, want)
	}
	s.send(padded([]byte("answer")))
	ucttest.UntilConn(t, "the answer", e.Up, h)
	if string(e.Opened[0].Private) != "answer" || !s.silent() {
		t.Errorf("answered %+v", e.Opened[0])
	}
	if err := e.EP.Notify(); err != nil {
		t.Fatal(err)
	}
	if got := s.recv(16); !bytes.Equal(got, make([]byte, 16)) {
		t.Errorf("notified by %x", got)
	}
	if err := e.EP.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if got := s.recv(1); len(got) > 0 {
		t.Errorf("%x instead of the end", got)
	}
	s.close()
	ucttest.UntilConn(t, "the end", func() bool { return len(e.Ended) > 0 }, h)
	if e.Ended[0] != nil {
		t.Errorf("told %v", e.Ended[0])
	}
}

// TestConnManagerSlow: a client that sends a byte at a time gets through, and does not delay
// others.
func TestConnManagerSlow(t *testing.T) {
	f := connFixture(t, loopback4, "lo")
	a, h := f.Open(t), f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	p := rawClient(t, l, h)
	b := said(0, bytes.Repeat([]byte("x"), 100))
	for i := range b {
		if len(h.Requests) > 0 {
			t.Fatalf("a request of %d bytes", i)
		}
		p.send(b[i : i+1])
		ucttest.SettleConn(h)
		if i == 50 {
			a.Pair(t, h, l)
		}
	}
	served := h.Accept(t, h.Request(t), nil)
	p.recv(16)
	for range 16 {
		if len(served.Opened) > 0 {
			t.Fatal("notified by half a notification")
		}
		p.send([]byte{0})
		ucttest.SettleConn(h)
	}
	ucttest.UntilConn(t, "the notification", served.Up, h)
}

// TestConnManagerHostileClients: invalid bytes of a client lead to no request, or end the endpoint
// of its request. The listener keeps working.
func TestConnManagerHostileClients(t *testing.T) {
	f := connFixture(t, loopback4, "lo")
	a, h := f.Open(t), f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	whole := said(0, []byte("question"))
	for what, b := range map[string][]byte{
		"half a header":       whole[:8],
		"half a message":      whole[:20],
		"garbage":             bytes.Repeat([]byte("GET / "), 1000),
		"too long":            said(0, make([]byte, 2065)),
		"endless":             append(bytes.Repeat([]byte{0xff}, 8), make([]byte, 5000)...),
		"a rejection":         said(int8(ucs.ErrRejected), nil),
		"a byte more":         append(said(0, []byte("question")), 0),
		"a message more":      append(said(0, []byte("question")), said(0, nil)...),
		"a byte over the top": append(said(0, make([]byte, 2064)), 0),
		"the other protocol":  flight(addr("127.0.0.1:5"), 0),
		"nothing":             nil,
	} {
		p := rawClient(t, l, h)
		p.send(b)
		ucttest.SettleConn(h)
		p.close()
		q := rawClient(t, l, h)
		q.send(b)
		q.reset()
		ucttest.SettleConn(h)
		if len(h.Requests) > 0 {
			t.Errorf("%s: a request that says %q", what, h.Requests[0].Private)
			h.Requests = nil
		}
	}
	a.Pair(t, h, l)
	for what, b := range map[string][]byte{
		"a notification with data": said(0, []byte{1}),
		"more than a notification": append(said(0, nil), 0),
		"a status of nothing":      said(1, nil),
		"that it has failed":       said(int8(ucs.ErrNoMemory), nil),
		"half a notification":      make([]byte, 15),
		"nothing":                  nil,
	} {
		for _, reset := range []bool{false, true} {
			p := rawClient(t, l, h)
			p.send(whole)
			served := h.Accept(t, h.Request(t), []byte("answer"))
			p.recv(22)
			if p.send(b); reset {
				p.reset()
			} else {
				p.close()
			}
			want := ucs.ErrConnectionReset // a reset may overtake the message
			if what == "that it has failed" {
				want = ucs.ErrNoMemory
			}
			ucttest.UntilConn(t, "the end", func() bool { return len(served.Opened) > 0 }, h)
			if err := served.Opened[0].Err; !errors.Is(err, want) && !(reset && errors.Is(err, ucs.ErrConnectionReset)) {
				t.Errorf("a client that says %s, reset %v: %v, want %v", what, reset, err, want)
			}
		}
	}
	p := rawClient(t, l, h)
	p.send(whole)
	served := h.Accept(t, h.Request(t), nil)
	p.send(said(0, nil))
	ucttest.UntilConn(t, "the notification", served.Up, h)
	p.send([]byte{0})
	ucttest.UntilConn(t, "the end", func() bool { return len(served.Ended) > 0 }, h)
	ucttest.WantStatus(t, "a client that says more", served.Ended[0], ucs.ErrConnectionReset)
	a.Pair(t, h, l)
}

// TestConnManagerHostileServers is the same for servers.
func TestConnManagerHostileServers(t *testing.T) {
	h := connFixture(t, loopback4, "lo").Open(t)
	for _, c := range []struct {
		what string
		b    []byte
		want ucs.Status
	}{
		{"nothing", nil, ucs.ErrNotConnected},
		{"a byte", []byte{0}, ucs.ErrConnectionReset},
		{"half a header", make([]byte, 8), ucs.ErrConnectionReset},
		{"half an answer", said(0, []byte("answer"))[:20], ucs.ErrConnectionReset},
		{"too long an answer", said(0, make([]byte, 2065)), ucs.ErrConnectionReset},
		{"a byte more", append(said(0, []byte("answer")), 0), ucs.ErrConnectionReset},
		{"garbage", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), ucs.ErrConnectionReset},
		{"no", said(int8(ucs.ErrRejected), nil), ucs.ErrRejected},
		{"no, and why", said(int8(ucs.ErrRejected), []byte("because")), ucs.ErrRejected},
		{"that it has failed", said(int8(ucs.ErrNoMemory), nil), ucs.ErrNoMemory},
		{"a status of nothing", said(1, nil), ucs.ErrConnectionReset},
	} {
		for _, reset := range []bool{false, true} {
			e, s := rawServer(t, h, "question")
			s.recv(24)
			s.send(c.b)
			if reset { // the reset may overtake the message
				ucttest.SettleConn(h)
				s.reset()
			} else {
				s.close()
			}
			ucttest.UntilConn(t, "the end", func() bool { return len(e.Opened) > 0 }, h)
			ucttest.WantStatus(t, "a server that says "+c.what, e.Opened[0].Err, c.want)
		}
	}
	e, s := rawServer(t, h, "question")
	s.recv(24)
	s.send(said(0, nil))
	ucttest.UntilConn(t, "the answer", e.Up, h)
	s.send(said(0, nil))
	ucttest.UntilConn(t, "the end", func() bool { return len(e.Ended) > 0 }, h)
	ucttest.WantStatus(t, "a server that answers twice", e.Ended[0], ucs.ErrConnectionReset)
}

// noAccounts checks at the end of the test that no account is left.
func noAccounts(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, a := range ledger.Accounts() {
			t.Errorf("the account %+v is open", a)
		}
	})
}

// TestConnManagerHalfOpen: a thousand silent clients occupy a bounded number of descriptors, and
// other clients get through.
func TestConnManagerHalfOpen(t *testing.T) {
	const many, most = 1000, 100
	if !enoughFiles(2*many + 100) {
		t.Skip("few descriptors here")
	}
	noAccounts(t)
	setLimits(t, func(b *bounds) { b.halfOpen = most })
	f := connFixture(t, loopback4, "lo")
	a, h := f.Open(t), f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	before := openFDs(t)
	var list []*rawEnd
	for i := range many {
		p := rawClient(t, l, h)
		if i%2 == 0 {
			p.send([]byte{5})
		}
		list = append(list, p)
		if i%50 == 49 {
			ucttest.SettleConn(h)
		}
	}
	ucttest.SettleConn(h)
	if held := openFDs(t) - before - many; held > most/2 {
		t.Errorf("%d connections are kept, the limit is %d", held, most/2)
	}
	if !list[many-1].silent() || list[0].silent() {
		t.Error("the oldest is kept, or the newest is not")
	}
	a.Pair(t, h, l)
	list[many-1].send(make([]byte, 15)) // a client that is merely slow
	ucttest.SettleConn(h)
	list[many-2].send(append([]byte{0, 0, 0, 0, 0, 0, 0}, make([]byte, 8+5)...))
	if r := h.Request(t); len(r.Private) != 5 {
		t.Errorf("a slow client says %q", r.Private)
	}
}

// TestConnManagerFiles: clients leave descriptors for the application, and once they have taken the
// others, room is made.
func TestConnManagerFiles(t *testing.T) {
	noAccounts(t)
	setLimits(t, func(b *bounds) { b.few = 4 })
	f := connFixture(t, loopback4, "lo")
	a, h := f.Open(t), f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	fewFiles(t, 400)
	var list []*rawEnd
	for len(list) < 250 { // each takes two descriptors here
		list = append(list, rawClient(t, l, h))
		ucttest.SettleConn(h)
		if lowestFreeFD(t) > fileCeiling()+20 {
			break
		}
	}
	if free := ucttest.Files() - openFDs(t); free < minReserve/2 {
		t.Errorf("%d descriptors are left, after %d clients", free, len(list))
	}
	for _, p := range list[:len(list)/2] {
		p.close()
	}
	ucttest.SettleConn(h)
	a.Pair(t, h, l)
}

// TestConnManagerCharged: connections are charged to their source until the application has taken
// or refused them, or they are closed.
func TestConnManagerCharged(t *testing.T) {
	noAccounts(t)
	f := connFixture(t, loopback4, "lo")
	a, h := f.Open(t), f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	charged := func(what string, want int64) {
		t.Helper()
		ucttest.SettleConn(a, h)
		acc := ledger.Open(ledger.SourceOf(netip.MustParseAddr("127.0.0.1"), -1))
		defer acc.Close()
		// The end of a connection may arrive later.
		ucttest.UntilConn(t, what, func() bool { return acc.Of(ledger.Conns) <= want && acc.Of(ledger.Files) <= want }, a, h)
		if c, f := acc.Of(ledger.Conns), acc.Of(ledger.Files); c != want || f != want {
			t.Errorf("%s: charged with %d connections and %d files, want %d", what, c, f, want)
		}
	}
	p := rawClient(t, l, h)
	charged("a visitor", 1)
	a.Connect(t, l, nil)
	a.Connect(t, l, nil)
	charged("two requests", 3)
	h.Accept(t, h.Request(t), nil)
	charged("one accepted", 2)
	h.Request(t).Reject()
	charged("one rejected", 1)
	p.close()
	charged("all gone", 0)
	a.Connect(t, l, nil)
	rawClient(t, l, h)
	charged("two more", 2)
	l.Close()
	charged("no listener", 0)
}

// TestConnManagerPause: without a free descriptor, a client waits, and the worker can sleep; an
// application's own connect returns the reason.
func TestConnManagerPause(t *testing.T) {
	setLimits(t, func(b *bounds) { b.acceptPause = time.Millisecond })
	f := connFixture(t, loopback4, "lo")
	a, h := f.Open(t), f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	a.Pair(t, h, l) // makes all descriptors that are needed once
	e := a.Connect(t, l, nil)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = uint64(lowestFreeFD(t))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	ucttest.SettleConn(a, h)
	_, err := a.Manager.Connect(uct.ConnectParams{Remote: l.Addr(), OnConnected: func(uct.ConnEndpoint, uct.ConnectedArgs) {}})
	ucttest.SettleConn(a, h)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	if !errors.Is(err, ucs.ErrIO) || !errors.Is(err, unix.EMFILE) {
		t.Errorf("connecting without a descriptor: %v", err)
	}
	if len(h.Requests) > 0 || len(e.Opened) > 0 {
		t.Fatalf("%d requests, told %v", len(h.Requests), e.Opened)
	}
	h.Accept(t, h.Request(t, a), nil)
	ucttest.UntilConn(t, "the answer", e.Up, a, h)
}

// TestConnManagerVisitorGivesWay: an endpoint of the application gets the descriptor of a client
// that has sent no request.
func TestConnManagerVisitorGivesWay(t *testing.T) {
	f := connFixture(t, loopback4, "lo")
	h := f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	h.Pair(t, h, l)
	p := rawClient(t, l, h)
	ucttest.SettleConn(h)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = uint64(lowestFreeFD(t))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	e := h.Connect(t, l, nil)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	if p.silent() {
		t.Error("the client is still there")
	}
	h.Accept(t, h.Request(t), nil)
	ucttest.UntilConn(t, "the answer", e.Up, h)
}
