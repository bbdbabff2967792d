//go:build linux

package tcp

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// acceptedAs makes a host accept a connection with the given descriptor, and reports whether the
// connection was kept.
func acceptedAs(t *testing.T, h *host, fd int, from string) bool {
	t.Helper()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Fatalf("descriptor %d is in use", fd)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &rawPeer{t: t, h: h, fd: fds[1]}
	t.Cleanup(p.close)
	if err := unix.Dup3(fds[0], fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	unix.Close(fds[0])
	h.iface.accepted(fd, netip.MustParseAddrPort(from+":1000"))
	return !p.gone()
}

// TestFileBounds checks the exact first descriptors that peers do not get, alone and while another
// worker can make room.
func TestFileBounds(t *testing.T) {
	setLimits(t, func(b *bounds) { b.few = 4 })
	h, other := newHost(t, ""), newHost(t, "")
	fewFiles(t, 400)
	first, last := fileCeilings()
	h.iface.svc.ceiling, other.iface.svc.ceiling = first, first
	bounds := func(what string, most int) {
		t.Helper()
		for fd, want := range map[int]bool{most - 1: true, most: false, most + 1: false} {
			if acceptedAs(t, h, fd, "10.0.0.1") != want {
				t.Errorf("%s: descriptor %d of %d and %d is for a peer: %v", what, fd, first, last, !want)
			}
		}
	}
	bounds("alone", first)
	for sn := range uint64(20) { // the other worker has many connections
		enter(t, other, "10.9.9.9", sn)
	}
	bounds("beside a worker", last)
}

// TestMoveBelow: a connection moves to a free descriptor below the ceiling, and keeps its own if
// there is none.
func TestMoveBelow(t *testing.T) {
	h := newHost(t, "")
	p := dialAs(t, h, "10.0.0.1")
	c := h.iface.conns
	had, free := int(c.fd), lowestFreeFD(t)
	for _, ceiling := range []int{0, free} {
		if c.moveBelow(ceiling); int(c.fd) != had || lowestFreeFD(t) != free {
			t.Fatalf("moved from %d to %d, the next is %d and was %d", had, c.fd, lowestFreeFD(t), free)
		}
	}
	if err := c.watch(0); err != nil { // as after accepting
		t.Fatal(err)
	}
	if c.moveBelow(free + 1); int(c.fd) != free || lowestFreeFD(t) != had {
		t.Errorf("moved from %d to %d, the next is %d", had, c.fd, lowestFreeFD(t))
	}
	if err := c.watch(event.Read); err != nil || p.gone() {
		t.Errorf("the connection is gone: %v", err)
	}
}

// TestYield: without free descriptors, a connection left by a closed endpoint of the application
// makes room for another endpoint of the application, but not for one that a peer asks for.
// Connections made by peers stay, as a peer may wait for replies.
func TestYield(t *testing.T) {
	setLimits(t, func(b *bounds) { b.few = 4 })
	h, other := newHost(t, ""), newHost(t, "")
	l := listenRaw(t, h, true)
	for sn := range uint64(60) {
		enter(t, h, "10.9.9.9", sn)
	}
	ep := h.connect(other)
	until(t, "connection", connected(ep), h, other)
	until(t, "connection", connected(other.connect(h)), h, other) // uses the same connection
	if ep.Close(); h.conns() != 61 {
		t.Fatalf("%d connections, one left over among them", h.conns())
	}
	fewFiles(t, 0)
	params := uct.EndpointParams{DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: []byte{byte(l.addr.port >> 8), byte(l.addr.port)}}
	for _, c := range []struct{ forPeer, connects bool }{{true, false}, {false, true}, {false, false}} {
		params.ForPeer = c.forPeer
		ep, err := h.iface.NewEndpoint(params)
		if err != nil {
			t.Fatal(err)
		}
		if own := ep.(*endpoint).conn; (own != nil) != c.connects || h.conns() != 61 {
			t.Errorf("for a peer %v: connection %v, %d in all", c.forPeer, own, h.conns())
		}
	}
}

// TestScarceForNetwork: a network has used up the descriptors with active connections. A new,
// silent connection of the same network is still accepted.
func TestScarceForNetwork(t *testing.T) {
	setLimits(t, func(b *bounds) { b.few = 4 })
	h := newHost(t, "")
	few := fewFiles(t, 400)
	h.iface.svc.ceiling = fileCeiling()
	sn := 0
	enterNext := func() *rawPeer {
		sn++
		return dialAs(t, h, fmt.Sprintf("[2001:db8:0:%x::1]", sn))
	}
	for lowestFreeFD(t) < fileCeiling() {
		if sn > few {
			t.Fatal("the reserve was not reached")
		}
		n := len(h.got)
		p := enterNext()
		p.send(flight(addr("10.0.0.1:5"), uint64(sn)), am(1, "x"))
		until(t, "message", func() bool { return len(h.got) > n }, h)
	}
	n := h.conns()
	for range 5 {
		if p := enterNext(); p.gone() {
			t.Error("the newcomer had to go")
		} else {
			p.send(flight(addr("10.0.0.1:5"), uint64(sn)))
			p.want(ack)
		}
	}
	exact(t, h, n)
}

// TestAcceptPause: without descriptors in the process, or in the machine, the listener pauses;
// otherwise waiting clients would keep the worker busy. It resumes later. No connection is closed
// when the machine is what lacks them.
func TestAcceptPause(t *testing.T) {
	for _, cause := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM} {
		t.Run(unix.ErrnoName(cause.(unix.Errno)), func(t *testing.T) {
			setLimits(t, func(b *bounds) { b.acceptPause = 1 << 50 })
			h := newHost(t, "")
			l := &h.iface.listener
			var guests []*rawPeer
			for range 20 {
				p := dial(t, h)
				p.send(flight(addr("127.0.0.1:5"), uint64(len(guests))))
				p.want(ack)
				guests = append(guests, p)
			}
			calls, gone := 0, 0
			l.accept = func(int, int) (int, syscall.Sockaddr, error) {
				calls++
				return -1, nil, cause
			}
			late := dial(t, h)
			late.wantSilence()
			for _, p := range guests {
				if p.gone() {
					gone++
				}
			}
			wantCalls, wantGone := 1, 0
			if cause == unix.EMFILE { // one connection is closed to make room
				wantCalls, wantGone = 2, 1
			}
			if calls != wantCalls || gone != wantGone {
				t.Errorf("%d attempts to accept, want %d; %d had to go, want %d", calls, wantCalls, gone, wantGone)
			}
			ready := []unix.PollFd{{Fd: int32(h.w.EventFD()), Events: unix.POLLIN}}
			if n, err := unix.Poll(ready, 0); armed(h) != nil || n != 0 || err != nil {
				t.Error("who waits at the listener keeps the worker awake")
			}
			l.accept = syscall.Accept4
			late.wantSilence()
			n := h.conns()
			l.timer.Reset(1)
			late.send(flight(addr("127.0.0.1:7"), 0))
			late.want(ack)
			exact(t, h, n+1)
		})
	}
}
