package ucpnet

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Connections within a worker have no socket, and a client of one no port that the kernel
// has given. It gets one all the same, which no other such client has at the time at that
// address: programs tell connections apart by the address of the client.

// ports are those in use.
var ports = struct {
	mu   sync.Mutex
	used map[netip.AddrPort]struct{}
	last int // how far the numbers were given out
}{used: make(map[netip.AddrPort]struct{})}

// spans are the numbers that are given out: those above the ones that Linux gives to clients
// by default, so that few of them are those of connections from other processes, and when
// these are used up the others.
var spans = [...]struct{ first, n int }{{61000, 4536}, {1024, 61000 - 1024}}

// port is one that is in use, nil for connections without.
type port struct{ at netip.AddrPort }

// takePort takes the port at, or if that is 0 one that is free at the address.
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

// use takes a port, with the lock, and reports whether it was free.
func use(p netip.AddrPort) bool {
	if _, used := ports.used[p]; used {
		return false
	}
	ports.used[p] = struct{}{}
	return true
}

// free gives the port back.
func (p *port) free() {
	if p == nil {
		return
	}
	ports.mu.Lock()
	delete(ports.used, p.at)
	ports.mu.Unlock()
}

// ends returns the addresses of the two ends of a connection within a worker: of a client
// that is to be at from, if that is valid, and of the listener at to.
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
