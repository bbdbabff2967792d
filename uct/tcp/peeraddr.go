package tcp

import (
	"errors"
	"net/netip"

	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/uct"
)

var (
	_ uct.AddrLocator     = (*iface)(nil)
	_ uct.ListenerChecker = (*conn)(nil)
)

// PeerAddr implements uct.AddrLocator.
func (i *iface) PeerAddr(p uct.ReachableParams) (addr netip.AddrPort, here bool, err error) {
	_, sa, err := parsePeer(p.DeviceAddr, p.IfaceAddr)
	if err != nil {
		return netip.AddrPort{}, false, err
	}
	addr = sa.addrPort()
	ip := addr.Addr()
	return addr, ip.IsLoopback() || i.svc.ownAddr(ip), nil
}

// MayListen implements uct.ListenerChecker.
func (c *conn) MayListen(at netip.AddrPort) bool {
	peer, err := c.otherEnd()
	unmapped := errors.Is(err, sockdiag.ErrForeign)
	if err != nil && !unmapped {
		return true
	}
	l, err := c.iface.svc.diag.Listener(at)
	switch {
	case err == nil:
		return !unmapped && l.UID == peer.UID
	case errors.Is(err, sockdiag.ErrForeign):
		return unmapped // both are of users without a number here
	}
	return !errors.Is(err, sockdiag.ErrNotFound)
}
