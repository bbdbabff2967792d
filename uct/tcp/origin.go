package tcp

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/ucx-go/ucx/uct"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sockdiag"
)

// origin is what is known of a connection's other end without believing it.
type origin struct {
	addr   netip.AddrPort // as accept or connect had it
	placed bool           // local is known
	local  bool
	asked  bool // the kernel has been asked for the socket
	socket sockdiag.Socket
	err    error // why it is not known
	holder holder
}

// holder is a process that was asked about.
type holder struct {
	asked   bool
	process uct.Process
	holds   bool // the other end of the connection
}

// here reports whether the other end is at an address of this machine, in this
// network namespace. What comes through a proxy here seems to be here.
func (c *conn) here() bool {
	o := &c.from
	if !o.placed {
		o.placed = true
		ip := o.addr.Addr()
		o.local = ip == c.iface.addr.addrPort().Addr() || ip.IsLoopback() || c.iface.svc.ownAddr(ip)
	}
	return o.local
}

// otherEnd asks the kernel, once, for the socket at the other end of a connection
// within the machine.
func (c *conn) otherEnd() (sockdiag.Socket, error) {
	o := &c.from
	switch {
	case o.asked:
	case c.state == stateClosed || !c.here():
		return sockdiag.Socket{}, sockdiag.ErrNotFound
	default:
		o.asked = true
		var own unix.Sockaddr
		if own, o.err = unix.Getsockname(int(c.fd)); o.err == nil {
			o.socket, o.err = c.iface.svc.diag.Peer(addrPortOf(own), o.addr)
		}
	}
	return o.socket, o.err
}

// ownAddrs are the addresses of this network namespace's devices.
type ownAddrs struct {
	known bool
	until time.Duration // by the clock of the worker
	ips   map[netip.Addr]struct{}
}

// ownAddrsFor is how long a list of addresses is believed. It saves those a look
// who connect in crowds.
const ownAddrsFor = 50 * time.Millisecond

// ownAddr reports whether a device of this network namespace has the address.
func (s *service) ownAddr(ip netip.Addr) bool {
	o := &s.own
	if now := s.w.Now(); !o.known || now >= o.until {
		*o = ownAddrs{known: true, until: now + ownAddrsFor, ips: readOwnAddrs()}
	}
	_, ok := o.ips[ip]
	return ok
}

// readOwnAddrs asks the kernel. Without an answer nobody but loopback is local.
func readOwnAddrs() map[netip.Addr]struct{} {
	dump, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_UNSPEC)
	if err != nil {
		return nil
	}
	ips := make(map[netip.Addr]struct{})
	eachMessage(dump, unix.RTM_NEWADDR, unix.SizeofIfAddrmsg, func(m *syscall.NetlinkMessage) {
		var addr, local netip.Addr
		eachAttr(m.Data[unix.SizeofIfAddrmsg:], func(typ uint16, v []byte) {
			switch typ {
			case unix.IFA_ADDRESS:
				addr, _ = netip.AddrFromSlice(v)
			case unix.IFA_LOCAL:
				local, _ = netip.AddrFromSlice(v)
			}
		})
		if local.IsValid() {
			addr = local // of a point-to-point link the other is the peer's
		}
		if addr.IsValid() {
			ips[addr] = struct{}{}
		}
	})
	return ips
}

// addrPortOf converts what the kernel gives; the zero value if it is no address.
func addrPortOf(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
