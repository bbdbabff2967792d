package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Lengths of addresses: the number of the network; that of the iface; those of
// the iface and of the endpoint. All numbers are 64 bits, little-endian.
const (
	deviceAddrLen = 8
	ifaceAddrLen  = 8
	epAddrLen     = 16
)

// DeviceAddress implements uct.Iface.
func (i *iface) DeviceAddress() []byte { return i.dev }

// Address implements uct.Iface.
func (i *iface) Address() []byte { return i.addr }

// Reachable implements uct.Iface.
func (i *iface) Reachable(p uct.ReachableParams) error {
	if len(p.DeviceAddr) != deviceAddrLen || len(p.IfaceAddr) != ifaceAddrLen {
		return fmt.Errorf("sim: addresses of %d and %d bytes, not %d and %d: %w",
			len(p.DeviceAddr), len(p.IfaceAddr), deviceAddrLen, ifaceAddrLen, ucs.ErrUnreachable)
	}
	if !bytes.Equal(p.DeviceAddr, i.dev) {
		return fmt.Errorf("sim: address of another network: %w", ucs.ErrUnreachable)
	}
	return nil
}

// Address implements uct.Endpoint.
func (e *endpoint) Address() ([]byte, error) {
	if !e.home.attr.Flags.Has(uct.IfaceConnectToEP) {
		return nil, ucs.ErrUnsupported
	}
	return binary.LittleEndian.AppendUint64(bytes.Clone(e.home.addr), e.id), nil
}

// ConnectToEP implements uct.Endpoint.
func (e *endpoint) ConnectToEP(dev, iface, ep []byte) error {
	if !e.home.attr.Flags.Has(uct.IfaceConnectToEP) {
		return ucs.ErrUnsupported
	}
	if e.peer != nil {
		return fmt.Errorf("sim: endpoint is connected already: %w", ucs.ErrInvalidParam)
	}
	if len(ep) != epAddrLen {
		return fmt.Errorf("sim: endpoint address of %d bytes, not %d: %w", len(ep), epAddrLen, ucs.ErrUnreachable)
	}
	if len(iface) > 0 && !bytes.Equal(ep[:ifaceAddrLen], iface) {
		return fmt.Errorf("sim: an endpoint of another interface than its address says: %w", ucs.ErrInvalidAddr)
	}
	if err := e.home.Reachable(uct.ReachableParams{DeviceAddr: dev, IfaceAddr: ep[:ifaceAddrLen]}); err != nil {
		return err
	}
	e.other = binary.LittleEndian.Uint64(ep[ifaceAddrLen:])
	e.connect(ep[:ifaceAddrLen])
	return nil
}

// LeadsTo implements uct.Located.
func (e *endpoint) LeadsTo(dev, addr, ep []byte) bool {
	if e.peer == nil || !bytes.Equal(dev, e.home.dev) || !bytes.Equal(addr, e.peer.addr) {
		return false
	}
	return ep == nil || len(ep) == epAddrLen && binary.LittleEndian.Uint64(ep[ifaceAddrLen:]) == e.other
}

// connect makes e lead to the iface of an address. One that does not exist
// makes e fail at the next progress.
func (e *endpoint) connect(addr []byte) {
	n := e.home.net
	n.mu.Lock()
	defer n.mu.Unlock()
	e.readyAt = e.home.round + uint64(e.home.o.ConnectDelay)
	peer := n.ifaces[binary.LittleEndian.Uint64(addr)]
	if peer == nil {
		e.lose(fmt.Errorf("sim: nobody has address %x: %w", addr, ucs.ErrUnreachable))
		return
	}
	e.peer = peer
	peer.incoming[e] = struct{}{}
}

var _ uct.KinFinder = (*iface)(nil)

// Kin implements uct.KinFinder: nobody else is here, unless the peers are to be as if
// they were of 1.13.
func (i *iface) Kin(uct.ReachableParams) bool { return i.as != uct.PeerRelease113 }
