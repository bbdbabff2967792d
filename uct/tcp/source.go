package tcp

import (
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	machine "github.com/ucx-go/ucx/uct/internal/host"
)

var (
	_ uct.SourceLocator = (*conn)(nil)
	_ uct.SourcePauser  = (*conn)(nil)
)

// origin is what is known of a connection's other end without believing it.
type origin struct {
	addr   netip.AddrPort // as accept or connect had it
	placed bool           // local is known
	local  bool
	asked  bool // the kernel has been asked for the socket
	socket sockdiag.Socket
	err    error // why it is not known
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
			o.socket, o.err = sockdiag.Peer(addrPortOf(own), o.addr)
		}
	}
	return o.socket, o.err
}

// SourceInfo implements uct.SourceLocator.
func (c *conn) SourceInfo() uct.SourceInfo {
	info := uct.SourceInfo{Addr: c.from.addr, Local: c.here(), User: uct.PeerUser{UID: -1, GID: -1, PID: -1}}
	if s, err := c.otherEnd(); err == nil {
		info.User.Known, info.User.UID = true, s.UID
	}
	return info
}

// HeldBy implements uct.SourceLocator: one of the process's descriptors is the
// socket at the other end.
func (c *conn) HeldBy(p uct.Process) bool {
	s, err := c.otherEnd()
	if err != nil {
		return false
	}
	proc := machine.OfID(p)
	// Who has the number afterwards had it while we looked.
	return sockdiag.HeldBy(proc.PID, s.Inode) && proc.Alive()
}

// PauseSource implements uct.SourcePauser. The event set still tells of a connection
// that breaks.
func (c *conn) PauseSource() {
	if c.paused || c.state == stateClosed {
		return
	}
	c.paused = true
	if c.readable() {
		if err := c.watch(c.watched&^event.Read | event.Hup); err != nil {
			c.lost("read", err)
		}
	}
}

// ResumeSource implements uct.SourcePauser.
func (c *conn) ResumeSource() {
	if !c.paused {
		return
	}
	c.paused = false
	if c.state >= stateStale || c.ended {
		return
	}
	if err := c.watch(c.watched&^event.Hup | event.Read); err != nil {
		c.lost("read", err)
		return
	}
	c.resumed = true
	c.iface.svc.markDirty(c)
}

// catchUp handles what arrived before a pause was over.
func (c *conn) catchUp() int {
	c.resumed = false
	if c.paused || c.state >= stateStale {
		return 0
	}
	n := 0
	if c.in != nil {
		n = c.parse()
	}
	return n + c.read()
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
