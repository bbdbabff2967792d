//go:build linux

package tcp

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hangs is the time after which a test counts as hanging. With the race detector, a busy machine
// takes more than a minute for some steps.
const hangs = 10 * time.Minute

// tlsPeer is a client that violates the protocol within TLS. The host progresses while the client
// waits.
type tlsPeer struct {
	t  testing.TB
	h  *host
	tc *tls.Conn
}

// dialTLS connects to a host's listener and completes the handshake.
func dialTLS(t testing.TB, h *host, cfg *tls.Config) *tlsPeer {
	t.Helper()
	p := &tlsPeer{t: t, h: h}
	p.tc = startTLS(t, h, cfg)
	var err error
	p.meanwhile(func() { err = p.tc.Handshake() })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// startTLS connects to a host's listener.
func startTLS(t testing.TB, h *host, cfg *tls.Config) *tls.Conn {
	t.Helper()
	c, err := net.Dial("tcp", h.iface.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return overTLS(t, c, cfg)
}

// overTLS returns the client's side of a TLS connection.
func overTLS(t testing.TB, c net.Conn, cfg *tls.Config) *tls.Conn {
	c.SetDeadline(time.Now().Add(hangs))
	t.Cleanup(func() { c.Close() })
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = "127.0.0.1"
	}
	return tls.Client(c, cfg)
}

// deafTLS is dialTLS by a client with small buffers, whose host blocks soon when the client does
// not read. It uses a pair of local sockets: a TCP without buffer space may drop segments together
// with the acknowledgements in them, and then neither direction progresses.
func deafTLS(t testing.TB, h *host, cfg *tls.Config) *tlsPeer {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[1]), "client")
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	p := &tlsPeer{t: t, h: h, tc: overTLS(t, c, cfg)}
	h.iface.accepted(fds[0], netip.MustParseAddrPort("10.0.0.1:1000"))
	p.meanwhile(func() { err = p.tc.Handshake() })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// meanwhile progresses the host while fn runs.
func (p *tlsPeer) meanwhile(fn func()) {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		p.h.w.Progress()
		wait([]*host{p.h})
	}
}

func (p *tlsPeer) send(parts ...[]byte) {
	p.t.Helper()
	var err error
	p.meanwhile(func() { _, err = p.tc.Write(bytes.Join(parts, nil)) })
	if err != nil {
		p.t.Fatal(err)
	}
}

// want expects bytes from the host.
func (p *tlsPeer) want(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	var err error
	p.meanwhile(func() {
		for n := 0; n < len(got) && err == nil; {
			var k int
			k, err = p.tc.Read(got[n:])
			n += k
		}
	})
	if err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("received %x, %v, want %x", got, err, want)
	}
}

// wantClosed expects the end of the connection without another byte of payload.
func (p *tlsPeer) wantClosed() {
	p.t.Helper()
	var n int
	var err error
	p.meanwhile(func() { n, err = p.tc.Read(make([]byte, 64)) })
	if e, ok := err.(net.Error); n > 0 || err == nil || ok && e.Timeout() {
		p.t.Fatalf("%d bytes, %v instead of the end", n, err)
	}
}

// wantSilence expects no payload in a few rounds.
func (p *tlsPeer) wantSilence() {
	p.t.Helper()
	for range 20 {
		p.h.w.Progress()
	}
	p.tc.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := p.tc.Read(make([]byte, 64)); n > 0 || !err.(net.Error).Timeout() {
		p.t.Fatalf("%d bytes, %v instead of nothing", n, err)
	}
	p.tc.SetReadDeadline(time.Now().Add(time.Minute))
}
