//go:build linux

package tcp

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	machine "github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

var _ interface {
	uct.SourceOwner
	uct.Connection
} = (*conn)(nil)

// SourceInfo implements uct.Connection.
func (c *conn) SourceInfo() uct.SourceInfo {
	info := uct.SourceInfo{Addr: c.from.addr, Local: c.here(), User: uct.PeerUser{UID: -1, GID: -1, PID: -1}}
	info.TLS = c.SourceTLS()
	if s, err := c.peerSocket(); err == nil {
		info.User.Known, info.User.UID = true, s.UID
	}
	return info
}

// SourceTLS implements uct.Connection.
func (c *conn) SourceTLS() *tls.ConnectionState {
	if c.tls == nil {
		return nil
	}
	return c.tls.state()
}

// HeldBy implements uct.Connection: it reports whether process p has the peer's socket open. Only a
// process of the socket's user is searched, and the answer is cached, because the search takes time
// in proportion to the number of p's descriptors.
func (c *conn) HeldBy(p uct.Process) bool {
	s, err := c.peerSocket()
	if err != nil {
		return false
	}
	h := &c.from.holder
	if !h.asked || h.process != p {
		proc := machine.OfID(p)
		user, known := machine.FileUser(proc.PID)
		// If p is alive after the search, its PID was not reused before.
		*h = holder{asked: true, process: p, holds: known && user == s.UID && sockdiag.HeldBy(proc.PID, s.Inode) && proc.Alive()}
	}
	return h.holds
}

// PauseSource implements uct.Connection. The event set still reports that the connection breaks.
func (c *conn) PauseSource() {
	if c.paused || c.state == stateClosed {
		return
	}
	c.paused = true
	c.iface.svc.slow.remove(c)
	if c.readable() {
		if err := c.watch(c.watched&^event.Read | event.Hup); err != nil {
			c.lost("read", err)
		}
	}
}

// ResumeSource implements uct.Connection.
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

// catchUp handles the input that arrived before the end of a pause, and returns the number of
// things done.
func (c *conn) catchUp() int {
	c.resumed = false
	if c.paused || c.state >= stateStale {
		return 0
	}
	n := 0
	if c.in != nil {
		n = c.parse()
	}
	if c.tls != nil {
		n += c.tls.drain()
		if c.paused || c.state >= stateStale {
			return n
		}
	}
	return n + c.read()
}

// origin is the verified knowledge about the peer of a connection: what the kernel reports, not
// what the peer claims.
type origin struct {
	addr   netip.AddrPort // the address that accept returned or connect was given
	placed bool           // local is valid
	local  bool           // addr is an address of this machine, in this network namespace
	asked  bool           // the kernel was queried for the peer's socket: socket or err is valid
	socket sockdiag.Socket
	err    error // why the peer's socket is not known
	holder holder
}

// holder caches the last result of HeldBy.
type holder struct {
	asked   bool
	process uct.Process
	holds   bool // process has the peer's socket open
}

// here reports whether the peer's address is one of this machine, in this network namespace. A
// connection through a proxy on this machine counts as one from this machine. If the kernel could
// not list the addresses of this machine, here returns false for now.
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

// mayBeHere is like the method here, but returns true while the answer is not known.
func (c *conn) mayBeHere() bool { return c.here() || !c.from.placed }

// errBusy says that the kernel is not queried now, because a recent query failed.
var errBusy = fmt.Errorf("tcp: the kernel is not queried again so soon after a failed query: %w", unix.EAGAIN)

// peerSocket returns the peer's socket of a connection within the machine, as the kernel reports it.
// The answer is cached, unless it is a transient error.
func (c *conn) peerSocket() (sockdiag.Socket, error) {
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
	own, err := c.localAddr()
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

// localAddr returns the local address of the connection, which is the listener's for an accepted
// connection.
func (c *conn) localAddr() (netip.AddrPort, error) {
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
	if h := &s.listenerAnswer; c.reading && h.by == c && h.at == at {
		return h.socket, h.err
	}
	socket, err := s.listenerAt(at)
	if c.reading && !sockdiag.Transient(err) {
		s.listenerAnswer = listenerAnswer{by: c, at: at, socket: socket, err: err}
	}
	return socket, err
}

// listenerAnswer caches the kernel's last answer about a listener.
type listenerAnswer struct {
	by     *conn // the connection during whose read the answer is valid; nil: not valid
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

// localUser returns the user who owns the peer's socket of a connection within the machine, or -1
// if the peer is not on this machine or the kernel does not report the user. sure is false if the
// kernel could not answer just now.
func (c *conn) localUser() (uid int, sure bool) {
	if !c.here() {
		return -1, c.from.placed
	}
	var s sockdiag.Socket
	var err error
	if c.state == stateConnecting { // the peer has only a listener yet
		s, err = c.iface.svc.listenerAt(c.from.addr)
	} else {
		s, err = c.peerSocket()
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
	ips   map[netip.Addr]uint32 // addresses, with the indexes of their devices
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

// find does what ownAddr does, and also returns the index of the device.
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

// Validation of claimed listeners. A connection request names the listener of the peer that sends
// it. The name is only a claim: any peer can claim any listener. A claim is verified if the
// connection comes from the listener's address and, within the machine, from a process of the user
// that listens there. A claim that is not verified may still be true: a peer with several addresses
// need not connect from the one that it listens at. A connection with an unverified claim is served
// in one direction and kept aside: it has no entry in the match table, closes no other connection,
// and gets no endpoint.
//
// An endpoint of this process then makes a connection of its own to the listener, and the process
// that really listens there decides. C UCX, and this library, close that connection without an
// answer if they already have a connected endpoint with the same number. That endpoint is then
// connected over a connection that is kept aside here. Within the machine, the connection kept
// aside is taken over if the kernel says which one it is. Otherwise the endpoint connects with
// another number. When this library refuses a peer before it has read the peer's request, the peer
// gets a reset. A reset does not mean that this side has an endpoint with the same number.

// claimVerified reports whether the connection's claim is verified: the connection comes from the address of
// the listener that it claims and, within the machine, from a process of the listener's user. Each
// call queries the kernel again, except within one read, because listeners come and go; so fits is
// called only when its result is needed.
func (c *conn) claimVerified() bool {
	if c.outgoing {
		return true
	}
	return c.peer.addrPort().Addr() == c.from.addr.Addr() && (!c.mayBeHere() || c.queryOwner() == ownerSame)
}

// owner tells whether the user who owns the peer's socket also owns the listener that the
// connection claims.
type owner uint8

const (
	ownerUndetermined owner = iota // not determined yet
	ownerSame                      // one user owns both
	ownerOther                     // another user owns the listener, or there is no such listener
	ownerUnknown                   // the kernel does not report the owners of sockets
	ownerUnsure                    // the kernel could not answer just now
)

// ownerFor is the time for which the method claimOwner reuses an answer of the kernel.
const ownerFor = time.Second

// claimOwner returns, for a connection within the machine, whether the peer's user owns the listener
// that the connection claims. The answer may be up to ownerFor old.
func (c *conn) claimOwner() owner {
	if c.owner == ownerUndetermined || c.owner == ownerUnsure || c.iface.svc.w.Now()-c.ownerAt > ownerFor {
		c.queryOwner()
	}
	return c.owner
}

// queryOwner queries the kernel for the result of the method claimOwner, and stores it. The result
// ownerUnsure does not replace an earlier one.
func (c *conn) queryOwner() owner {
	o := c.findOwner()
	if o != ownerUnsure || c.owner == ownerUndetermined {
		c.owner, c.ownerAt = o, c.iface.svc.w.Now()
	}
	return o
}

func (c *conn) findOwner() owner {
	end, err := c.peerSocket()
	if err == nil {
		var l sockdiag.Socket
		if l, err = c.listenerOf(c.peer.addrPort()); err == nil && l.UID == end.UID {
			return ownerSame
		}
	}
	switch {
	case err == nil || errors.Is(err, sockdiag.ErrNotFound) || errors.Is(err, sockdiag.ErrForeign):
		return ownerOther
	case sockdiag.Transient(err):
		return ownerUnsure
	}
	return ownerUnknown
}

// confirmed looks for the connection because of which the peer closed this endpoint's connection
// unanswered, among the connections with an unverified claim (those kept aside). c is not nil if,
// according to the kernel, exactly one of them belongs to the user who owns the listener. For peers
// on other machines the kernel cannot tell: any of the connections kept aside may be spoofed. maybe
// reports whether one of them can be that connection.
func (ep *endpoint) confirmed() (c *conn, maybe bool) {
	var of *conn
	for c := ep.iface.match.aside[matchKey{ep.peer, ep.sn}]; c != nil; c = c.nextAside {
		who := ownerUnknown
		if c.here() {
			who = c.claimOwner()
		}
		if who == ownerOther || c.dead() {
			continue
		}
		maybe = true
		if who == ownerSame {
			if of != nil {
				return nil, true // ambiguous
			}
			of = c
		}
	}
	return of, maybe
}

// closedUnanswered reports whether the process at the listener has read the request that was sent
// on this connection, and has closed the connection instead of answering. operation and cause
// describe the failure, as in lost. A reset does not count, because only an orderly close shows
// that the request was read.
func (c *conn) closedUnanswered(operation string, cause error) bool {
	return c.outgoing && c.state == stateWaitingAck && operation == "read" && cause == nil
}
