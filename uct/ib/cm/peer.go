//go:build linux

package cm

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// peer returns the packed device address of the peer, from the attributes that a queue pair of the
// connection would need to reach it (uct_rdmacm_cm_id_to_dev_addr). With RoCE it also returns the
// IP address of the peer.
func (dev *device) peer(id *rdmacm.ID, port int) ([]byte, netip.Addr, error) {
	attr, _, err := id.InitQPAttr(verbs.QPRTR)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	p, err := dev.ctx.QueryPort(port)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	var own verbs.GIDEntry
	if !attr.AH.Global {
		// The peer is in this port's subnet, whose prefix is that of the first GID.
		if own, err = dev.ctx.QueryGID(port, 0); err != nil {
			return nil, netip.Addr{}, err
		}
	}
	a, err := peerAddress(&attr, p.LinkLayer == verbs.LinkEthernet, own.GID)
	if err != nil {
		return nil, netip.Addr{}, fmt.Errorf("rdmacm: %s: %w", dev.portName(port), err)
	}
	var at netip.Addr
	if a.Ethernet {
		at = a.GID.Addr()
	}
	return a.Append(nil), at, nil
}

// peerAddress returns the device address of the peer from the attributes of a queue pair. own is
// the first GID of this side, for a peer in the same subnet that is not reached by a GID.
func peerAddress(attr *verbs.QPAttr, ethernet bool, own verbs.GID) (ib.Address, error) {
	a := ib.Address{Ethernet: ethernet, HasIndex: true}
	if attr.PathMTU.Bytes() > 0 {
		a.MTU = attr.PathMTU
	}
	switch {
	case attr.AH.Global:
		a.GID, a.GIDIndex = attr.AH.DGID, attr.AH.SGIDIndex
	case ethernet:
		return a, fmt.Errorf("a route without a GID: %w", ucs.ErrUnreachable)
	default:
		copy(a.GID[:8], own[:8])
	}
	if ethernet {
		a.Version = ib.RoCEAny
		return a, nil
	}
	a.LID, a.Global = attr.AH.DLID, attr.AH.Global
	return a, nil
}
