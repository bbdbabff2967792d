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
// network namespace. What comes through a proxy here seems to be here. If the kernel
// could not say which addresses are ours it is not, for now.
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

// mayBeHere is here, if in doubt.
func (c *conn) mayBeHere() bool { return c.here() || !c.from.placed }

// errBusy says that the kernel could not be asked just now.
var errBusy = fmt.Errorf("tcp: the kernel was queried too recently: %w", unix.EAGAIN)

// otherEnd asks the kernel, once it has answered not again, for the socket at the other
// end of a connection within the machine.
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

// ownEnd is the address of our end: the listener's, if it was accepted.
func (c *conn) ownEnd() (netip.AddrPort, error) {
	if !c.outgoing {
		return c.iface.addr.addrPort(), nil
	}
	sa, err := syscall.Getsockname(int(c.fd))
	return inet.AddrPort(sa), err
}

// listenerOf is service.listenerAt for who is on the connection. What arrives in one
// read has the kernel asked once: a request says where the peer listens, and is doubted
// and answered.
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

// heard is what the kernel has said of a listener.
type heard struct {
	by     *conn // who was asked for, nil for nobody
	at     netip.AddrPort
	socket sockdiag.Socket
	err    error
}

// listenerAt asks the kernel for the socket that takes connections to an address of
// this machine.
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

// localUser is the user at the other end of a connection within the machine, -1 where
// there is none or the kernel does not tell. sure is false if it could not just now.
func (c *conn) localUser() (uid int, sure bool) {
	if !c.here() {
		return -1, c.from.placed
	}
	var s sockdiag.Socket
	var err error
	if c.state == stateConnecting { // there is no other end yet
		s, err = c.iface.svc.listenerAt(c.from.addr)
	} else {
		s, err = c.otherEnd()
	}
	if err != nil {
		return -1, !sockdiag.Transient(err)
	}
	return s.UID, true
}

// retries says when the kernel is asked again after it could not answer for want of
// something: descriptors, memory, room in a queue.
type retries struct {
	w     *uct.Worker
	until time.Duration // by the clock of the worker, 0: nothing is to be waited for
}

// askAgain is how long that takes.
const askAgain = 20 * time.Millisecond

func (r *retries) early() bool {
	if r.until != 0 && r.w.Now() >= r.until {
		r.until = 0
	}
	return r.until != 0
}

func (r *retries) failed() { r.until = r.w.Now() + askAgain }

// ownAddrs are the addresses of this network namespace's devices.
type ownAddrs struct {
	known bool
	until time.Duration         // by the clock of the worker: when the kernel is asked again
	ips   map[netip.Addr]uint32 // with the numbers of the devices
	read  func() (map[netip.Addr]uint32, error)
}

// ownAddrsFor is how long a list of addresses is believed. It saves those a look
// who connect in crowds.
const ownAddrsFor = 50 * time.Millisecond

// ownAddr reports whether a device of this network namespace has the address. sure is
// false if the kernel could not say. Where it does not want to, nobody but loopback is
// local.
func (s *service) ownAddr(ip netip.Addr) (own, sure bool) {
	_, own, sure = s.own.find(ip, s.w.Now())
	return own, sure
}

// find is ownAddr with the number of the device.
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
	device, own = o.ips[ip] // the last that is known
	return device, own, own || o.known
}

// readOwnAddrs asks the kernel.
func readOwnAddrs() (map[netip.Addr]uint32, error) {
	dump, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	return parseOwnAddrs(dump)
}

// parseOwnAddrs reads a dump of addresses. One that was made while they changed is not
// to be relied on. An address that means something on one link only has that as its zone,
// as accept has it (inet.AddrPort): who is on another link may have the same.
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
			addr = local // of a point-to-point link the other is the peer's
		}
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			addr = inet.Zoned(addr, device)
		}
		if _, twice := ips[addr]; addr.IsValid() && !twice {
			ips[addr] = device // of the first, where several have it
		}
	})
	if err == nil && torn {
		err = unix.EINTR
	}
	return ips, err
}
