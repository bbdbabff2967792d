//go:build linux

package rdmacm_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// suite contains the tests that run on every rig.
var suite = []struct {
	name string
	test func(*testing.T, *rig)
}{
	{"Connect", testConnect}, {"DisconnectServer", testDisconnectServer}, {"Vanish", testVanish}, {"Reject", testReject},
	{"Nobody", testNobody}, {"Cancel", testCancel}, {"Async", testAsync}, {"Datagrams", testDatagrams},
	{"DatagramsRefused", testDatagramsRefused}, {"ListenerCloses", testListenerCloses}, {"Migrate", testMigrate}, {"Readers", testReaders},
	{"Multicast", testMulticast}, {"Options", testOptions}, {"Config", testConfig}, {"Limits", testLimits},
	{"Closed", testClosed}, {"Many", testMany},
}

// begins reports whether private data is a text followed by zeros.
func begins(data []byte, text string) bool {
	return bytes.HasPrefix(data, []byte(text)) && len(bytes.Trim(data[len(text):], "\x00")) == 0
}

// testConnect checks that data of the handshake and of the connection arrives in both directions,
// and that the client can end the connection.
func testConnect(t *testing.T, r *rig) {
	l := r.listen(t)
	p := r.connect(t, l)
	defer p.close(t)
	if c := p.server.Peer(); !begins(c.PrivateData, "question") || c.QPN != p.a.qp.QPN() || c.ResponderResources != 5 ||
		c.InitiatorDepth != 4 || c.RNRRetryCount != 6 {
		t.Errorf("the request: %+v", c)
	}
	if c := p.client.Peer(); !begins(c.PrivateData, "answer") || c.QPN != p.b.qp.QPN() || c.ResponderResources != 2 ||
		c.InitiatorDepth != 3 {
		t.Errorf("the answer: %+v", c)
	}
	for _, e := range []struct {
		*end
		reads, served uint8
	}{{p.a, 3, 2}, {p.b, 2, 3}} {
		a := must(e.qp.Query(verbs.QPAttrMaxRdAtomic | verbs.QPAttrMaxDestRdAtomic))(t)
		// rxe rounds up to a power of 2.
		if a.MaxRdAtomic < e.reads || a.MaxRdAtomic > 4 || a.MaxDestRdAtomic < e.served || a.MaxDestRdAtomic > 4 {
			t.Errorf("%d reads, room for %d; want %d and %d", a.MaxRdAtomic, a.MaxDestRdAtomic, e.reads, e.served)
		}
	}
	ca, sa := p.client.Addr(), p.server.Addr()
	// For a request the kernel does not report the zones of its addresses.
	bare := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().WithZone(""), a.Port()) }
	if ca.Dst != l.Addr() || bare(sa.Src) != bare(l.Addr()) || ca.Src.Addr() != r.client || bare(sa.Dst) != bare(ca.Src) {
		t.Errorf("addresses %+v and %+v, listening at %v", ca, sa, l.Addr())
	}
	if ca.NodeGUID == 0 || ca.Port != 1 || sa.Port != 1 {
		t.Errorf("devices %+v and %+v", ca, sa)
	}
	paths := must(p.client.ID().QueryRoute())(t)
	if len(paths) != 1 || paths[0].DGID != verbs.GIDFromAddr(r.server.WithZone("")) || paths[0].SGID != verbs.GIDFromAddr(r.client.WithZone("")) ||
		paths[0].MTU.Bytes() == 0 {
		t.Errorf("ways %+v", paths)
	}
	talk(t, p.a, p.b, "there")
	talk(t, p.b, p.a, "and back")
	ended := make(chan error)
	go func() { ended <- p.server.Disconnect(timeout(t)) }() // both may do it at once
	check(t, p.client.Disconnect(timeout(t)))
	check(t, <-ended)
	if p.a.qp.State() != verbs.QPErr {
		t.Errorf("the queue pair is in %v", p.a.qp.State())
	}
}

// testDisconnectServer checks that the client notices when the server ends the connection.
func testDisconnectServer(t *testing.T, r *rig) {
	p := r.connect(t, r.listen(t))
	defer p.close(t)
	ended := make(chan error)
	go func() { ended <- p.server.Disconnect(timeout(t)) }()
	check(t, p.client.Wait(timeout(t)))
	check(t, p.client.Wait(timeout(t))) // returns again
	check(t, p.client.Disconnect(timeout(t)))
	check(t, <-ended)
}

// testVanish checks that an end that only closes is noticed.
func testVanish(t *testing.T, r *rig) {
	p := r.connect(t, r.listen(t))
	check(t, p.server.Close())
	check(t, p.client.Wait(timeout(t)))
	p.client.Disconnect(timeout(t))
	p.close(t)
}

// testReject checks that a rejection carries data.
func testReject(t *testing.T, r *rig) {
	l := r.listen(t)
	for _, data := range []string{"", "not today", strings.Repeat("x", rdmacm.MaxRejectData)} {
		failed := make(chan error)
		go func() {
			c, err := l.GetRequest(timeout(t))
			if err == nil {
				err = c.Reject([]byte(data))
			}
			failed <- err
		}()
		c := must(rdmacm.Resolve(timeout(t), l.Addr(), r.config()))(t)
		e := r.newEnd(t, c.Addr(), verbs.RC)
		err := c.Connect(timeout(t), e.qp, nil)
		var rejected *rdmacm.RejectedError
		if !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectConsumerDefined || !begins(rejected.PrivateData, data) {
			t.Errorf("rejected with %q: %v", data, err)
		}
		wantErr(t, err, ucs.ErrRejected, "rejection")
		check(t, <-failed)
		check(t, c.Close())
		e.close(t)
	}
	// Closing a request rejects it, too.
	failed := make(chan error)
	go func() {
		c, err := l.GetRequest(timeout(t))
		if err == nil {
			err = c.Close()
		}
		failed <- err
	}()
	c := must(rdmacm.Resolve(timeout(t), l.Addr(), r.config()))(t)
	e := r.newEnd(t, c.Addr(), verbs.RC)
	wantErr(t, c.Connect(timeout(t), e.qp, nil), ucs.ErrRejected, "a closed request")
	check(t, <-failed)
	check(t, c.Close())
	e.close(t)
}

// testNobody connects to an address without a listener.
func testNobody(t *testing.T, r *rig) {
	l := r.listen(t)
	check(t, l.Close())
	c := must(rdmacm.Resolve(timeout(t), l.Addr(), r.config()))(t)
	e := r.newEnd(t, c.Addr(), verbs.RC)
	err := c.Connect(timeout(t), e.qp, nil)
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectInvalidServiceID {
		t.Errorf("nobody listens: %v", err)
	}
	wantErr(t, err, ucs.ErrRejected, "no listener")
	wantErr(t, c.Connect(timeout(t), e.qp, nil), ucs.ErrInvalidParam, "once more")
	check(t, c.Close())
	e.close(t)
}

// testCancel checks that a context ends each call that waits.
func testCancel(t *testing.T, r *rig) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	l := r.listen(t)
	_, err := rdmacm.Resolve(gone, l.Addr(), r.config())
	wantErr(t, err, ucs.ErrCanceled, "resolving")
	wantErr(t, err, context.Canceled, "resolving")
	_, err = l.GetRequest(gone)
	wantErr(t, err, ucs.ErrCanceled, "a request")
	short, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	_, err = l.GetRequest(short)
	wantErr(t, err, ucs.ErrTimedOut, "a request")

	// Behind another goroutine that waits.
	first := make(chan error)
	waiting, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := l.GetRequest(waiting)
		first <- err
	}()
	short, stop = context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	_, err = l.GetRequest(short)
	wantErr(t, err, ucs.ErrTimedOut, "a request")
	cancel()
	wantErr(t, <-first, ucs.ErrCanceled, "a request")

	// The peer does not answer.
	c := must(rdmacm.Resolve(timeout(t), l.Addr(), r.config()))(t)
	e := r.newEnd(t, c.Addr(), verbs.RC)
	waiting, cancel = context.WithCancel(context.Background())
	failed := make(chan error)
	go func() { failed <- c.Connect(waiting, e.qp, nil) }()
	request := must(l.GetRequest(timeout(t)))(t)
	cancel()
	wantErr(t, <-failed, ucs.ErrCanceled, "connecting")
	// The client is closed before the server accepts.
	check(t, c.Close())
	f := r.newEnd(t, request.Addr(), verbs.RC)
	if err := request.Accept(timeout(t), f.qp, nil); err == nil {
		t.Error("a request of nobody is accepted")
	}
	check(t, request.Close())
	// The client does not confirm the answer.
	ch := must(r.channel())(t)
	id := must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	check(t, id.ResolveAddr(netip.AddrPortFrom(r.client, 0), l.Addr(), eventTimeout))
	next(t, ch, rdmacm.EventAddrResolved)
	check(t, id.ResolveRoute(eventTimeout))
	next(t, ch, rdmacm.EventRouteResolved)
	param := rdmacm.DefaultConnParam()
	g := r.newEnd(t, must(id.QueryAddr())(t), verbs.RC)
	param.QPN = g.qp.QPN()
	check(t, id.Connect(&param))
	request = must(l.GetRequest(timeout(t)))(t)
	h := r.newEnd(t, request.Addr(), verbs.RC)
	waiting, cancel = context.WithCancel(context.Background())
	go func() { failed <- request.Accept(waiting, h.qp, nil) }()
	next(t, ch, rdmacm.EventConnectResponse)
	cancel()
	wantErr(t, <-failed, ucs.ErrCanceled, "accepting")
	check(t, request.Close())
	wantErr(t, next(t, ch, rdmacm.EventRejected).Err(), ucs.ErrRejected, "an answer that is taken back")
	check(t, ch.Close())
	// A connection that does not end, and one whose peer does not see its end.
	p := r.connect(t, l)
	short, stop = context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	wantErr(t, p.client.Wait(short), ucs.ErrTimedOut, "a connection's end")
	wantErr(t, p.client.Disconnect(short), ucs.ErrTimedOut, "a connection's end that is not answered")
	p.close(t)
	for _, e := range []*end{e, f, g, h} {
		e.close(t)
	}
}

// readable reports whether a descriptor is readable.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(fds, 0); err != unix.EINTR {
			check(t, err)
			return n > 0
		}
	}
}

// testAsync does a handshake with events on one channel for all IDs, waiting only in poll(2).
func testAsync(t *testing.T, r *rig) {
	for _, ps := range []rdmacm.PortSpace{rdmacm.PortSpaceTCP, rdmacm.PortSpaceIB} {
		async(t, r, ps)
	}
}

func async(t *testing.T, r *rig, ps rdmacm.PortSpace) {
	ch := must(r.channel())(t)
	defer ch.Close()
	listener := must(ch.CreateID(ps, 0))(t)
	check(t, listener.BindAddr(netip.AddrPortFrom(r.server, 0)))
	check(t, listener.Listen(1))
	client := must(ch.CreateID(ps, 0))(t)
	client.Context = "client"
	if _, err := ch.PollEvent(); !errors.Is(err, ucs.ErrNoMessage) || readable(t, ch.FD()) {
		t.Fatalf("an empty channel: %v", err)
	}
	check(t, client.ResolveAddr(netip.AddrPortFrom(r.client, 0), must(listener.LocalAddr())(t), eventTimeout))
	var server *rdmacm.ID
	var a, b *end
	param := func(e *end) *rdmacm.ConnParam {
		p := rdmacm.DefaultConnParam()
		p.QPN, p.ResponderResources, p.InitiatorDepth = e.qp.QPN(), 2, 1
		return &p
	}
	var trace []string
	done := false
	for !done {
		fds := []unix.PollFd{{Fd: int32(ch.FD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(eventTimeout/time.Millisecond)); err == unix.EINTR {
			continue
		}
		e := must(ch.PollEvent())(t)
		if e.Type != rdmacm.EventDisconnected {
			check(t, e.Err())
		}
		trace = append(trace, e.Type.String())
		switch e.Type {
		case rdmacm.EventAddrResolved:
			if e.ID.Context != "client" {
				t.Error("another ID")
			}
			check(t, e.ID.ResolveRoute(eventTimeout))
		case rdmacm.EventRouteResolved:
			a = r.newEnd(t, must(e.ID.QueryAddr())(t), verbs.RC)
			check(t, e.ID.InitQP(a.qp))
			a.recv(t)
			check(t, e.ID.Connect(param(a)))
		case rdmacm.EventConnectRequest:
			server = e.ID
			if e.Listener != listener || e.Conn.ResponderResources != 1 || e.Conn.InitiatorDepth != 2 {
				t.Errorf("the request: %+v", e)
			}
			b = r.newEnd(t, must(server.QueryAddr())(t), verbs.RC)
			check(t, server.InitQP(b.qp))
			b.recv(t)
			check(t, server.ConnectQP(b.qp, param(b)))
			check(t, server.Accept(param(b)))
		case rdmacm.EventConnectResponse:
			check(t, e.ID.ConnectQP(a.qp, nil))
			check(t, e.ID.Establish())
		case rdmacm.EventEstablished:
			if e.ID != server {
				t.Error("another ID is established")
			}
			talk(t, a, b, "hello")
			talk(t, b, a, "hello yourself")
			check(t, client.Disconnect())
		case rdmacm.EventDisconnected:
			if e.ID == server {
				check(t, server.Disconnect())
			}
			done = len(trace) > 6
		}
	}
	want := "ADDR_RESOLVED ROUTE_RESOLVED CONNECT_REQUEST CONNECT_RESPONSE ESTABLISHED DISCONNECTED DISCONNECTED"
	if got := strings.Join(trace, " "); got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	for _, id := range []*rdmacm.ID{client, server, listener, listener} {
		check(t, id.Close())
	}
	a.close(t)
	b.close(t)
}

// udPair creates a datagram listener, and a client that has resolved its address.
func udPair(t *testing.T, r *rig) (ch *rdmacm.EventChannel, listener, client *rdmacm.ID) {
	t.Helper()
	ch = must(r.channel())(t)
	t.Cleanup(func() { ch.Close() })
	listener = must(ch.CreateID(rdmacm.PortSpaceUDP, 0))(t)
	check(t, listener.BindAddr(netip.AddrPortFrom(r.server, 0)))
	check(t, listener.Listen(4))
	client = must(ch.CreateID(rdmacm.PortSpaceUDP, 0))(t)
	check(t, client.ResolveAddr(netip.AddrPortFrom(r.client, 0), must(listener.LocalAddr())(t), eventTimeout))
	next(t, ch, rdmacm.EventAddrResolved)
	check(t, client.ResolveRoute(eventTimeout))
	next(t, ch, rdmacm.EventRouteResolved)
	return ch, listener, client
}

// testDatagrams checks that the handshake returns the address for datagrams.
func testDatagrams(t *testing.T, r *rig) {
	ch, _, client := udPair(t, r)
	a := r.newEnd(t, must(client.QueryAddr())(t), verbs.UD)
	check(t, client.InitQP(a.qp))
	check(t, client.Connect(&rdmacm.ConnParam{QPN: a.qp.QPN(), PrivateData: []byte("where are you?")}))
	e := next(t, ch, rdmacm.EventConnectRequest)
	if !begins(e.PrivateData(), "where are you?") {
		t.Errorf("the request: %q", e.PrivateData())
	}
	server := e.ID
	b := r.newEnd(t, must(server.QueryAddr())(t), verbs.UD)
	check(t, server.InitQP(b.qp))
	b.recv(t)
	check(t, server.Accept(&rdmacm.ConnParam{QPN: b.qp.QPN(), PrivateData: []byte("here")}))
	e = next(t, ch, rdmacm.EventEstablished)
	if e.UD.QPN != b.qp.QPN() || !begins(e.PrivateData(), "here") || e.ID != client {
		t.Fatalf("the answer: %+v", e)
	}
	ah := must(a.pd.CreateAH(&e.UD.AH))(t)
	a.send(t, "a datagram", verbs.SendWR{AH: ah, RemoteQPN: e.UD.QPN, RemoteQKey: e.UD.QKey})
	a.done(t, verbs.WCSend)
	wc := b.done(t, verbs.WCRecv)
	if got := string(b.buf[verbs.GRHLength:wc.ByteLen]); got != "a datagram" || wc.SrcQPN != a.qp.QPN() {
		t.Errorf("received %q from %#x", got, wc.SrcQPN)
	}
	check(t, ah.Close())
	check(t, server.Close())
	check(t, client.Close())
	a.close(t)
	b.close(t)
}

// testDatagramsRefused checks rejections by the program, and those without a listener.
func testDatagramsRefused(t *testing.T, r *rig) {
	ch, listener, client := udPair(t, r)
	a := r.newEnd(t, must(client.QueryAddr())(t), verbs.UD)
	check(t, client.InitQP(a.qp))
	check(t, client.Connect(&rdmacm.ConnParam{QPN: a.qp.QPN()}))
	e := next(t, ch, rdmacm.EventConnectRequest)
	check(t, e.ID.Reject([]byte("no")))
	check(t, e.ID.Close())
	e = next(t, ch, rdmacm.EventUnreachable)
	var rejected *rdmacm.RejectedError
	if !errors.As(e.Err(), &rejected) || rejected.SIDR != 2 || !begins(rejected.PrivateData, "no") {
		t.Errorf("%v: %+v", e.Err(), e)
	}
	where := must(listener.LocalAddr())(t)
	check(t, listener.Close())
	check(t, client.Close())
	client = must(ch.CreateID(rdmacm.PortSpaceUDP, 0))(t)
	check(t, client.ResolveAddr(netip.AddrPortFrom(r.client, 0), where, eventTimeout))
	next(t, ch, rdmacm.EventAddrResolved)
	check(t, client.ResolveRoute(eventTimeout))
	next(t, ch, rdmacm.EventRouteResolved)
	check(t, client.Connect(&rdmacm.ConnParam{QPN: a.qp.QPN()}))
	e = next(t, ch, rdmacm.EventUnreachable)
	wantErr(t, e.Err(), ucs.ErrRejected, "no listener")
	check(t, client.Close())
	a.close(t)
}

// testListenerCloses checks that clients that wait to be accepted are rejected when the listener
// closes, whether their requests have been read or not.
func testListenerCloses(t *testing.T, r *rig) {
	ch := must(r.channel())(t)
	defer ch.Close()
	listener := must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	check(t, listener.BindAddr(netip.AddrPortFrom(r.server, 0)))
	check(t, listener.Listen(2))
	c := must(rdmacm.Resolve(timeout(t), must(listener.LocalAddr())(t), r.config()))(t)
	e := r.newEnd(t, c.Addr(), verbs.RC)
	failed := make(chan error)
	go func() { failed <- c.Connect(timeout(t), e.qp, nil) }()
	for deadline := time.Now().Add(eventTimeout); !readable(t, ch.FD()); {
		if time.Now().After(deadline) {
			t.Fatal("no request")
		}
	}
	check(t, listener.Close())
	wantErr(t, <-failed, ucs.ErrRejected, "a listener that has closed")
	if _, err := ch.PollEvent(); !errors.Is(err, ucs.ErrNoMessage) {
		t.Errorf("an event of a closed listener: %v", err)
	}
	check(t, c.Close())
	e.close(t)
}

// testMigrate checks that an unread event moves with its ID to another channel, even if a goroutine
// already waits there.
func testMigrate(t *testing.T, r *rig) {
	for _, waits := range []bool{false, true} {
		from, to := must(r.channel())(t), must(r.channel())(t)
		id := must(from.CreateID(rdmacm.PortSpaceTCP, 0))(t)
		check(t, id.ResolveAddr(netip.AddrPortFrom(r.client, 0), netip.AddrPortFrom(r.server, 7471), eventTimeout))
		for deadline := time.Now().Add(eventTimeout); !readable(t, from.FD()); {
			if time.Now().After(deadline) {
				t.Fatal("no event")
			}
		}
		got := make(chan error, 1)
		read := func() {
			e, err := to.GetEvent(timeout(t))
			if err == nil && (e.ID != id || e.Type != rdmacm.EventAddrResolved) {
				err = errors.New(e.Type.String())
			}
			got <- err
		}
		if waits {
			go read()
		}
		check(t, id.Migrate(to))
		if !waits {
			read()
		}
		check(t, <-got)
		if _, err := from.PollEvent(); !errors.Is(err, ucs.ErrNoMessage) || id.Channel() != to {
			t.Errorf("the old channel: %v", err)
		}
		check(t, from.Close())
		check(t, id.ResolveRoute(eventTimeout))
		next(t, to, rdmacm.EventRouteResolved)
		wantErr(t, id.Migrate(from), ucs.ErrCanceled, "to a closed channel")
		check(t, id.Close())
		check(t, to.Close())
	}
}

// testReaders checks that no event is lost or duplicated while the contexts of readers end all the
// time and IDs move.
func testReaders(t *testing.T, r *rig) {
	const ids, readers = 32, 4
	from, to := must(r.channel())(t), must(r.channel())(t)
	defer from.Close()
	defer to.Close()
	all, stop := context.WithCancel(timeout(t))
	defer stop()
	seen := make(chan *rdmacm.ID, 2*ids)
	failed := make(chan error, 2*readers)
	for n := range 2 * readers {
		ch := []*rdmacm.EventChannel{from, to}[n%2]
		go func() {
			for wait := time.Microsecond; ; wait = wait*2%time.Millisecond + 1 {
				ctx, cancel := context.WithTimeout(all, wait)
				e, err := ch.GetEvent(ctx)
				cancel()
				switch {
				case err == nil && e.Type == rdmacm.EventAddrResolved:
					seen <- e.ID
				case err == nil:
					failed <- errors.New(e.Type.String())
					return
				case all.Err() != nil:
					failed <- nil
					return
				case !errors.Is(err, ucs.ErrTimedOut):
					failed <- err
					return
				}
			}
		}()
	}
	want := make(map[*rdmacm.ID]bool)
	for range ids {
		id := must(from.CreateID(rdmacm.PortSpaceTCP, 0))(t)
		want[id] = true
		check(t, id.ResolveAddr(netip.AddrPortFrom(r.client, 0), netip.AddrPortFrom(r.server, 7471), eventTimeout))
		check(t, id.Migrate(to))
	}
	for range ids {
		select {
		case id := <-seen:
			if !want[id] {
				t.Error("an event twice, or of another ID")
			}
			delete(want, id)
		case err := <-failed:
			t.Fatal(err)
		case <-all.Done():
			t.Fatalf("%d events are lost", len(want))
		}
	}
	stop()
	for range 2 * readers {
		check(t, <-failed)
	}
	if len(seen) > 0 {
		t.Errorf("%d events too many", len(seen))
	}
}

// testMulticast joins a group and sends to it.
func testMulticast(t *testing.T, r *rig) {
	ch := must(r.channel())(t)
	defer ch.Close()
	id := must(ch.CreateID(rdmacm.PortSpaceUDP, 0))(t)
	check(t, id.BindAddr(netip.AddrPortFrom(r.server, 0)))
	a := r.newEnd(t, must(id.QueryAddr())(t), verbs.UD)
	check(t, id.InitQP(a.qp))
	group := netip.MustParseAddr("239.1.2.3")
	if r.server.Is6() {
		group = netip.MustParseAddr("ff0e::1:2:3")
	}
	m := must(id.JoinMulticast(group, false))(t)
	e := next(t, ch, rdmacm.EventMulticastJoin)
	if e.Multicast != m || e.ID != id || m.Addr() != group || e.UD.QPN != 0xffffff || e.UD.AH.DGID.IsZero() {
		t.Errorf("joined: %+v", e)
	}
	ah := must(a.pd.CreateAH(&e.UD.AH))(t)
	check(t, ah.Close())
	check(t, a.qp.AttachMcast(e.UD.AH.DGID, e.UD.AH.DLID))
	check(t, a.qp.DetachMcast(e.UD.AH.DGID, e.UD.AH.DLID))
	check(t, m.Leave())
	wantErr(t, m.Leave(), ucs.ErrNoElem, "once more")
	must(id.JoinMulticast(group, false))(t) // ends with the ID
	check(t, id.Close())
	a.close(t)
}

func testOptions(t *testing.T, r *rig) {
	ch := must(r.channel())(t)
	defer ch.Close()
	a, b := must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t), must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	check(t, a.SetTypeOfService(32))
	check(t, a.SetAckTimeout(17))
	check(t, a.SetAFOnly(true))
	any := netip.AddrPortFrom(r.server, 0)
	check(t, a.SetReuseAddr(true))
	check(t, a.BindAddr(any))
	same := must(a.LocalAddr())(t)
	wantErr(t, b.BindAddr(same), ucs.ErrBusy, "an address in use")
	check(t, b.SetReuseAddr(true))
	check(t, b.BindAddr(same))
	wantErr(t, b.BindAddr(netip.MustParseAddrPort("192.0.2.1:0")), ucs.ErrInvalidParam, "bound already")
	c := must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	if err := c.BindAddr(netip.MustParseAddrPort("192.0.2.1:0")); err == nil {
		t.Error("an address of another host is bound")
	}
	if err := c.ResolveRoute(time.Second); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a route without an address: %v", err)
	}
	_, err := ch.CreateID(rdmacm.PortSpaceTCP, verbs.UD)
	wantErr(t, err, ucs.ErrInvalidParam, "datagrams over TCP")
	wantErr(t, c.RejectReason(rdmacm.RejectTimeout, nil), ucs.ErrInvalidParam, "a reason of the system's")
	if _, err := ch.CreateID(rdmacm.PortSpaceIB, verbs.UC); err != nil {
		t.Errorf("port space IB: %v", err)
	}
	conn := must(rdmacm.Resolve(timeout(t), netip.AddrPortFrom(r.server, 9), &rdmacm.Config{NewChannel: r.channel,
		Source: netip.AddrPortFrom(r.client, 0), TypeOfService: 64, AckTimeout: 15}))(t)
	check(t, conn.Close())
}

// testConfig checks that the timeout of each side applies to its queue pairs, including those that
// a listener accepts, and that the client's type of service applies to both.
func testConfig(t *testing.T, r *rig) {
	cfg := r.config()
	cfg.AckTimeout, cfg.TypeOfService = 11, 64
	l := must(rdmacm.Listen(netip.AddrPortFrom(r.server, 0), cfg))(t)
	defer l.Close()
	for _, tos := range []uint8{0, 32} {
		r.tos = tos
		p := r.connect(t, l)
		const mask = verbs.QPAttrTimeout | verbs.QPAttrAH
		a, b := must(p.a.qp.Query(mask))(t), must(p.b.qp.Query(mask))(t)
		if a.Timeout == 11 || b.Timeout != 11 {
			t.Errorf("the client's timeout is %d, the server's %d, which is to be 11", a.Timeout, b.Timeout)
		}
		if a.AH.TrafficClass != tos || b.AH.TrafficClass != tos {
			t.Errorf("type of service %d: the client sends with %d, the server with %d", tos, a.AH.TrafficClass, b.AH.TrafficClass)
		}
		p.close(t)
	}
}

// testLimits checks that data that is too long is refused.
func testLimits(t *testing.T, r *rig) {
	l := r.listen(t)
	c := must(rdmacm.Resolve(timeout(t), l.Addr(), r.config()))(t)
	e := r.newEnd(t, c.Addr(), verbs.RC)
	err := c.Connect(timeout(t), e.qp, &rdmacm.ConnParam{PrivateData: make([]byte, 256)})
	wantErr(t, err, ucs.ErrExceedsLimit, "256 bytes")
	err = c.Connect(timeout(t), e.qp, &rdmacm.ConnParam{PrivateData: make([]byte, rdmacm.MaxConnectData+1)})
	if err == nil || !strings.Contains(err.Error(), "the limit is 56") {
		t.Errorf("57 bytes: %v", err)
	}
	failed := make(chan error)
	go func() {
		failed <- c.Connect(timeout(t), e.qp, &rdmacm.ConnParam{PrivateData: make([]byte, rdmacm.MaxConnectData)})
	}()
	request := must(l.GetRequest(timeout(t)))(t)
	f := r.newEnd(t, request.Addr(), verbs.RC)
	err = request.Reject(make([]byte, rdmacm.MaxRejectData+1))
	if err == nil || !strings.Contains(err.Error(), "the limit is 148") {
		t.Errorf("149 bytes: %v", err)
	}
	err = request.Accept(timeout(t), f.qp, &rdmacm.ConnParam{PrivateData: make([]byte, rdmacm.MaxAcceptData+1)})
	if err == nil || !strings.Contains(err.Error(), "the limit is 196") {
		t.Errorf("197 bytes: %v", err)
	}
	check(t, request.Close())
	wantErr(t, <-failed, ucs.ErrRejected, "a request that is not answered")
	check(t, c.Close())
	e.close(t)
	f.close(t)

	ch, _, client := udPair(t, r)
	err = client.Connect(&rdmacm.ConnParam{PrivateData: make([]byte, rdmacm.MaxConnectDataUD+1)})
	if err == nil || !strings.Contains(err.Error(), "the limit is 180") {
		t.Errorf("181 bytes: %v", err)
	}
	check(t, client.Connect(&rdmacm.ConnParam{PrivateData: bytes.Repeat([]byte{7}, rdmacm.MaxConnectDataUD)}))
	event := next(t, ch, rdmacm.EventConnectRequest)
	if !bytes.Equal(event.PrivateData(), bytes.Repeat([]byte{7}, rdmacm.MaxConnectDataUD)) {
		t.Errorf("180 bytes arrive as % x", event.PrivateData())
	}
	err = event.ID.Accept(&rdmacm.ConnParam{PrivateData: make([]byte, rdmacm.MaxAcceptDataUD+1)})
	if err == nil || !strings.Contains(err.Error(), "the limit is 136") {
		t.Errorf("137 bytes: %v", err)
	}
	check(t, event.ID.Close())
	check(t, client.Close())
}

// testClosed checks that calls on closed objects return an error and do not wait.
func testClosed(t *testing.T, r *rig) {
	ch := must(r.channel())(t)
	id := must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	other := must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	check(t, id.Close())
	check(t, id.Close())
	wantErr(t, id.Listen(0), ucs.ErrCanceled, "a closed ID")
	waits := make(chan error, 1)
	go func() {
		_, err := ch.GetEvent(timeout(t))
		waits <- err
	}()
	check(t, ch.Close())
	check(t, ch.Close())
	wantErr(t, <-waits, ucs.ErrCanceled, "waiting on a closed channel")
	if fd := ch.FD(); fd != -1 {
		t.Errorf("a closed channel has descriptor %d, which may be another's", fd)
	}
	_, err := ch.PollEvent()
	wantErr(t, err, ucs.ErrCanceled, "polling a closed channel")
	_, err = ch.CreateID(rdmacm.PortSpaceTCP, 0)
	wantErr(t, err, ucs.ErrCanceled, "an ID of a closed channel")
	wantErr(t, other.Listen(0), ucs.ErrCanceled, "an ID of a closed channel")
	check(t, other.Close())
	l := r.listen(t)
	check(t, l.Close())
	_, err = l.GetRequest(timeout(t))
	wantErr(t, err, ucs.ErrCanceled, "a closed listener")
}

// testMany makes and closes many connections.
func testMany(t *testing.T, r *rig) {
	n := 100
	if testing.Short() {
		n = 10
	}
	l := r.listen(t)
	for range n {
		p := r.connect(t, l)
		talk(t, p.a, p.b, "one of many")
		p.close(t)
	}
}
