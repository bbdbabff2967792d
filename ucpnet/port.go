package ucpnet

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Connections within a worker have no socket, so the kernel assigns no port to their clients. This
// package assigns a port that no other open connection of this kind has at the same address,
// because programs tell connections apart by the client's address.

// ports holds the ports in use.
var ports = struct {
	mu   sync.Mutex
	used map[netip.AddrPort]struct{}
	last int // counter from which the next port number is computed
}{used: make(map[netip.AddrPort]struct{})}

// spans are the ranges of assigned ports: first the ports above Linux's default range of ephemeral
// ports, so that few of them are ports of connections from other processes, then the others.
var spans = [...]struct{ first, n int }{{61000, 4536}, {1024, 61000 - 1024}}

// port is a port that takePort has assigned. A nil *port is that of a connection without one.
type port struct{ at netip.AddrPort }

// takePort assigns the port of an address or, if the port is 0, a free port at that address.
func takePort(at netip.AddrPort) (*port, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if at.Port() != 0 {
		if !use(at) {
			return nil, &failure{syscall.EADDRINUSE, fmt.Errorf("ucpnet: another connection within the process is from %v", at)}
		}
		return &port{at}, nil
	}
	for _, s := range spans {
		for range s.n {
			ports.last++
			if p := netip.AddrPortFrom(at.Addr(), uint16(s.first+ports.last%s.n)); use(p) {
				return &port{p}, nil
			}
		}
	}
	return nil, &failure{syscall.EADDRNOTAVAIL, fmt.Errorf("ucpnet: all ports of %v are in use by connections within the process", at.Addr())}
}

// use marks a port as used and reports whether it was free. The caller holds the lock.
func use(p netip.AddrPort) bool {
	if _, used := ports.used[p]; used {
		return false
	}
	ports.used[p] = struct{}{}
	return true
}

// free releases the port.
func (p *port) free() {
	if p == nil {
		return
	}
	ports.mu.Lock()
	delete(ports.used, p.at)
	ports.mu.Unlock()
}

// ends returns the addresses of client and server of a connection within a worker. The parameter
// from is the address that the client requests, which may be invalid, and the parameter to is the
// address that it connects to.
func ends(from, to netip.AddrPort) (client, server netip.AddrPort, err error) {
	if to.Addr().IsUnspecified() {
		local := netip.IPv6Loopback()
		if to.Addr().Is4() {
			local = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		to = netip.AddrPortFrom(local, to.Port())
	}
	a := from.Addr().Unmap()
	switch {
	case !a.IsValid() || a.IsUnspecified():
		a = to.Addr()
	case a.Is4() != to.Addr().Is4():
		return from, to, &net.AddrError{Err: "mismatched local address type", Addr: a.String()}
	case !isOwn(a):
		return from, to, &failure{syscall.EADDRNOTAVAIL, fmt.Errorf("ucpnet: %v is not an address of this machine", a)}
	}
	return netip.AddrPortFrom(a, from.Port()), to, nil
}
