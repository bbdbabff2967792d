package tcp

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// setLimits changes the bounds of hosts that are opened in the test.
func setLimits(t testing.TB, change func(b *bounds)) {
	old := limits
	t.Cleanup(func() { limits = old })
	change(&limits)
}

// dialAs is dial by somebody at an address that this machine need not have.
func dialAs(t testing.TB, h *host, from string) *rawPeer {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &rawPeer{t: t, h: h, fd: fds[1]}
	t.Cleanup(p.close)
	h.iface.accepted(fds[0], netip.MustParseAddrPort(from+":1000"))
	return p
}

// enter is dialAs that asks for something.
func enter(t testing.TB, h *host, from string, sn uint64) *rawPeer {
	t.Helper()
	p := dialAs(t, h, from)
	if !p.gone() {
		p.send(flight(addr(from+":5"), sn))
		p.want(ack)
	}
	return p
}

// TestHog: somebody with very many connections that say nothing loses them, the
// longest silent first, and nobody else does.
func TestHog(t *testing.T) {
	setLimits(t, func(b *bounds) { b.guests, b.few = 40, 4 })
	h := newHost(t, "")
	var honest []*rawPeer
	for i := range 5 {
		for sn := range uint64(2) {
			honest = append(honest, enter(t, h, fmt.Sprintf("10.0.0.%d", i+1), sn))
		}
	}
	var hog []*rawPeer
	for sn := range uint64(200) {
		hog = append(hog, enter(t, h, "10.9.9.9", sn))
		if sn == 20 {
			hog[0].send(am(1, "not silent"))
			until(t, "message", func() bool { return len(h.got) == 1 }, h)
		}
	}
	for i := range 5 { // there is room for others
		honest = append(honest, enter(t, h, fmt.Sprintf("10.1.0.%d", i+1), 0))
	}
	exact(t, h, 40)
	for i, p := range honest {
		if p.gone() {
			t.Errorf("honest connection %d is gone", i)
		}
	}
	if !hog[1].gone() || hog[199].gone() {
		t.Error("not the longest silent have gone")
	}
	if n := ledger.Total(ledger.Conns); n != 40 {
		t.Errorf("the ledger counts %d connections", n)
	}
	h.close()
	if n := ledger.Total(ledger.Conns) + ledger.Total(ledger.Files); n != 0 || len(ledger.Accounts()) != 0 {
		t.Errorf("the ledger counts %d in %d accounts of a host that is closed", n, len(ledger.Accounts()))
	}
}

// TestGuestsOfSource: within one source those who are used stay.
func TestGuestsOfSource(t *testing.T) {
	setLimits(t, func(b *bounds) { b.guestsOfSource = 4 })
	h := newHost(t, "")
	var p []*rawPeer
	for sn := range uint64(4) {
		p = append(p, enter(t, h, "10.0.0.1", sn))
	}
	p[0].send(am(1, "x"))
	p[2].send(am(1, "x"))
	until(t, "messages", func() bool { return len(h.got) == 2 }, h)
	p = append(p, enter(t, h, "10.0.0.1", 4))
	exact(t, h, 4)
	p = append(p, enter(t, h, "10.0.0.1", 5))
	exact(t, h, 4)
	for i, want := range []bool{false, true, false, true, false, false} {
		if p[i].gone() != want {
			t.Errorf("connection %d gone: %v", i, !want)
		}
	}
	// Another one of the machine is not concerned.
	if q := enter(t, h, "10.0.0.2", 0); q.gone() {
		t.Error("another source is refused")
	}
}

// TestUsersAreSources: within the machine it is users who have too much.
func TestUsersAreSources(t *testing.T) {
	setLimits(t, func(b *bounds) { b.guestsOfSource = 10 })
	h := newHost(t, "")
	open := func(uid int, sn uint64) *rawPeer {
		p := dialFrom(t, h, sockaddr{}, uid)
		p.send(flight(addr("127.0.0.1:5"), sn))
		p.want(ack)
		return p
	}
	honest := []*rawPeer{open(-1, 0), open(-1, 1), open(-1, 2)}
	for sn := range uint64(30) {
		open(os.Getuid()+1, 10+sn)
	}
	exact(t, h, 10)
	for i, p := range honest {
		if p.gone() {
			t.Errorf("connection %d of the other user is gone", i)
		}
	}
}

// TestEndpointsStay: what the application has an endpoint on gives way to nobody;
// what was opened for a peer does, until the application has it.
func TestEndpointsStay(t *testing.T) {
	setLimits(t, func(b *bounds) { b.guestsOfSource = 2 })
	h := newHost(t, "")
	l := listenRaw(t, h, true)
	endpoint := func(sn uint64, forPeer bool) (*endpoint, *rawPeer) {
		p := dial(t, h)
		p.send(flight(l.addr, sn))
		p.want(ack)
		ep, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: h.iface.DeviceAddress(),
			IfaceAddr: []byte{byte(l.addr.port >> 8), byte(l.addr.port)}, ForPeer: forPeer})
		if err != nil {
			t.Fatal(err)
		}
		p.want(req(h.iface.addr, sn))
		p.send(ack)
		until(t, "connect", connected(ep.(*endpoint)), h)
		return ep.(*endpoint), p
	}
	mine, a := endpoint(0, false)
	claimed, b := endpoint(1, true)
	claimed.Claim()
	theirs, c := endpoint(2, true)
	for sn := range uint64(5) {
		p := dial(t, h)
		p.send(flight(addr("127.0.0.1:5"), sn))
		p.want(ack)
	}
	exact(t, h, 4)
	if a.gone() || b.gone() || mine.err != nil || claimed.err != nil {
		t.Error("the application lost its connections")
	}
	if !c.gone() || theirs.err == nil || len(h.errs) != 1 || ucs.StatusOf(theirs.err) == ucs.OK {
		t.Errorf("of the peer's: gone %v, %v, failures %v", c.gone(), theirs.err, h.errs)
	}
	// Closed by us and used by the peer: it counts again.
	mine.Close()
	a.want(fin)
	if n := h.iface.conns.iface.svc.greediest().n; n != 3 {
		t.Errorf("%d guests after an endpoint was closed", n)
	}
}

// TestReserve: whatever peers do, descriptors are left for the application.
func TestReserve(t *testing.T) {
	h := newHost(t, "")
	honest := enter(t, h, "10.0.0.1", 0)
	l := listenRaw(t, h, true)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = uint64(lowestFreeFD(t) + 400)
	if was.Cur < few.Cur {
		t.Skip("few descriptors here")
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	h.iface.svc.ceiling = fileCeiling() // as the listener does
	if free := int(few.Cur) - fileCeiling(); free < int(few.Cur)/4 || free < minReserve {
		t.Fatalf("%d of %d descriptors are for the application", free, few.Cur)
	}
	// Each takes two descriptors here, its own end and ours, until only its own.
	sn, n := uint64(0), 0
	for ; lowestFreeFD(t) < fileCeiling(); sn++ {
		if sn > few.Cur {
			t.Fatal("the reserve was not reached")
		}
		enter(t, h, "10.9.9.9", sn)
		n = h.conns()
	}
	for last := sn + 40; sn < last; sn++ {
		enter(t, h, "10.9.9.9", sn)
		if c := h.conns(); c > n {
			t.Fatalf("%d connections, there were %d when the reserve was reached", c, n)
		}
	}
	if honest.gone() {
		t.Error("the honest connection is gone")
	}
	params := uct.EndpointParams{DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: []byte{byte(l.addr.port >> 8), byte(l.addr.port)}}
	params.ForPeer = true
	ep, err := h.iface.NewEndpoint(params)
	if err != nil {
		t.Fatal(err)
	}
	if ep.(*endpoint).conn != nil {
		t.Error("an endpoint for a peer took from the reserve")
	}
	params.ForPeer = false
	mine, err := h.iface.NewEndpoint(params)
	if err != nil {
		t.Fatal(err)
	}
	if mine.(*endpoint).conn == nil {
		t.Error("the application's endpoint did not get its descriptor")
	}
}

// TestHalfOpenOfHog: connections that ask for nothing do not displace those of others
// that have not asked yet.
func TestHalfOpenOfHog(t *testing.T) {
	setLimits(t, func(b *bounds) { b.halfOpen = 20 })
	h := newHost(t, "")
	var honest []*rawPeer
	for i := range 5 {
		honest = append(honest, dialAs(t, h, fmt.Sprintf("10.0.0.%d", i+1)))
	}
	for i := range 100 {
		dialAs(t, h, fmt.Sprintf("10.9.9.%d", 8+i%2))
	}
	if n := h.iface.svc.half.n; n != 20 {
		t.Errorf("%d half-open connections", n)
	}
	for i, p := range honest {
		p.send(flight(addr("10.0.0.1:5"), uint64(i)))
		p.want(ack)
	}
}

// TestStalled: the beginning of a frame is kept for a while, and no longer where we
// have no endpoint.
func TestStalled(t *testing.T) {
	setLimits(t, func(b *bounds) { b.stall = 1 })
	h := newHost(t, "")
	p := enter(t, h, "10.0.0.1", 0)
	p.send(am(1, strings.Repeat("x", 1000))[:500])
	p.wantClosed()
	l := listenRaw(t, h, true)
	mine := dial(t, h)
	mine.send(flight(l.addr, 0))
	mine.want(ack)
	ep := l.endpoint(h)
	mine.want(req(h.iface.addr, 0))
	mine.send(ack)
	until(t, "connect", connected(ep), h)
	b := am(1, strings.Repeat("x", 1000))
	mine.send(b[:500])
	mine.wantSilence()
	mine.send(b[500:])
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
}

// TestBeginnings: what one source makes us keep of frames is bounded; others are not
// concerned.
func TestBeginnings(t *testing.T) {
	setLimits(t, func(b *bounds) { b.beginnings = 1 << 20 })
	h := newHost(t, "")
	half := am(1, strings.Repeat("x", 60000))[:40000]
	honest := enter(t, h, "10.0.0.1", 0)
	honest.send(half)
	var hog []*rawPeer
	for sn := range uint64(100) {
		p := enter(t, h, "10.9.9.9", sn)
		p.send(half)
		for range 3 {
			h.w.Progress()
		}
		hog = append(hog, p)
		most := 0
		for _, g := range h.iface.svc.guests {
			most = max(most, g.held)
		}
		if most > 1<<20 {
			t.Fatalf("%d bytes of one source", most)
		}
	}
	if !hog[0].gone() || hog[99].gone() || honest.gone() {
		t.Errorf("gone: first %v, last %v, honest %v", hog[0].gone(), hog[99].gone(), honest.gone())
	}
	honest.send(am(1, strings.Repeat("x", 60000))[40000:])
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
}

// TestHalfClosedKeepsNothing: a peer that has said that it sends no more, and closed
// in the middle of a frame, does not keep a buffer.
func TestHalfClosedKeepsNothing(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	ep := l.endpoint(h)
	p := l.accept(h)
	p.want(flight(h.iface.addr, 0))
	p.send(ack, fin, am(1, "12345")[:7])
	unix.Shutdown(p.fd, unix.SHUT_WR)
	until(t, "the end", func() bool { return ep.conn != nil && ep.conn.ended }, h)
	if ep.conn.in != nil {
		t.Errorf("keeps a buffer of %d bytes", len(ep.conn.in.data))
	}
}
