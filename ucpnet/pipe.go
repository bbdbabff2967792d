package ucpnet

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Pipe returns the two sides of a connection within the worker. It needs no connection manager, so
// it works with any transport, for example with self alone. Both results are *Conn, without socket
// addresses.
func (c *Config) Pipe() (net.Conn, net.Conn, error) {
	a, b, err := c.pipe()
	if err != nil {
		return nil, nil, &net.OpError{Op: "dial", Net: network, Err: withErrno(err)}
	}
	return a, b, nil
}

func (c *Config) pipe() (a, b *Conn, err error) {
	f := c.filled()
	h, err := hubOf(f.Worker)
	if err != nil {
		return nil, nil, err
	}
	defer h.release()
	addr, err := h.w.Address(0)
	if err != nil {
		return nil, nil, err
	}
	h.pairs.Lock()
	defer h.pairs.Unlock()
	if a, err = f.pipeEnd(h, addr); err != nil {
		return nil, nil, err
	}
	if b, err = f.pipeEnd(h, addr); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

// pipeEnd creates one side of a pipe. It takes a reference to the hub for it.
func (c *Config) pipeEnd(h *hub, addr ucp.Address) (*Conn, error) {
	end := newConn(h, c.Linger)
	end.native = true
	if err := end.attach(ucp.EndpointParams{Address: addr, Flags: ucp.EndpointNoLoopback}); err != nil {
		return nil, err
	}
	h.retain()
	return end, nil
}

// connectWithin connects to the listener l of the same worker by a pipe, without a connection
// manager.
func (c *Config) connectWithin(h *hub, l *Listener, from, to netip.AddrPort) (*Conn, error) {
	from, to, err := ends(from, to)
	if err != nil {
		return nil, err
	}
	own, err := takePort(from)
	if err != nil {
		return nil, err
	}
	a, b, err := (&Config{Worker: h.key, Linger: c.Linger}).pipe()
	if err != nil {
		own.free()
		return nil, err
	}
	a.port, a.twin, b.twin = own, b, a
	a.local.AddrPort, a.remote.AddrPort = own.at, to
	b.local.AddrPort, b.remote.AddrPort = to, own.at
	b.linger = l.config.Linger
	if !l.admit(b, ledger.SourceOf(own.at.Addr(), os.Getuid())) {
		a.abort()
		b.abort()
		return nil, fmt.Errorf("ucpnet: the backlog of the listener at %v is full: %w", to, ucs.ErrRejected)
	}
	if !l.admitted(b, true) {
		b.abort()
	}
	return a, nil
}
