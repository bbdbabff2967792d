//go:build linux

package tcp

import (
	"net"
	"net/netip"
	"time"
)

// pipe is the net.Conn below crypto/tls. During a handshake its methods are called by the
// handshake's goroutine; methods other than Read and Write also by any goroutine to which a
// callback of the application gives the net.Conn. After the handshake the worker's goroutine calls
// them.
type pipe struct {
	below         readWriter // the handshake in progress, afterwards the stream
	end           func()     // ends the handshake early; any goroutine may call it
	local, remote netip.AddrPort
}

// readWriter supplies crypto/tls with received bytes (take) and accepts its output (put). put never
// fails and accepts all of p.
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

// SetDeadline implements net.Conn. It does nothing: the worker enforces time limits.
func (p *pipe) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn. It does nothing.
func (p *pipe) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn. It does nothing.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

// wouldBlock is a temporary error: crypto/tls does not keep it, but continues where it was with the
// next call.
type wouldBlock struct{}

// errWouldBlock says that there is nothing to read now.
var errWouldBlock net.Error = wouldBlock{}

func (wouldBlock) Error() string   { return "nothing to read now" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }
