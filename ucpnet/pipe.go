package ucpnet

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Pipe returns the two ends of a connection within the worker. They need no connection
// manager, so it works with any transports, over self for one. Both are *Conn, without socket
// addresses.
func (c *Config) Pipe() (net.Conn, net.Conn, error) {
	a, b, err := c.pipe()
	if err != nil {
		return nil, nil, &net.OpError{Op: "dial", Net: network, Err: named(err)}
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

// pipeEnd makes one end, with a reference of the hub.
func (c *Config) pipeEnd(h *hub, addr ucp.Address) (*Conn, error) {
	end := newConn(h, c.Linger)
	end.native = true
	if err := end.attach(ucp.EndpointParams{Address: addr, Flags: ucp.EndpointNoLoopback}); err != nil {
		return nil, err
	}
	h.retain()
	return end, nil
}

// connectWithin connects with a listener of the same worker, which needs no connection
// manager either.
func (c *Config) connectWithin(h *hub, l *Listener, to netip.AddrPort) (*Conn, error) {
	a, b, err := (&Config{Worker: h.key, Linger: c.Linger}).pipe()
	if err != nil {
		return nil, err
	}
	if !l.admit(b) {
		a.leave(nil)
		b.leave(nil)
		return nil, fmt.Errorf("ucpnet: the listener at %v takes no more: %w", to, ucs.ErrRejected)
	}
	from := netip.AddrPortFrom(to.Addr(), 0)
	a.local.AddrPort, a.remote.AddrPort = from, to
	b.local.AddrPort, b.remote.AddrPort = to, from
	b.linger = l.config.Linger
	if !l.admitted(b, true) {
		b.leave(nil)
	}
	return a, nil
}
