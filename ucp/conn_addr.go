package ucp

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// LocalAddr and RemoteAddr are the socket addresses of an endpoint that was made by one:
// those of the connection manager's connection. For other endpoints, and as long as they
// are not known, the error is ucs.ErrNotConnected.
func (ep *Endpoint) LocalAddr() (netip.AddrPort, error) {
	if ep.missing() {
		return netip.AddrPort{}, errMissing("Endpoint.LocalAddr", ep == nil)
	}
	return ep.socketAddr(uct.ConnEndpoint.LocalAddr, func(c *connection) netip.AddrPort { return c.local })
}

// RemoteAddr is the peer's; see LocalAddr.
func (ep *Endpoint) RemoteAddr() (netip.AddrPort, error) {
	if ep.missing() {
		return netip.AddrPort{}, errMissing("Endpoint.RemoteAddr", ep == nil)
	}
	return ep.socketAddr(uct.ConnEndpoint.RemoteAddr, func(c *connection) netip.AddrPort { return c.remote })
}

// ServerID is what the server of an endpoint made with RemoteAddr has told as
// EndpointParams.ClientID, 0 if nothing, or not yet: operations wait until it is known.
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
	return netip.AddrPort{}, ep.nameIn(fmt.Errorf("it has no such socket address: %w", ucs.ErrNotConnected))
}
