package ucp

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// LocalAddr returns the local socket address of an endpoint that was made by socket
// address: that of the connection manager's connection. For other endpoints, and while the
// address is not known, the error is ucs.ErrNotConnected.
func (ep *Endpoint) LocalAddr() (netip.AddrPort, error) {
	if ep.missing() {
		return netip.AddrPort{}, errMissing("Endpoint.LocalAddr", ep == nil)
	}
	return ep.socketAddr(uct.ConnEndpoint.LocalAddr, func(c *connection) netip.AddrPort { return c.local })
}

// RemoteAddr returns the peer's socket address, under the conditions of LocalAddr.
func (ep *Endpoint) RemoteAddr() (netip.AddrPort, error) {
	if ep.missing() {
		return netip.AddrPort{}, errMissing("Endpoint.RemoteAddr", ep == nil)
	}
	return ep.socketAddr(uct.ConnEndpoint.RemoteAddr, func(c *connection) netip.AddrPort { return c.remote })
}

// ServerID returns the EndpointParams.ClientID that the server of an endpoint made with
// RemoteAddr has sent. It is 0 if the server has sent none, or before the connection is
// established; operations wait until then.
func (ep *Endpoint) ServerID() (id uint64) {
	ep.w.look()
	if c := ep.conn(); c != nil {
		id = c.serverID
	}
	ep.w.unlook()
	return id
}

func (ep *Endpoint) socketAddr(of func(uct.ConnEndpoint) netip.AddrPort, said func(*connection) netip.AddrPort) (netip.AddrPort, error) {
	ep.w.look()
	defer ep.w.unlook()
	if c := ep.conn(); c != nil {
		if c.uct != nil {
			if a := of(c.uct); a.IsValid() {
				return a, nil
			}
		}
		if a := said(c); a.IsValid() {
			return a, nil
		}
	}
	return netip.AddrPort{}, ep.nameIn(fmt.Errorf("it has no socket address: %w", ucs.ErrNotConnected))
}
