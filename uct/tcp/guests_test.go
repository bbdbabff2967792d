//go:build linux

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

// setLimits changes the bounds of the hosts that the test opens.
func setLimits(t testing.TB, change func(b *bounds)) {
	old := limits
	t.Cleanup(func() { limits = old })
	change(&limits)
}

// dialAs is dial from any address, which need not be one of this machine.
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

// enter is dialAs with a connection request.
func enter(t testing.TB, h *host, from string, sn uint64) *rawPeer {
	t.Helper()
	p := dialAs(t, h, from)
	if !p.gone() {
		p.send(flight(addr(from+":5"), sn))
		p.want(ack)
	}
	return p
}

// TestHog: of one source with very many silent connections the longest silent are closed;
// connections of other sources stay.
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
	for sn := range uint64(60) {
		hog = append(hog, enter(t, h, "10.9.9.9", sn))
		if sn == 20 {
			hog[0].send(am(1, "not silent"))
			until(t, "message", func() bool { return len(h.got) == 1 }, h)
		}
	}
	for i := range 5 { // other sources still connect
		honest = append(honest, enter(t, h, fmt.Sprintf("10.1.0.%d", i+1), 0))
	}
	exact(t, h, 40)
	for i, p := range honest {
		if p.gone() {
			t.Errorf("honest connection %d is gone", i)
		}
	}
	if !hog[1].gone() || hog[59].gone() {
		t.Error("not the longest silent have gone")
	}
	if n := ledger.Total(ledger.Conns); n != 40 {
		t.Errorf("the ledger counts %d connections", n)
	}
	svc := h.iface.svc
	h.close()
	if len(svc.guests.of)+len(svc.guests.networks) != 0 {
		t.Error("a host that is closed keeps its list of guests")
	}
	if n := ledger.Total(ledger.Conns) + ledger.Total(ledger.Files); n != 0 || len(ledger.Accounts()) != 0 {
		t.Errorf("the ledger counts %d in %d accounts of a host that is closed", n, len(ledger.Accounts()))
	}
}

// TestGuestMaps: the maps of many sources are freed once they have left; those of a few are kept
// and not made anew for each.
func TestGuestMaps(t *testing.T) {
	var l guestList
	l.init()
	come := func(n int) {
		gs := make([]*guest, n)
		for i := range gs {
			gs[i] = l.guest(ledger.SourceOf(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), -1))
		}
		for _, g := range gs {
			l.forget(g)
		}
	}
	come(1)
	if l.of == nil || len(l.of) != 0 {
		t.Errorf("%v is left of one guest", l.of)
	}
	come(fewGuests + 1)
	if l.of != nil || l.networks != nil {
		t.Error("the lists of a crowd are kept")
	}
	come(1)
	if n := len(ledger.Accounts()); n != 0 {
		t.Errorf("%d accounts are left", n)
	}
}

// TestGuestsOfSource: among the connections of one source, those in use stay.
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
	wantGone := func(want ...bool) {
		t.Helper()
		for i, want := range want {
			if p[i].gone() != want {
				t.Errorf("connection %d gone: %v", i, !want)
			}
		}
	}
	wantGone(false, true, false, true, false, false)
	// A connection that was used long ago counts as silent.
	p = append(p, enter(t, h, "10.0.0.1", 6), enter(t, h, "10.0.0.1", 7))
	wantGone(true, true, false, true, true, false, false, false)
	// Other sources are unaffected.
	if q := enter(t, h, "10.0.0.2", 0); q.gone() {
		t.Error("another source is refused")
	}
}

// openAs returns a local connection of a user, which has sent a request.
func openAs(t *testing.T, h *host, uid int, sn uint64) *rawPeer {
	t.Helper()
	p := dialFrom(t, h, sockaddr{}, uid)
	p.send(flight(addr("127.0.0.1:5"), sn))
	if !p.gone() {
		p.want(ack)
	}
	return p
}

// TestUsersAreSources: connections within the machine are limited by user.
func TestUsersAreSources(t *testing.T) {
	setLimits(t, func(b *bounds) { b.guestsOfSource = 10 })
	h := newHost(t, "")
	var honest []*rawPeer
	for sn := range uint64(3) {
		honest = append(honest, openAs(t, h, -1, sn))
	}
	for sn := range uint64(30) {
		openAs(t, h, os.Getuid()+1, 10+sn)
	}
	exact(t, h, 13)
	for range 6 { // the limit applies to each user
		honest = append(honest, openAs(t, h, -1, uint64(100+len(honest))))
	}
	exact(t, h, 19)
	for i, p := range honest {
		if p.gone() {
			t.Errorf("connection %d of the other user is gone", i)
		}
	}
	counts := map[int]int64{}
	for _, a := range ledger.Accounts() {
		counts[a.Source.UID] += a.Amounts[ledger.Conns]
	}
	if counts[os.Getuid()+1] != 10 || counts[os.Getuid()]+counts[-1] != 9 {
		t.Errorf("the ledger counts %v", counts)
	}
}

// TestFewAreNotLookedUp: the kernel is not asked for the users of connections while these are few.
func TestFewAreNotLookedUp(t *testing.T) {
	h := newHost(t, "")
	for sn := range uint64(h.iface.bounds.few) {
		openAs(t, h, -1, sn)
	}
	for c := h.iface.conns; c != nil; c = c.next {
		if c.from.asked {
			t.Fatal("asked")
		}
	}
	openAs(t, h, -1, 100)
	for c := h.iface.conns; c != nil; c = c.next {
		if !c.from.asked {
			t.Fatal("not asked about all when there are more")
		}
	}
}

// TestHalfOpenOfUsers: connections of one user that send no request do not displace those of
// another user that have not sent one yet.
func TestHalfOpenOfUsers(t *testing.T) {
	setLimits(t, func(b *bounds) { b.halfOpen = 20 })
	h := newHost(t, "")
	honest := []*rawPeer{dialFrom(t, h, sockaddr{}, -1), dialFrom(t, h, sockaddr{}, -1)}
	for range 40 {
		dialFrom(t, h, sockaddr{}, os.Getuid()+1)
		h.w.Progress()
	}
	for i, p := range honest {
		p.send(flight(addr("127.0.0.1:5"), uint64(i)))
		p.want(ack)
	}
}

// TestEndpointsStay: a connection with an endpoint of the application is never closed to make room.
// One with an endpoint made for a peer can be, until the application claims it.
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
	// Closed by the application and still used by the peer, a connection counts again.
	mine.Close()
	a.want(fin)
	if n := h.iface.svc.guests.n(); n != 3 {
		t.Errorf("%d guests after an endpoint was closed", n)
	}
}

// fewFiles limits the process to this many more descriptors until the end of the test, and returns
// its new limit.
func fewFiles(t *testing.T, more int) int {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = uint64(lowestFreeFD(t) + more)
	if was.Cur < few.Cur {
		t.Skip("few descriptors here")
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
	return int(few.Cur)
}

// TestReserve: whatever peers do, descriptors are left for the application.
func TestReserve(t *testing.T) {
	h := newHost(t, "")
	honest := enter(t, h, "10.0.0.1", 0)
	l := listenRaw(t, h, true)
	few := fewFiles(t, 400)
	h.iface.svc.ceiling = fileCeiling() // as the listener does
	if free := few - fileCeiling(); free < few/4 || free < minReserve {
		t.Fatalf("%d of %d descriptors are for the application", free, few)
	}
	// Each connection takes two descriptors in this process, one for each end, until only the
	// peer's end gets one.
	sn, n := uint64(0), 0
	for ; lowestFreeFD(t) < fileCeiling(); sn++ {
		if sn > uint64(few) {
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

// TestHalfOpenOfHog: connections that send no request do not displace those of other sources that
// have not sent one yet.
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

// TestHalfOpenOfNeighbors: connections that have not asked yet, of neighbors that are less than half
// of all, do not give way to those of many addresses elsewhere.
func TestHalfOpenOfNeighbors(t *testing.T) {
	setLimits(t, func(b *bounds) { b.halfOpen, b.few = 20, 2 })
	h := newHost(t, "")
	old := dialAs(t, h, "10.1.0.1")
	var honest []*rawPeer
	for i := range 8 {
		honest = append(honest, dialAs(t, h, fmt.Sprintf("10.0.0.%d", i+1)))
	}
	for i := range 12 {
		dialAs(t, h, fmt.Sprintf("10.%d.0.1", i+2))
	}
	if n := h.iface.svc.half.n; n != 20 || !old.gone() {
		t.Errorf("%d half-open connections, the oldest gone: %v", n, old.gone())
	}
	for i, p := range honest {
		p.send(flight(addr("10.0.0.1:5"), uint64(i)))
		p.want(ack)
	}
}

// TestHalfOpenOfSource: one source gets half of the places for half-open connections. A connection
// that has sent its request takes no place.
func TestHalfOpenOfSource(t *testing.T) {
	setLimits(t, func(b *bounds) { b.halfOpen = 20 })
	h := newHost(t, "")
	for sn := range uint64(30) {
		enter(t, h, "10.0.0.1", sn)
	}
	var p []*rawPeer
	for range 30 {
		p = append(p, dialAs(t, h, "10.0.0.1"))
	}
	if n := h.iface.svc.half.n; n != 10 {
		t.Errorf("%d half-open connections of one source", n)
	}
	for i, p := range p {
		if p.gone() != (i < 20) {
			t.Errorf("connection %d gone: %v", i, p.gone())
		}
	}
	exact(t, h, 40)
}

// TestStalled: an incomplete frame is kept for a limited time, unless there is an endpoint on its
// connection.
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

// TestStallLooks: the time limit starts again with each part that arrives. There is none if the
// connection has an endpoint, of the application or made for the peer.
func TestStallLooks(t *testing.T) {
	h := newHost(t, "")
	slow := &h.iface.svc.slow
	b := am(1, strings.Repeat("x", 8000)) // a part of it stays in the buffer that was read
	looks := func(p *rawPeer, n int) {
		t.Helper()
		for range n {
			h.iface.svc.lookAtSlow()
		}
		p.wantSilence()
	}
	part := func(p *rawPeer, b []byte) {
		t.Helper()
		had := 0
		if slow.head != nil {
			had = slow.head.in.w - slow.head.in.r
		}
		p.send(b)
		until(t, "part", func() bool { return slow.head != nil && slow.head.in.w-slow.head.in.r == had+len(b) }, h)
	}
	l := listenRaw(t, h, true)
	p := dial(t, h)
	p.send(flight(l.addr, 0))
	p.want(ack)
	for at := 0; at < 5000; at += 1000 {
		part(p, b[at:at+1000])
		looks(p, stallLooks-1)
	}
	ep := l.endpoint(h)
	p.want(req(h.iface.addr, 0))
	looks(p, 2*stallLooks)
	p.send(b[5000:], ack)
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
	until(t, "connect", connected(ep), h)

	l = listenRaw(t, h, true)
	p = dial(t, h)
	p.send(flight(l.addr, 0))
	p.want(ack)
	if _, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: h.iface.DeviceAddress(),
		IfaceAddr: []byte{byte(l.addr.port >> 8), byte(l.addr.port)}, ForPeer: true}); err != nil {
		t.Fatal(err)
	}
	p.want(req(h.iface.addr, 0))
	part(p, b[:1000])
	looks(p, 2*stallLooks)
	p.send(b[1000:])
	until(t, "message", func() bool { return len(h.got) == 2 }, h)

	q := enter(t, h, "10.0.0.1", 0)
	part(q, b[:100])
	looks(q, stallLooks-1)
	h.iface.svc.lookAtSlow()
	q.wantClosed()
}

// TestBeginnings: the memory for incomplete frames of one source is bounded; other sources are
// unaffected.
func TestBeginnings(t *testing.T) {
	setLimits(t, func(b *bounds) { b.partialBytes = 1 << 20 })
	h := newHost(t, "")
	half := am(1, strings.Repeat("x", 60000))[:40000]
	honest := enter(t, h, "10.0.0.1", 0)
	honest.send(half)
	var hog []*rawPeer
	for sn := range uint64(40) {
		p, n := enter(t, h, "10.9.9.9", sn), h.conns()
		p.send(half)
		for range 3 {
			h.w.Progress()
		}
		if h.conns() < n-1 {
			t.Fatalf("%d of %d connections went for one", n-h.conns(), n)
		}
		hog = append(hog, p)
		most := 0
		for _, g := range h.iface.svc.guests.of {
			most = max(most, g.held)
		}
		if most > 1<<20 {
			t.Fatalf("%d bytes of one source", most)
		}
	}
	if !hog[0].gone() || hog[39].gone() || honest.gone() {
		t.Errorf("gone: first %v, last %v, honest %v", hog[0].gone(), hog[39].gone(), honest.gone())
	}
	// Frames that were completed do not count.
	for n := range 100 {
		honest.send(am(1, strings.Repeat("x", 60000))[40000:])
		until(t, "message", func() bool { return len(h.got) == n+1 }, h)
		honest.send(half)
		until(t, "beginning", func() bool {
			return h.iface.svc.guests.of[ledger.SourceOf(netip.MustParseAddr("10.0.0.1"), -1)].held > 0
		}, h)
	}
}

// TestHalfClosedKeepsNothing: a peer that has announced its end, and closes its direction within a
// frame, does not occupy a buffer.
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

// TestManyAddresses: an attacker with many addresses, each with few connections, does not keep
// other peers out, and loses connections to them.
func TestManyAddresses(t *testing.T) {
	if !enoughFiles(1000) {
		t.Skip("too few descriptors")
	}
	for name, from := range map[string]func(i int) string{
		"a /56":        func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]", i%256) },
		"a /48":        func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]", i) },
		"a /32":        func(i int) string { return fmt.Sprintf("[2001:db8:%x::1]", i) },
		"a /24":        func(i int) string { return fmt.Sprintf("198.51.100.%d", i%200+1) },
		"anywhere":     func(i int) string { return fmt.Sprintf("%d.%d.0.1", 20+i%200, i/200) },
		"the same /48": func(i int) string { return fmt.Sprintf("[2001:db8:1:%x::1]", i+100) },
	} {
		for _, half := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s half-open %v", name, half), func(t *testing.T) {
				setLimits(t, func(b *bounds) { b.guests, b.few, b.halfOpen = 100, 4, 1000 })
				if half {
					setLimits(t, func(b *bounds) { b.guests, b.few, b.halfOpen = 1000, 4, 100 })
				}
				h := newHost(t, "")
				sn := uint64(0)
				enter := func(from string) *rawPeer {
					p := dialAs(t, h, from)
					if !p.gone() {
						sn++
						p.send(flight(addr("10.0.0.1:5"), sn))
						p.want(ack)
					}
					return p
				}
				speak := func(p *rawPeer) {
					n := len(h.got)
					p.send(am(1, "x"))
					until(t, "message", func() bool { return len(h.got) > n }, h)
				}
				var honest []*rawPeer
				for i := range 10 { // an honest network, several from each address
					for range 2 {
						p := enter(fmt.Sprintf("[2001:db8:1:%x::1]", i))
						speak(p)
						honest = append(honest, p)
					}
				}
				crowd := 0
				for i := range 400 {
					a := from(i)
					if half {
						dialAs(t, h, a)
					} else if !enter(a).gone() {
						crowd++
					}
					if i%50 == 0 {
						for _, p := range honest {
							if !p.gone() {
								speak(p)
							}
						}
					}
				}
				if !half && crowd < 390 {
					t.Errorf("%d newcomers were let in", crowd)
				}
				for i := range 5 {
					honest = append(honest, enter(fmt.Sprintf("10.1.0.%d", i+1)))
				}
				for i, p := range honest {
					if p.gone() {
						t.Errorf("honest connection %d is gone", i)
					}
				}
				if n := h.conns(); n > 125 {
					t.Errorf("%d connections", n)
				}
			})
		}
	}
}

// TestCrowdElsewhere: the many connections of one worker make room for new ones of another worker,
// both in number and in descriptors.
func TestCrowdElsewhere(t *testing.T) {
	for _, files := range []bool{false, true} {
		t.Run(fmt.Sprintf("files %v", files), func(t *testing.T) {
			setLimits(t, func(b *bounds) { b.guests = 60 })
			if files {
				setLimits(t, func(b *bounds) { b.guests = 1 << 16 })
			}
			a, b := newHost(t, ""), newHost(t, "")
			old := enter(t, a, "10.0.0.1", 0)
			if files {
				fewFiles(t, 400)
				ceiling := fileCeiling()
				a.iface.svc.ceiling, b.iface.svc.ceiling = ceiling, ceiling
				for sn := uint64(0); lowestFreeFD(t) < ceiling; sn++ {
					enter(t, a, "10.9.9.9", sn)
				}
			} else {
				for sn := range uint64(59) {
					enter(t, a, "10.9.9.9", sn)
				}
			}
			n := a.conns()
			var honest []*rawPeer
			for i := range 12 {
				p := enter(t, b, fmt.Sprintf("10.1.0.%d", i+1), 0)
				for range 3 {
					a.w.Progress()
				}
				honest = append(honest, p)
			}
			for i, p := range append(honest, old) {
				if p.gone() {
					t.Errorf("connection %d is gone", i)
				}
			}
			if now := a.conns(); now >= n {
				t.Errorf("the crowd has %d connections, it had %d", now, n)
			}
			if total := ledger.Total(ledger.Conns); !files && total > 60 {
				t.Errorf("%d connections", total)
			}
			// The number stays bounded even if the other worker does not progress.
			if !files {
				for i := range 40 {
					enter(t, b, fmt.Sprintf("10.2.0.%d", i+1), 0)
				}
				if total := ledger.Total(ledger.Conns); total > 60+60/16+2 {
					t.Errorf("%d connections while the other worker sleeps", total)
				}
			}
		})
	}
}

// TestProgressBeforeStalled: of the incomplete frames of the user with too many, those without
// progress are dropped first.
func TestProgressBeforeStalled(t *testing.T) {
	setLimits(t, func(b *bounds) { b.partialBytes = 1 << 20 })
	h := newHost(t, "")
	frame := am(1, strings.Repeat("x", 60000))
	honest := openAs(t, h, -1, 0)
	honest.send(frame[:40000])
	mover := openAs(t, h, os.Getuid()+1, 1) // a frame that progresses, of the user with too many
	mover.send(frame[:40000])
	held := func() (most int) {
		for _, g := range h.iface.svc.guests.of {
			most = max(most, g.held)
		}
		return most
	}
	at := 40000
	var hog []*rawPeer
	for sn := range uint64(100) {
		p := openAs(t, h, os.Getuid()+1, 10+sn)
		p.send(frame[:40000])
		mover.send(frame[at : at+10])
		at += 10
		for range 3 {
			h.w.Progress()
		}
		hog = append(hog, p)
		if n := held(); n > 1<<20 {
			t.Fatalf("%d bytes of one source", n)
		}
	}
	if !hog[0].gone() || hog[99].gone() || honest.gone() || mover.gone() {
		t.Errorf("gone: first %v, last %v, honest %v, moving %v", hog[0].gone(), hog[99].gone(), honest.gone(), mover.gone())
	}
	mover.send(frame[at:])
	honest.send(frame[40000:])
	until(t, "messages", func() bool { return len(h.got) == 2 }, h)
}

// TestPausedIsNotStalled: data that waits because the connection is paused is not charged to the
// peer until it is resumed.
func TestPausedIsNotStalled(t *testing.T) {
	setLimits(t, func(b *bounds) { b.partialBytes, b.stall = 100_000, 1 })
	h := newHost(t, "")
	var paused []*uct.Source
	h.iface.SetAMHandler(2, func(s *uct.Source, _ []byte, _ *uct.AMDesc) error {
		paused = append(paused, s)
		s.Owner.(uct.Connection).PauseSource()
		return nil
	})
	var p []*rawPeer
	for sn := range uint64(8) {
		q := enter(t, h, "10.0.0.1", sn)
		q.send(am(2, "pause"), am(1, strings.Repeat("x", 60000)))
		p = append(p, q)
	}
	until(t, "pause", func() bool { return len(paused) == 8 }, h)
	for i, q := range p {
		q.wantSilence()
		if q.gone() {
			t.Errorf("connection %d is gone", i)
		}
	}
	for _, g := range h.iface.svc.guests.of {
		if g.held != 0 {
			t.Errorf("%d bytes are charged", g.held)
		}
	}
	h.iface.bounds.partialBytes = 1 << 20
	for _, s := range paused {
		s.Owner.(uct.Connection).ResumeSource()
	}
	until(t, "messages", func() bool { return len(h.got) == 8 }, h)
}

// TestReserveTaken: if the process may open fewer descriptors than before, a connection closed to
// make room may free only a descriptor above the ceiling. A new connection still takes its place.
func TestReserveTaken(t *testing.T) {
	h := newHost(t, "")
	var below []int
	defer func() {
		for _, fd := range below {
			unix.Close(fd)
		}
	}()
	for range 320 {
		fd, err := unix.Dup(0)
		if err != nil {
			t.Skip("few descriptors here")
		}
		below = append(below, fd)
	}
	var hog []*rawPeer
	for sn := range uint64(40) {
		hog = append(hog, enter(t, h, "10.9.9.9", sn))
	}
	fewFiles(t, 20)
	h.iface.svc.ceiling = fileCeiling()
	if first := below[0]; first >= fileCeiling() || hog[0].fd < fileCeiling() {
		t.Fatalf("the first descriptors are %d and %d, the ceiling is %d", first, hog[0].fd, fileCeiling())
	}
	for i := range 5 {
		if p := enter(t, h, fmt.Sprintf("10.1.0.%d", i+1), 0); p.gone() {
			t.Errorf("newcomer %d is refused", i)
		}
	}
	exact(t, h, 40)
}

// TestTalkativeNetwork: many active connections of one network do not displace silent ones of other
// networks.
func TestTalkativeNetwork(t *testing.T) {
	if !enoughFiles(1000) {
		t.Skip("too few descriptors")
	}
	setLimits(t, func(b *bounds) { b.guests, b.few = 100, 4 })
	h := newHost(t, "")
	sn := uint64(0)
	speak := func(from string) *rawPeer {
		p := dialAs(t, h, from)
		sn++
		p.send(flight(addr("10.0.0.1:5"), sn), am(1, "x"))
		p.want(ack)
		return p
	}
	var honest []*rawPeer
	for i := range 20 {
		honest = append(honest, speak(fmt.Sprintf("[2001:db8:1:%x::1]", i/2)))
	}
	for i := range 400 {
		speak(fmt.Sprintf("[2001:db8:0:%x::1]", i%256))
	}
	for i, p := range honest {
		if p.gone() {
			t.Errorf("honest connection %d is gone", i)
		}
	}
	exact(t, h, 100)
}

// TestEnlistOnce: a worker with many connections registers once as one that can make room for other
// workers, not at each accepted connection.
func TestEnlistOnce(t *testing.T) {
	setLimits(t, func(b *bounds) { b.few = 4 })
	h := newHost(t, "")
	listed := func() bool {
		siblings.Lock()
		defer siblings.Unlock()
		_, ok := siblings.services[h.iface.svc]
		return ok
	}
	for sn := range uint64(4) {
		enter(t, h, "10.0.0.1", sn)
	}
	if listed() {
		t.Error("listed with a few")
	}
	enter(t, h, "10.0.0.1", 4)
	if !listed() {
		t.Fatal("nobody can ask it")
	}
	siblings.Lock()
	delete(siblings.services, h.iface.svc) // to see whether it registers again
	siblings.Unlock()
	enter(t, h, "10.0.0.1", 5)
	if listed() {
		t.Error("listed once more")
	}
}
