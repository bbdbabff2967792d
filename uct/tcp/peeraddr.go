//go:build linux

package tcp

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var (
	_ uct.AddrLocator     = (*iface)(nil)
	_ uct.ListenerChecker = (*conn)(nil)
)

// PeerAddr implements uct.AddrLocator.
func (i *iface) PeerAddr(p uct.ReachableParams) (addr netip.AddrPort, here bool, err error) {
	_, sa, err := parseListener(p.DeviceAddr, p.IfaceAddr)
	if err != nil {
		return netip.AddrPort{}, false, err
	}
	ip := i.zoned(sa.addrPort().Addr())
	addr = netip.AddrPortFrom(ip, sa.port)
	if ip.IsLoopback() {
		return addr, true, nil
	}
	here, sure := i.svc.ownAddr(ip)
	if !sure {
		return netip.AddrPort{}, false, fmt.Errorf("tcp: cannot tell whether %v is an address of this machine: %w", ip, ucs.ErrNoResource)
	}
	return addr, here, nil
}

// MayListen implements uct.ListenerChecker.
func (c *conn) MayListen(at netip.AddrPort) bool {
	peer, err := c.otherEnd()
	unmapped := errors.Is(err, sockdiag.ErrForeign)
	switch {
	case sockdiag.Transient(err):
		return false
	case err != nil && !unmapped:
		return true
	}
	l, err := c.listenerOf(at)
	switch {
	case err == nil:
		return !unmapped && l.UID == peer.UID
	case errors.Is(err, sockdiag.ErrForeign):
		return unmapped // both users have no number in this user namespace
	}
	return !errors.Is(err, sockdiag.ErrNotFound) && !sockdiag.Transient(err)
}
