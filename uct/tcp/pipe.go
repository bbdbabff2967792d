//go:build linux

package tcp

import (
	"net"
	"net/netip"
	"time"
)

// pipe is a stream's lower end as crypto/tls wants it. During a handshake its
// methods are called by the handshake's goroutine, and those that do not read or write
// by anyone to whom the application's callbacks give it; afterwards by the worker's.
type pipe struct {
	below         readWriter // a handshake, then a stream
	end           func()     // ends the handshake early; for any goroutine
	local, remote netip.AddrPort
}

// readWriter gives bytes to crypto/tls and takes some. A write never fails, nor does
// it take a part only.
type readWriter interface {
	take(p []byte) (int, error)
	put(p []byte)
}

var _ net.Conn = (*pipe)(nil)

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) { return p.below.take(b) }

// Write implements net.Conn.
func (p *pipe) Write(b []byte) (int, error) {
	p.below.put(b)
	return len(b), nil
}

// Close implements net.Conn: crypto/tls calls it to end a handshake early.
func (p *pipe) Close() error {
	p.end()
	return nil
}

// LocalAddr implements net.Conn.
func (p *pipe) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(p.local) }

// RemoteAddr implements net.Conn.
func (p *pipe) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(p.remote) }

// SetDeadline implements net.Conn. Times are the worker's business.
func (p *pipe) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (p *pipe) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

// wouldBlock is an error that crypto/tls does not keep: it goes on where it was with
// the next call.
type wouldBlock struct{}

// errWouldBlock says that there is nothing to read now.
var errWouldBlock net.Error = wouldBlock{}

func (wouldBlock) Error() string   { return "nothing to read now" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }
