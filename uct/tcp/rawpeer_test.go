//go:build linux

package tcp

import (
	"bytes"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// rawPeer is a plain socket with which a test follows or violates the protocol toward a host.
type rawPeer struct {
	t  testing.TB
	h  *host
	fd int
}

// dial connects to a host's listener.
func dial(t testing.TB, h *host) *rawPeer { return dialFrom(t, h, sockaddr{}, -1) }

// dialFrom is dial from an address and by a user.
func dialFrom(t testing.TB, h *host, from sockaddr, uid int) *rawPeer {
	t.Helper()
	fd, err := unix.Socket(h.iface.addr.family(), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if from != (sockaddr{}) {
		if err := unix.Bind(fd, h.iface.unix(&from)); err != nil {
			t.Fatal(err)
		}
	}
	if uid >= 0 { // the kernel reports the owner of a socket's file
		if err := unix.Fchown(fd, uid, -1); err != nil {
			needtest.Right(t, "root, to make sockets of other users")
		}
	}
	if err := unix.Connect(fd, h.iface.unix(&h.iface.addr)); err != nil {
		t.Fatal(err)
	}
	return newRawPeer(t, h, fd)
}

func newRawPeer(t testing.TB, h *host, fd int) *rawPeer {
	unix.SetNonblock(fd, true)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	p := &rawPeer{t: t, h: h, fd: fd}
	t.Cleanup(p.close)
	return p
}

func (p *rawPeer) close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// send writes bytes to the host, which progresses while they do not fit.
func (p *rawPeer) send(parts ...[]byte) {
	p.t.Helper()
	b := bytes.Join(parts, nil)
	until(p.t, "raw send", func() bool {
		n, err := unix.SendmsgN(p.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && err != unix.EAGAIN {
			p.t.Fatalf("raw send: %v", err)
		}
		b = b[max(n, 0):]
		return len(b) == 0
	}, p.h)
}

// recv returns the next n bytes from the host.
func (p *rawPeer) recv(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	at := 0
	until(p.t, "raw receive", func() bool {
		k, err := unix.Read(p.fd, b[at:])
		if err != nil && err != unix.EAGAIN {
			p.t.Fatalf("raw receive: %v after %x", err, b[:at])
		}
		if k == 0 && err == nil && n > 0 {
			p.t.Fatalf("raw receive: end of stream after %x", b[:at])
		}
		at += max(k, 0)
		return at == n
	}, p.h)
	return b
}

// want expects bytes from the host.
func (p *rawPeer) want(parts ...[]byte) {
	p.t.Helper()
	want := bytes.Join(parts, nil)
	if got := p.recv(len(want)); !bytes.Equal(got, want) {
		p.t.Fatalf("received %x, want %x", got, want)
	}
}

// wantClosed expects the host to close the connection without another byte.
func (p *rawPeer) wantClosed() {
	p.t.Helper()
	until(p.t, "the connection to be closed", func() bool {
		var b [64]byte
		n, err := unix.Read(p.fd, b[:])
		if n > 0 {
			p.t.Fatalf("received %x instead of the end", b[:n])
		}
		return err != unix.EAGAIN
	}, p.h)
}

// gone reports whether the host has closed the connection.
func (p *rawPeer) gone() bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(p.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n == 0 && err == nil || err == unix.ECONNRESET
}

// wantSilence expects nothing from the host in a few rounds, and an open
// connection.
func (p *rawPeer) wantSilence() {
	p.t.Helper()
	for range 20 {
		p.h.w.Progress()
	}
	var b [64]byte
	if n, err := unix.Read(p.fd, b[:]); err != unix.EAGAIN {
		p.t.Fatalf("received %x, %v", b[:max(n, 0)], err)
	}
}

// reset makes close send a reset.
func (p *rawPeer) reset() {
	unix.SetsockoptLinger(p.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	p.close()
}

// rawListener takes the place of a peer's iface.
type rawListener struct {
	t    testing.TB
	fd   int
	addr sockaddr
}

// listenRaw opens a listener on 127.0.0.1 whose address is smaller or larger
// than that of h.
func listenRaw(t testing.TB, h *host, smaller bool) *rawListener {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &rawListener{t: t, fd: fd, addr: h.iface.addr}
	t.Cleanup(l.close)
	for {
		if smaller {
			l.addr.port--
		} else {
			l.addr.port++
		}
		if l.addr.port == 0 {
			t.Fatal("no free port")
		}
		if unix.Bind(fd, h.iface.unix(&l.addr)) == nil {
			break
		}
	}
	if err := unix.Listen(fd, 16); err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock(fd, true)
	return l
}

func (l *rawListener) close() {
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
}

// accept returns the next connection from h.
func (l *rawListener) accept(h *host) *rawPeer {
	l.t.Helper()
	fd := -1
	until(l.t, "a connection", func() bool {
		var err error
		fd, _, err = unix.Accept4(l.fd, unix.SOCK_CLOEXEC)
		return err == nil
	}, h)
	return newRawPeer(l.t, h, fd)
}

// endpoint makes an endpoint of h to the raw listener.
func (l *rawListener) endpoint(h *host) *endpoint {
	l.t.Helper()
	b := []byte{byte(l.addr.port >> 8), byte(l.addr.port)}
	ep, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: b, UserData: l})
	if err != nil {
		l.t.Fatal(err)
	}
	return ep.(*endpoint)
}

// flight returns what a connecting peer with this listener sends first.
func flight(from sockaddr, sn uint64) []byte {
	return append(appendMagic(nil), req(from, sn)...)
}

func req(from sockaddr, sn uint64) []byte {
	return appendRequest(nil, request{id: sn, from: from})
}

func am(id byte, data string) []byte {
	return append(appendFrameHeader(nil, id, len(data)), data...)
}

func putReq(addr, length uint64, sn uint32) []byte {
	return appendPutHeader(nil, putHeader{addr, length, sn})
}

var (
	ack    = appendEvent(nil, eventAck)
	ackReq = appendEvent(nil, eventAckReq)
	fin    = appendEvent(nil, eventFin)
)

// localAddr returns a socket's own address.
func localAddr(t testing.TB, fd int) netip.AddrPort {
	t.Helper()
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return inet.AddrPort(sa)
}
