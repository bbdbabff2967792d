//go:build linux

package tcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// origin is what is known about the other end of a connection without relying on the peer's
// claims.
type origin struct {
	addr   netip.AddrPort // the address that accept returned or connect was given
	placed bool           // local is valid
	local  bool           // at an address of this machine, in this network namespace
	asked  bool           // the kernel has answered: socket or err is valid
	socket sockdiag.Socket
	err    error // why the socket is not known
	holder holder
}

// holder is the process that HeldBy was last asked about, with the answer.
type holder struct {
	asked   bool
	process uct.Process
	holds   bool // process holds the other end of the connection
}

// here reports whether the other end is at an address of this machine, in this network
// namespace. A connection through a proxy on this machine counts as one from this machine. If
// the kernel could not list the addresses of this machine, here returns false for now.
func (c *conn) here() bool {
	o := &c.from
	if !o.placed {
		ip := o.addr.Addr()
		o.local = ip == c.iface.addr.addrPort().Addr() || ip.IsLoopback()
		o.placed = true
		if !o.local {
			o.local, o.placed = c.iface.svc.ownAddr(ip)
		}
	}
	return o.local
}

// mayBeHere is here, but returns true while the answer is not known.
func (c *conn) mayBeHere() bool { return c.here() || !c.from.placed }

// errBusy says that the kernel is not queried now, because a recent query failed.
var errBusy = fmt.Errorf("tcp: the kernel was queried too recently: %w", unix.EAGAIN)

// otherEnd returns the socket at the other end of a connection within the machine, as the kernel
// reports it. The answer is cached, unless it is a transient error.
func (c *conn) otherEnd() (sockdiag.Socket, error) {
	o := &c.from
	if o.asked {
		return o.socket, o.err
	}
	s := c.iface.svc
	switch {
	case c.state == stateClosed:
		return sockdiag.Socket{}, sockdiag.ErrNotFound
	case !c.here():
		if o.placed {
			return sockdiag.Socket{}, sockdiag.ErrNotFound
		}
		return sockdiag.Socket{}, errBusy
	case s.asks.early():
		return sockdiag.Socket{}, errBusy
	}
	own, err := c.ownEnd()
	var socket sockdiag.Socket
	if err == nil {
		socket, err = s.diag.Peer(own, o.addr)
	}
	if sockdiag.Transient(err) {
		s.asks.failed()
		return socket, err
	}
	o.asked, o.socket, o.err = true, socket, err
	return socket, err
}

// ownEnd returns the address of this side's end: the listener's for an accepted connection.
func (c *conn) ownEnd() (netip.AddrPort, error) {
	if !c.outgoing {
		return c.iface.addr.addrPort(), nil
	}
	sa, err := syscall.Getsockname(int(c.fd))
	return inet.AddrPort(sa), err
}

// listenerOf is service.listenerAt for a request on the connection. Within one read the kernel
// is queried only once: the listener that a request names is looked up both to validate the
// request and to reply to it.
func (c *conn) listenerOf(at netip.AddrPort) (sockdiag.Socket, error) {
	s := c.iface.svc
	if h := &s.heard; c.reading && h.by == c && h.at == at {
		return h.socket, h.err
	}
	socket, err := s.listenerAt(at)
	if c.reading && !sockdiag.Transient(err) {
		s.heard = heard{by: c, at: at, socket: socket, err: err}
	}
	return socket, err
}

// heard is the kernel's last answer about a listener.
type heard struct {
	by     *conn // the connection whose read the answer is valid for; nil: not valid
	at     netip.AddrPort
	socket sockdiag.Socket
	err    error
}

// listenerAt queries the kernel for the socket that accepts connections to an address of this
// machine.
func (s *service) listenerAt(at netip.AddrPort) (sockdiag.Socket, error) {
	if s.asks.early() {
		return sockdiag.Socket{}, errBusy
	}
	socket, err := s.diag.Listener(at)
	if sockdiag.Transient(err) {
		s.asks.failed()
	}
	return socket, err
}

// localUser returns the user at the other end of a connection within the machine, -1 if the
// other end is elsewhere or the kernel does not tell. sure is false if the kernel could not
// answer just now.
func (c *conn) localUser() (uid int, sure bool) {
	if !c.here() {
		return -1, c.from.placed
	}
	var s sockdiag.Socket
	var err error
	if c.state == stateConnecting { // there is no other end yet, only a listener
		s, err = c.iface.svc.listenerAt(c.from.addr)
	} else {
		s, err = c.otherEnd()
	}
	if err != nil {
		return -1, !sockdiag.Transient(err)
	}
	return s.UID, true
}

// retries delays kernel queries after one that failed for lack of a resource: descriptors,
// memory, room in a queue.
type retries struct {
	w     *uct.Worker
	until time.Duration // end of the delay by the worker's clock; 0: no delay
}

// askAgain is the delay before the kernel is queried again.
const askAgain = 20 * time.Millisecond

func (r *retries) early() bool {
	if r.until != 0 && r.w.Now() >= r.until {
		r.until = 0
	}
	return r.until != 0
}

func (r *retries) failed() { r.until = r.w.Now() + askAgain }

// ownAddrs are the addresses of the devices in this network namespace.
type ownAddrs struct {
	known bool
	until time.Duration         // when the list is read again, by the worker's clock
	ips   map[netip.Addr]uint32 // to the indexes of the devices
	read  func() (map[netip.Addr]uint32, error)
}

// ownAddrsFor is how long a list of addresses is used before it is read again. When many peers
// connect at once, one list serves them all.
const ownAddrsFor = 50 * time.Millisecond

// ownAddr reports whether a device of this network namespace has the address. sure is false if
// the kernel could not tell just now. If the kernel refuses to list addresses, ownAddr finds
// none, so that only loopback addresses, which callers test first, are local.
func (s *service) ownAddr(ip netip.Addr) (own, sure bool) {
	_, own, sure = s.own.find(ip, s.w.Now())
	return own, sure
}

// find is ownAddr, and also returns the index of the device.
func (o *ownAddrs) find(ip netip.Addr, now time.Duration) (device uint32, own, sure bool) {
	if now >= o.until {
		ips, err := o.read()
		switch {
		case err == nil || !sockdiag.Transient(err):
			o.known, o.until, o.ips = true, now+ownAddrsFor, ips
		default:
			o.known, o.until = false, now+askAgain
		}
	}
	device, own = o.ips[ip] // from the last list that was read
	return device, own, own || o.known
}

// readOwnAddrs reads the list from the kernel.
func readOwnAddrs() (map[netip.Addr]uint32, error) {
	dump, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	return parseOwnAddrs(dump)
}

// parseOwnAddrs parses a netlink dump of addresses. It fails with EINTR if addresses changed
// during the dump. A link-local address gets its link as the zone, as addresses from accept do
// (inet.AddrPort), because a host on another link may have the same address.
func parseOwnAddrs(dump []byte) (map[netip.Addr]uint32, error) {
	ips := make(map[netip.Addr]uint32)
	torn := false
	err := netlink.EachMessage(dump, unix.RTM_NEWADDR, unix.SizeofIfAddrmsg, func(m *syscall.NetlinkMessage) {
		torn = torn || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
		device := binary.NativeEndian.Uint32(m.Data[4:]) // ifaddrmsg.ifa_index
		var addr, local netip.Addr
		netlink.EachAttr(m.Data[unix.SizeofIfAddrmsg:], func(typ uint16, v []byte) {
			switch typ {
			case unix.IFA_ADDRESS:
				addr, _ = netip.AddrFromSlice(v)
			case unix.IFA_LOCAL:
				local, _ = netip.AddrFromSlice(v)
			}
		})
		if local.IsValid() {
			addr = local // on a point-to-point link IFA_ADDRESS is the peer's
		}
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			addr = inet.Zoned(addr, device)
		}
		if _, twice := ips[addr]; addr.IsValid() && !twice {
			ips[addr] = device // the first device, if several have the address
		}
	})
	if err == nil && torn {
		err = unix.EINTR
	}
	return ips, err
}
