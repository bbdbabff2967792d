package ucpnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp"
)

// Listen listens on an address, "host:port": an empty host means all addresses of the
// machine, port 0 a free port. The network is "ucp", "ucp4" or "ucp6"; "tcp", "tcp4" and
// "tcp6", which much software passes, mean the same. It returns a *Listener.
func (c *Config) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	f := c.filled()
	l, err := f.listen(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: withErrno(err)}
	}
	return l, nil
}

func (c *Config) listen(ctx context.Context, network, address string) (*Listener, error) {
	list, err := resolve(ctx, network, address, true)
	if err != nil {
		return nil, err
	}
	h, err := hubOf(c.Worker)
	if err != nil {
		return nil, err
	}
	l := &Listener{hub: h, config: *c, backlog: ledger.NewBacklog[*Conn](c.Backlog)}
	for _, a := range list {
		// A client may connect before the assignment of l.addr; Accept can only be called after it.
		if l.ucp, err = h.w.NewListener(ucp.ListenerParams{Addr: a, OnConnRequest: l.onRequest}); err == nil {
			l.addr = &Addr{l.ucp.Addr()}
			h.addListener(l)
			return l, nil
		}
	}
	h.release()
	return nil, err
}

// DialContext connects to a Listener or to a server of C UCX; the network is as for Listen.
// If the host has several addresses it tries them one after the other. It returns a *Conn.
func (c *Config) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	f := c.filled()
	if f.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.Timeout)
		defer cancel()
	}
	conn, err := f.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (c *Config) dial(ctx context.Context, network, address string) (*Conn, error) {
	failed := func(to net.Addr, err error) error {
		if ctx.Err() != nil {
			err = ended(ctx)
		}
		return &net.OpError{Op: "dial", Net: network, Addr: to, Err: withErrno(err)}
	}
	var from netip.AddrPort
	list, err := resolve(ctx, network, address, false)
	if err == nil && c.LocalAddr != "" {
		from, err = parseLocal(c.LocalAddr)
	}
	if err != nil {
		return nil, failed(nil, err)
	}
	var last error
	for _, to := range list {
		conn, err := c.connect(ctx, to, from)
		if err == nil {
			return conn, nil
		}
		if last = failed(&Addr{to}, err); ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// connect makes a connection to one address.
func (c *Config) connect(ctx context.Context, to, from netip.AddrPort) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := hubOf(c.Worker)
	if err != nil {
		return nil, err
	}
	if l := h.listenerAt(to); l != nil {
		defer h.release()
		return c.connectWithin(h, l, from, to)
	}
	conn := newConn(h, c.Linger)
	if err := conn.attach(ucp.EndpointParams{RemoteAddr: to, LocalAddr: from, ErrMode: ucp.ErrModePeer, ClientID: Greeting}); err != nil {
		h.release()
		return nil, err
	}
	if err := conn.ep.ConnectWait(ctx); err != nil {
		conn.ep.Close()
		h.release()
		return nil, err
	}
	conn.native = conn.ep.ServerID() == Greeting
	conn.settle()
	return conn, nil
}

// family returns the name of a network in the form that net.Resolver expects: "ip", "ip4" or "ip6".
func family(network string) (string, error) {
	switch network {
	case "ucp", "tcp":
		return "ip", nil
	case "ucp4", "tcp4":
		return "ip4", nil
	case "ucp6", "tcp6":
		return "ip6", nil
	}
	return "", net.UnknownNetworkError(network)
}

// resolve returns the socket addresses of "host:port". The parameter passive means that they are
// for listening.
func resolve(ctx context.Context, network, address string, passive bool) ([]netip.AddrPort, error) {
	ip, err := family(network)
	if err != nil {
		return nil, err
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if host == "" {
		addrs = unnamed(ip, passive)
	} else if addrs, err = net.DefaultResolver.LookupNetIP(ctx, ip, host); err != nil {
		return nil, err
	}
	list := make([]netip.AddrPort, len(addrs))
	for k, a := range addrs {
		list[k] = netip.AddrPortFrom(a.Unmap(), uint16(port))
	}
	return list, nil
}

// unnamed returns the addresses that an empty host stands for: the unspecified addresses for
// listening, else the loopback addresses.
func unnamed(ip string, passive bool) []netip.Addr {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	if passive {
		v4, v6 = netip.IPv4Unspecified(), netip.IPv6Unspecified()
	}
	switch {
	case ip == "ip4":
		return []netip.Addr{v4}
	case ip == "ip6":
		return []netip.Addr{v6}
	case passive: // the IPv6 address accepts IPv4 too, if the system has IPv6
		return []netip.Addr{v6, v4}
	}
	return []netip.Addr{v4, v6}
}

// parseLocal parses Config.LocalAddr.
func parseLocal(s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return netip.AddrPortFrom(a, 0), nil
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return a, fmt.Errorf("ucpnet: local address: %w", err)
	}
	return a, nil
}
