//go:build linux

package tcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// conns counts the open connections of a host.
func (h *host) conns() int {
	n := 0
	for c := h.iface.conns; c != nil; c = c.next {
		n++
	}
	return n
}

func connected(eps ...*endpoint) func() bool {
	return func() bool {
		for _, ep := range eps {
			if ep.conn == nil || ep.conn.state != stateConnected {
				return false
			}
		}
		return true
	}
}

// exchange sends a message each way and checks that both arrive.
func exchange(t *testing.T, a, b *host, ab, ba *endpoint) {
	t.Helper()
	na, nb := len(a.got), len(b.got)
	for _, ep := range []*endpoint{ab, ba} {
		until(t, "room to send", func() bool { return ep.AMShort(9, 1, []byte("x"), 0, nil) != ucs.ErrNoResource }, a, b)
	}
	until(t, "messages both ways", func() bool { return len(a.got) == na+1 && len(b.got) == nb+1 }, a, b)
}

// TestPlainConnect compares, byte for byte, with the first flights of C UCX when a peer connects
// and this side answers.
func TestPlainConnect(t *testing.T) {
	h := newHost(t, "")
	p := dial(t, h)
	peer := addr("127.0.0.1:37039")
	for _, b := range flight(peer, 0) {
		p.send([]byte{b})
		h.w.Progress()
	}
	p.want(ack)
	p.send(am(3, "hello"), appendFrameHeader(nil, idKeepalive, 0), putReq(0, 0, 0))
	p.want(appendPutAck(nil, 0))
	if len(h.got) != 1 || h.got[0] != (message{3, "hello"}) {
		t.Errorf("delivered %v", h.got)
	}
	// The peer destroys its endpoint.
	p.send(fin)
	p.wantClosed()
	if n := h.conns(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestConnectOut(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	ep := l.endpoint(h)
	p := l.accept(h)
	p.want(flight(h.iface.addr, 0))
	if err := ep.AMShort(1, 0, nil, 0, nil); err != ucs.ErrNoResource {
		t.Errorf("send before the answer: %v", err)
	}
	p.wantSilence()
	p.send(ack)
	until(t, "connect", connected(ep), h)
	if err := ep.AMShort(1, 7, []byte("hi"), 0, nil); err != nil {
		t.Errorf("send after the answer: %v", err)
	}
	p.want(am(1, "\x07\x00\x00\x00\x00\x00\x00\x00hi"))
	// The peer begins to send on the same connection, and stops again.
	p.send(req(l.addr, 0))
	p.want(ack)
	p.send(am(2, "in"), fin)
	until(t, "message", func() bool { return len(h.got) == 1 && ep.conn.finished }, h)
	if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
		t.Errorf("send after the peer's FIN: %v", err)
	}
	p.recv(hdrLen + 8)
	// Only this side sends now, so it closes the connection.
	ep.Close()
	p.wantClosed()
}

// TestTakeOver: an endpoint made after the peer has connected uses the peer's connection.
func TestTakeOver(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, true)
	p := dial(t, h)
	p.send(flight(l.addr, 0))
	p.want(ack)
	ep := l.endpoint(h)
	p.want(req(h.iface.addr, 0)) // without magic
	p.send(am(1, "early"), ack)
	until(t, "connect", connected(ep), h)
	if len(h.got) != 1 || h.conns() != 1 {
		t.Errorf("%d messages, %d connections", len(h.got), h.conns())
	}
	// Both sides send. The peer closes first.
	p.send(fin)
	until(t, "FIN", func() bool { return ep.conn.finished }, h)
	ep.Close()
	p.wantClosed()
}

// TestCloseBothInTurn: both sides send on one connection. The side that closes first sends FIN and
// keeps receiving.
func TestCloseBothInTurn(t *testing.T) {
	a, b, ab := pair(t)
	ba := b.connect(a)
	until(t, "connect back", connected(ba), a, b)
	if a.conns() != 1 || b.conns() != 1 {
		t.Fatalf("%d and %d connections", a.conns(), b.conns())
	}
	exchange(t, a, b, ab, ba)
	ab.Close()
	until(t, "FIN", func() bool { return ba.conn.finished }, a, b)
	n := len(a.got)
	if err := ba.AMShort(1, 0, []byte("still"), 0, nil); err != nil {
		t.Errorf("send toward the closed side: %v", err)
	}
	until(t, "message", func() bool { return len(a.got) == n+1 }, a, b)
	ba.Close()
	until(t, "all to be closed", func() bool { return a.conns()+b.conns() == 0 }, a, b)
	if len(a.errs)+len(b.errs) != 0 {
		t.Errorf("failures: %v %v", a.errs, b.errs)
	}
	// The next endpoints share a connection again.
	ab, ba = a.connect(b), b.connect(a)
	until(t, "connect again", connected(ab, ba), a, b)
	exchange(t, a, b, ab, ba)
	if ab.sn != 1 || a.conns() != 1 {
		t.Errorf("number %d, %d connections", ab.sn, a.conns())
	}
}

// TestSimultaneous: both sides connect at the same time, and either side detects it first.
func TestSimultaneous(t *testing.T) {
	for _, first := range []string{"smaller", "larger", "both"} {
		t.Run(first+" first", func(t *testing.T) {
			a, b := newHost(t, ""), newHost(t, "")
			if a.iface.addr.compare(&b.iface.addr) > 0 {
				a, b = b, a
			}
			ab, ba := a.connect(b), b.connect(a)
			hosts := map[string][]*host{"smaller": {a}, "larger": {b}, "both": {a, b}}[first]
			for range 10 {
				for _, h := range hosts {
					h.w.Progress()
				}
			}
			until(t, "connect", connected(ab, ba), a, b)
			until(t, "the loser to be closed", func() bool { return a.conns() == 1 && b.conns() == 1 }, a, b)
			if !ab.conn.outgoing || ba.conn.outgoing {
				t.Error("the connection of the larger address survived")
			}
			exchange(t, a, b, ab, ba)
			ab.Close()
			ba.Close()
			until(t, "all to be closed", func() bool { return a.conns()+b.conns() == 0 }, a, b)
			if len(a.errs)+len(b.errs) != 0 {
				t.Errorf("failures: %v %v", a.errs, b.errs)
			}
		})
	}
}

// TestSimultaneousLarger: this side has the larger address, so the peer's connection is kept.
func TestSimultaneousLarger(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, true)
	ep := l.endpoint(h)
	own := l.accept(h)
	own.want(flight(h.iface.addr, 0))
	theirs := dial(t, h)
	theirs.send(flight(l.addr, 0))
	theirs.want(ackReq)
	own.wantClosed()
	until(t, "connect", connected(ep), h)
	ep.AMShort(1, 0, nil, 0, nil)
	theirs.recv(hdrLen + 8)
	theirs.send(am(4, "x"))
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
}

// TestSimultaneousSmaller: this side has the smaller address. Its connection is kept; the peer's
// stays open until then.
func TestSimultaneousSmaller(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	ep := l.endpoint(h)
	own := l.accept(h)
	own.want(flight(h.iface.addr, 0))
	theirs := dial(t, h)
	theirs.send(flight(l.addr, 0), am(1, "must not be read"))
	theirs.wantSilence()
	// A second attempt of the peer replaces the first.
	again := dial(t, h)
	again.send(flight(l.addr, 0))
	again.wantSilence()
	theirs.wantClosed()
	own.send(ackReq)
	until(t, "connect", connected(ep), h)
	again.wantClosed()
	own.send(am(4, "x"))
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
	if h.got[0].id != 4 {
		t.Errorf("got %v", h.got)
	}
	// Once it is established, further attempts are refused.
	late := dial(t, h)
	late.send(flight(l.addr, 0))
	late.wantClosed()
	exact(t, h, 1)
}

func exact(t *testing.T, h *host, want int) {
	t.Helper()
	if n := h.conns(); n != want {
		t.Errorf("%d connections, want %d", n, want)
	}
}

// TestRetry: the peer closes connections before it answers. The endpoint tries again and succeeds.
func TestRetry(t *testing.T) {
	for _, how := range []string{"end", "reset", "fin and end"} {
		t.Run(how, func(t *testing.T) {
			h := newHost(t, "")
			l := listenRaw(t, h, false)
			ep := l.endpoint(h)
			for range 4 {
				p := l.accept(h)
				p.want(flight(h.iface.addr, 0))
				switch how {
				case "reset":
					p.reset()
				case "fin and end":
					p.send(fin)
				}
				p.close()
			}
			p := l.accept(h)
			p.want(flight(h.iface.addr, 0))
			p.send(ack)
			until(t, "connect", connected(ep), h)
			if ep.attempts != 5 || len(h.errs) != 0 {
				t.Errorf("%d attempts, failures %v", ep.attempts, h.errs)
			}
		})
	}
}

// TestConnectedWhileWaiting: the peer connects while an endpoint waits before its next attempt.
func TestConnectedWhileWaiting(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, true)
	ep := l.endpoint(h)
	p := l.accept(h)
	p.recv(len(flight(h.iface.addr, 0)))
	p.reset()
	until(t, "the loss", func() bool { return ep.conn == nil }, h)
	theirs := dial(t, h)
	theirs.send(flight(l.addr, 0))
	theirs.want(ackReq)
	until(t, "connect", connected(ep), h)
	exact(t, h, 1)
}

func TestRetriesEnd(t *testing.T) {
	h := newHost(t, "", "MAX_CONN_RETRIES=3")
	l := listenRaw(t, h, false)
	ep := l.endpoint(h)
	d := newDone()
	if err := ep.Check(&d.comp); err != ucs.InProgress {
		t.Errorf("check while connecting: %v", err)
	}
	for range 3 {
		p := l.accept(h)
		p.recv(magicLen)
		p.reset()
	}
	until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
	if ep.attempts != 3 || !errors.Is(h.errs[0], ucs.ErrConnectionReset) {
		t.Errorf("%d attempts, %v", ep.attempts, h.errs[0])
	}
	if d.n != 1 || d.comp.Err == nil {
		t.Errorf("check: told %d times, %v", d.n, d.comp.Err)
	}
}

// TestTransient checks which errors are worth another attempt to connect.
func TestTransient(t *testing.T) {
	ep := &endpoint{attempts: 2}
	for cause, want := range map[error]bool{
		nil: true, unix.ECONNRESET: true, unix.EMFILE: true, unix.ECONNREFUSED: true,
		unix.ETIMEDOUT: false, unix.EHOSTUNREACH: false, unix.EACCES: false, errProtocol: false,
	} {
		if got := ep.transient("connect", cause); got != want {
			t.Errorf("%v: %v", cause, got)
		}
	}
	ep.attempts = 1
	if ep.transient("connect", unix.ECONNREFUSED) || !ep.transient("read", unix.ECONNREFUSED) {
		t.Error("a refusal of the first connect")
	}
}

func TestConnectStatus(t *testing.T) {
	h := newHost(t, "")
	ep, _ := outgoing(t, h)
	for cause, want := range map[error]ucs.Status{
		unix.EHOSTUNREACH: ucs.ErrUnreachable, unix.ETIMEDOUT: ucs.ErrUnreachable,
		unix.EMFILE: ucs.ErrIO, unix.ECONNREFUSED: ucs.ErrConnectionReset, nil: ucs.ErrConnectionReset,
	} {
		if got := connectStatus(cause); got != want {
			t.Errorf("%v while connecting: %v", cause, got)
		}
		// Once connected, the endpoint fails with any end of the connection.
		if e := ep.newError("read", cause); e.Status != ucs.ErrConnectionReset {
			t.Errorf("%v of a connection: %v", cause, e.Status)
		}
	}
}

func TestRefused(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	l.close() // no listener there any more
	ep := l.endpoint(h)
	until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
	var e *Error
	if err := h.errs[0]; !errors.Is(err, unix.ECONNREFUSED) || !errors.As(err, &e) || h.failed[0] != ep {
		t.Fatalf("error %v of %v", err, h.failed[0])
	}
	if e.Op != "connect" || e.Device != "lo" || e.Peer != l.addr.addrPort() || e.Local != h.iface.addr.addrPort() {
		t.Errorf("%+v", e)
	}
	if err := ep.AMShort(1, 0, nil, 0, nil); err != h.errs[0] {
		t.Errorf("send after the failure: %v", err)
	}
	ep.Close()
}

// TestConnectToSelf: an endpoint to the listener of its own iface has both ends of its connection
// there, and they are not joined.
func TestConnectToSelf(t *testing.T) {
	h := newHost(t, "")
	ep := h.connect(h)
	two := h.connect(h)
	until(t, "connect", connected(ep, two), h)
	ep.AMShort(1, 0, []byte("me"), 0, nil)
	two.AMShort(2, 0, []byte("me too"), 0, nil)
	until(t, "messages", func() bool { return len(h.got) == 2 }, h)
	exact(t, h, 4)
	ep.Close()
	two.Close()
	until(t, "all to be closed", func() bool { return h.conns() == 0 }, h)
	if len(h.errs) != 0 {
		t.Errorf("failures: %v", h.errs)
	}
}

// TestPairing: endpoints of two peers are paired by their numbers, in whichever order they were
// made.
func TestPairing(t *testing.T) {
	a, b := newHost(t, ""), newHost(t, "")
	var ab, ba []*endpoint
	for range 5 {
		ab = append(ab, a.connect(b))
	}
	until(t, "connect", connected(ab...), a, b)
	for range 7 {
		ba = append(ba, b.connect(a))
	}
	until(t, "connect", connected(ba...), a, b)
	exact(t, a, 7)
	exact(t, b, 7)
	for i := range ab {
		exchange(t, a, b, ab[i], ba[i])
		if ab[i].conn.sn != ba[i].conn.sn || ab[i].conn.outgoing == ba[i].conn.outgoing {
			t.Errorf("endpoint %d: numbers %d and %d", i, ab[i].conn.sn, ba[i].conn.sn)
		}
	}
}

func TestIPv6(t *testing.T) {
	if b := newHost(t, "", "AF_PRIO=inet,inet6"); b.iface.addr.v6 {
		t.Fatalf("inet first gives %v", b.iface.addr)
	}
	if !hasIPv6Loopback() {
		t.Skip("lo has no IPv6 address")
	}
	a, b := newHost(t, "", "AF_PRIO=inet6"), newHost(t, "", "AF_PRIO=inet6,inet")
	if !a.iface.addr.v6 || a.iface.DeviceAddress()[1] != unix.AF_INET6 {
		t.Fatalf("address %v", a.iface.addr)
	}
	ab, ba := a.connect(b), b.connect(a)
	until(t, "connect", connected(ab, ba), a, b)
	exchange(t, a, b, ab, ba)
	p := dial(t, a)
	peer := addr("[::1]:9")
	p.send(flight(peer, 0))
	p.want(ack)
	v4 := newHost(t, "")
	if _, err := a.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: v4.iface.DeviceAddress(), IfaceAddr: v4.iface.Address()}); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("IPv6 to IPv4: %v", err)
	}
}

func hasIPv6Loopback() bool {
	devs, err := netdevs(mdOptions{families: []bool{true}})
	if err != nil {
		return false
	}
	for _, d := range devs {
		if d.name == "lo" {
			return true
		}
	}
	return false
}

func TestCheckBytes(t *testing.T) {
	h := newHost(t, "")
	ep, p := outgoing(t, h)
	if err := ep.Check(nil); err != nil {
		t.Fatal(err)
	}
	p.want(am(idKeepalive, ""))
	// The probe counts as output: a remote flush waits for it.
	if err := ep.Flush(uct.FlushRemote, nil); err != ucs.InProgress {
		t.Error(err)
	}
}

func TestSocketOptions(t *testing.T) {
	a, b, ep := pair(t, "KEEPIDLE=7s", "KEEPINTVL=3s", "KEEPCNT=5", "SNDBUF=64k", "RCVBUF=32k", "SYN_CNT=4", "USER_TIMEOUT=9s")
	for side, fd := range map[string]int32{"connecting": ep.conn.fd, "accepted": b.iface.conns.fd} {
		for _, o := range []struct {
			level, name, want int
		}{
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 7},
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 3},
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 5},
			{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
			{unix.IPPROTO_TCP, unix.TCP_SYNCNT, 4},
			{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 9000},
			{unix.SOL_SOCKET, unix.SO_SNDBUF, 128 << 10}, // the kernel doubles it
			{unix.SOL_SOCKET, unix.SO_RCVBUF, 64 << 10},
		} {
			if got, err := unix.GetsockoptInt(int(fd), o.level, o.name); err != nil || got != o.want {
				t.Errorf("%s socket: option %d/%d is %d (%v), want %d", side, o.level, o.name, got, err, o.want)
			}
		}
	}
	if got := a.iface.silence.Seconds(); got != 7+3*5 {
		t.Errorf("a machine may be silent for %v s", got)
	}
}

func TestSourceAddress(t *testing.T) {
	for _, mode := range []string{"y", "n", "try"} {
		t.Run(mode, func(t *testing.T) {
			_, b, ep := pair(t, "EP_BIND_SRC_ADDR="+mode)
			sa, err := unix.Getsockname(int(ep.conn.fd))
			if err != nil || sa.(*unix.SockaddrInet4).Addr != [4]byte{127, 0, 0, 1} {
				t.Errorf("source %+v, %v", sa, err)
			}
			exact(t, b, 1)
		})
	}
	fakeRoot(t, map[string]string{"proc/sys/net/ipv4/conf/lo/rp_filter": "1\n"}, nil)
	h := newHost(t, "", "EP_BIND_SRC_ADDR=y")
	if _, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: h.iface.Address()}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("strict reverse path filter: %v", err)
	}
}

func TestPortRange(t *testing.T) {
	probe := newHost(t, "")
	l := listenRaw(t, probe, true) // occupies one port
	first := l.addr.port - 50
	h := newHost(t, "", fmt.Sprintf("PORT_RANGE=%d-%d", first, l.addr.port))
	if p := h.iface.addr.port; p < first || p >= l.addr.port {
		t.Errorf("port %d is not in %d-%d, or taken", p, first, l.addr.port-1)
	}
}

// TestPortRangeUsedUp checks that the error of an interface that finds no free port names the
// setting.
func TestPortRangeUsedUp(t *testing.T) {
	probe := newHost(t, "")
	l := listenRaw(t, probe, true)
	setting := fmt.Sprintf("TCP_PORT_RANGE=%d", l.addr.port)
	md, err := component{}.OpenMD(componentName, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	i, err := md.OpenIface(w, uct.IfaceParams{Transport: componentName, Device: "lo"}, set(t, "PORT_RANGE", fmt.Sprint(l.addr.port)))
	if i != nil || !errors.Is(err, ucs.ErrBusy) || !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "UCX_"+setting) {
		t.Errorf("%v, %v, want an error that names UCX_%s", i, err, setting)
	}
}
