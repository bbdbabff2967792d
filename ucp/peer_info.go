package ucp

import (
	"crypto/tls"
	"net/netip"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// PeerInfo identifies a peer by what the kernel or TLS knows, whatever the peer claims.
type PeerInfo struct {
	// Addr is the address that the peer's connection comes from. If the peer has not
	// connected, it is the address that the endpoint connects to. It is not valid without
	// addresses, as in shared memory.
	Addr netip.AddrPort

	// Local reports whether the peer is on this machine and in this network namespace.
	Local bool

	// User is the user that runs a peer on this machine, as far as the kernel knows it.
	User PeerUser

	// TLS describes the peer's TLS connection, nil without TLS.
	TLS *tls.ConnectionState
}

// PeerUser is a user of this machine.
type PeerUser struct {
	Known         bool // if false the other fields mean nothing
	UID, GID, PID int  // GID and PID are -1 where not known
}

// peerInfo is what a transport says, in the terms of users.
func peerInfo(i uct.SourceInfo) PeerInfo {
	return PeerInfo{Addr: i.Addr, Local: i.Local, User: PeerUser(i.User), TLS: i.TLS}
}

// peerInfo says who the peer of an endpoint is: by the connection that it spoke over
// last, or else by the address that the endpoint leads to.
func (ep *Endpoint) peerInfo() PeerInfo {
	nobody := PeerInfo{User: PeerUser{UID: -1, GID: -1, PID: -1}}
	if p := ep.peer.now(); p != nil && p.heard != nil {
		if l := p.heard.locator(); l != nil {
			return peerInfo(l.SourceInfo())
		}
	}
	nobody.Local = ep.process != 0
	if ep.where == nil {
		return nobody
	}
	for k := range ep.lanes {
		a, ok := ep.lanes[k].iface.uct.(uct.AddrLocator)
		if !ok {
			continue
		}
		ep.where.address.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
			if idOf(f.Transport, d.Addr, f.Addr) != ep.where.lanes[k] {
				return true
			}
			if addr, here, err := a.PeerAddr(uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr}); err == nil {
				nobody.Addr, nobody.Local = addr, here
			}
			return false
		})
		return nobody
	}
	return nobody
}

// accept asks the application about a connection that a peer makes, nil if it takes
// all.
func (w *Worker) accept() func(uct.SourceInfo) bool {
	fn := w.params.Accept
	if fn == nil {
		return nil
	}
	return func(i uct.SourceInfo) (welcome bool) {
		w.run(func() { welcome = fn(peerInfo(i)) })
		return welcome
	}
}
