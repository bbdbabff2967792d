//go:build linux

package tcp

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
	"github.com/ucx-go/ucx/uct/tcp/internal/sockcm"
)

var (
	_ uct.ConnManagerComponent = component{}
	_ uct.ConnManagerComponent = (*secured)(nil)
)

// OpenConnManager implements uct.ConnManagerComponent.
func (component) OpenConnManager(w *uct.Worker, cfg *config.Set) (uct.ConnManager, error) {
	opts, err := loadOptions(cfg)
	if err != nil {
		return nil, err
	}
	b := limits.fitting()
	p := &localDevices{w: w, own: ownAddrs{read: readOwnAddrs}}
	return sockcm.Open(w, sockcm.Host{
		Component:  componentName,
		Device:     p.device,
		Here:       p.here,
		DeviceAddr: peerDeviceAddr,
		Allows:     opts.allows,
		Ceiling:    fileCeiling,
		Limits: sockcm.Limits{
			Visitors: b.halfOpen,
			Few:      b.few,
			OfSource: b.guestsOfSource,
			All:      b.guests,
			Pause:    b.acceptPause,
		},
	}, cfg)
}

// OpenConnManager implements uct.ConnManagerComponent. The connections of a connection manager
// are neither encrypted nor authenticated, so an application that allows only TLS gets an
// error.
func (*secured) OpenConnManager(*uct.Worker, *config.Set) (uct.ConnManager, error) {
	return nil, fmt.Errorf("tls: connections by socket address do not support TLS, exchange worker addresses instead: %w", ucs.ErrUnsupported)
}

// localDevices finds the devices of this machine by their IP addresses.
type localDevices struct {
	w   *uct.Worker
	own ownAddrs
}

// here reports whether ip is an address of this machine, in this network namespace.
func (p *localDevices) here(ip netip.Addr) bool {
	_, own, _ := p.own.find(ip, p.w.Now())
	return own || ip.IsLoopback()
}

// device returns the name of the device that has ip, the address of a socket
// (ucs_sockaddr_get_ifname). The loopback device has all of 127.0.0.0/8.
func (p *localDevices) device(fd int, ip netip.Addr) (string, error) {
	n, own, sure := p.own.find(ip, p.w.Now())
	if !own && ip.Is4() && ip.IsLoopback() {
		n, own, sure = p.own.find(netip.AddrFrom4([4]byte{127, 0, 0, 1}), p.w.Now())
	}
	if !own && sure {
		p.own.until = 0 // the address may be new: read the addresses again
		n, own, sure = p.own.find(ip, p.w.Now())
	}
	switch {
	case own:
		return inet.DeviceName(fd, n)
	case !sure:
		return "", fmt.Errorf("tcp: cannot query which device has the address %v: %w", ip, ucs.ErrIO)
	}
	return "", fmt.Errorf("tcp: no device has the address %v: %w", ip, ucs.ErrNoDevice)
}

// peerDeviceAddr returns the device address of the peer that a connection comes from, in the
// form with the IP address, for loopback as well (uct_tcp_sockcm_ep_get_remote_device_addr). A
// client or server at any address of 127.0.0.0/8 has its endpoints at 127.0.0.1, because the
// loopback form in worker addresses contains no IP address.
func peerDeviceAddr(ip netip.Addr) []byte {
	if ip = ip.Unmap(); ip.Is4() && ip.IsLoopback() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	d := deviceAddr{v6: ip.Is6(), ip: ip.WithZone("")}
	return d.pack()
}

// Connection management (src/uct/tcp/tcp_cm.c).
//
// For its n-th endpoint toward B, side A connects and sends the request REQ(n). B answers ACK and
// receives on that connection. When B makes its n-th endpoint toward A, that endpoint takes the
// connection over, sends REQ and gets ACK: both sides now send on one socket.
//
// When both sides connect at once, each side receives the other's REQ(n) on an accepted socket
// while its own endpoint n is not connected yet. The socket that was opened by the side with
// the smaller listener address survives. The larger side closes its own socket, adopts the
// accepted socket and answers ACK+REQ. The smaller side answers nothing and keeps its accepted
// socket open, unread, until its own connection is established, because the larger side would
// otherwise see the accepted socket break and connect again.
//
// The rules that depend on listener addresses apply only to connections whose claimed listener is
// verified (origin.go).

// handleCM handles the payload b of a connection manager packet.
func (c *conn) handleCM(b []byte) {
	if len(b) < eventLen {
		c.refuse(fmt.Errorf("connection packet of %d bytes: %w", len(b), errProtocol))
		return
	}
	ev := cmEvent(le.Uint32(b))
	if ev == eventReq {
		r, err := parseRequest(b)
		if err == nil && r.from.v6 != c.iface.addr.v6 {
			err = fmt.Errorf("request of another address family: %w", errProtocol)
		}
		if err != nil {
			c.refuse(err)
			return
		}
		c.handleRequest(r)
		return
	}
	if len(b) != eventLen || c.state == stateAccepting || c.toEP {
		c.refuse(fmt.Errorf("connection event %d of %d bytes: %w", ev, len(b), errProtocol))
		return
	}
	switch ev {
	case eventAckReq:
		c.rx, c.finished = true, false
		fallthrough
	case eventAck:
		if c.state == stateWaitingAck {
			c.ep.connected()
		}
	case eventFin:
		if c.ep == nil {
			c.close()
			return
		}
		c.rx, c.finished = false, true
	default:
		c.refuse(fmt.Errorf("connection event %d: %w", ev, errProtocol))
	}
}

// handleRequest handles a connection request (REQ).
func (c *conn) handleRequest(r request) {
	if c.state != stateAccepting {
		// The peer begins to send on an established connection.
		if r.from != c.peer || r.id != c.sn || r.flags&reqToEP != 0 || c.toEP {
			c.refuse(fmt.Errorf("second request, from %v with id %d: %w", r.from, r.id, errProtocol))
			return
		}
		c.rx, c.finished = true, false
		c.owe(owedAck)
		return
	}
	i := c.iface
	i.svc.endHalfOpen(c)
	c.peer, c.sn = r.from, r.id
	if r.flags&reqToEP != 0 {
		c.acceptKey()
		return
	}
	m := i.match.entries[matchKey{c.peer, c.sn}]
	aside := m != match{} && !c.claimVerified()
	switch {
	case aside && c.dead():
		c.close() // the own connection is used; the owner of c cannot be determined
		return
	case aside:
	case m.ep != nil:
		c.simultaneous(m.ep)
		return
	case m.conn != nil && !m.conn.claimVerified():
		i.checkOwner(m.conn)
	case m.conn != nil && m.conn.dead():
		// The peer lost that connection and learned so before this side.
		m.conn.close()
	case m.conn != nil:
		c.close()
		return
	}
	if c.sn == ^uint64(0) {
		c.close()
		return
	}
	i.matchConn(c, aside)
	c.state = stateConnected
	c.rx = true
	c.owe(owedAck)
}

// simultaneous handles a simultaneous connect of both sides: it chooses between the accepted
// connection c and the own connection of ep, the endpoint with the number in c's request.
func (c *conn) simultaneous(ep *endpoint) {
	own := ep.conn
	if own != nil && own.state == stateConnected {
		own.rx = true
		c.close()
		return
	}
	if c.peer.compare(&c.iface.addr) < 0 {
		if own != nil {
			own.ep = nil
			own.close()
		}
		ep.conn, c.ep = c, ep
		c.taken(ep)
		c.rx = true
		c.owe(owedAckReq)
		ep.connected()
		return
	}
	if own != nil && own.state == stateWaitingAck {
		own.rx = true
	}
	if ep.stale != nil {
		ep.stale.close()
	}
	ep.stale = c
	c.state = stateStale
	c.watch(0)
}
