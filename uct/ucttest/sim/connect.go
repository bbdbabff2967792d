package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Lengths of addresses. A device address is the number of the network, an iface address the
// number of the iface, and an endpoint address the numbers of the iface and of the endpoint.
// All numbers have 64 bits, little-endian.
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

// Address implements uct.Paired.
func (e *endpoint) Address() ([]byte, error) {
	if !e.home.attr.Flags.Has(uct.IfaceConnectToEP) {
		return nil, ucs.ErrUnsupported
	}
	return binary.LittleEndian.AppendUint64(bytes.Clone(e.home.addr), e.id), nil
}

// ConnectToEP implements uct.Paired.
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
		return fmt.Errorf("sim: the endpoint address does not match the iface address: %w", ucs.ErrInvalidAddr)
	}
	if err := e.home.Reachable(uct.ReachableParams{DeviceAddr: dev, IfaceAddr: ep[:ifaceAddrLen]}); err != nil {
		return err
	}
	e.other = binary.LittleEndian.Uint64(ep[ifaceAddrLen:])
	e.connect(ep[:ifaceAddrLen])
	return nil
}

// IsConnectedTo implements uct.Paired.
func (e *endpoint) IsConnectedTo(dev, addr, ep []byte) bool {
	if e.peer == nil || !bytes.Equal(dev, e.home.dev) || !bytes.Equal(addr, e.peer.addr) {
		return false
	}
	return ep == nil || len(ep) == epAddrLen && binary.LittleEndian.Uint64(ep[ifaceAddrLen:]) == e.other
}

// connect connects e to the iface with the address addr. If there is no such iface, e fails in the
// next progress.
func (e *endpoint) connect(addr []byte) {
	n := e.home.net
	n.mu.Lock()
	defer n.mu.Unlock()
	e.readyAt = e.home.now() + uint64(e.home.o.ConnectDelay)
	id := binary.LittleEndian.Uint64(addr)
	peer := n.ifaces[id]
	if peer == nil {
		e.refused(n.graves[id], fmt.Errorf("sim: no iface has address %x: %w", addr, ucs.ErrUnreachable))
		return
	}
	e.peer = peer
	peer.incoming[e] = struct{}{}
	if e.home.o.Medium != nil {
		e.handshake(e.home.now())
		e.starts()
	}
}

// refused breaks a connection to an iface that does not exist, or does not exist any more at a place.
func (e *endpoint) refused(at *Place, err error) {
	o := e.home.o
	switch {
	case o.Medium == nil || at == nil || o.Death == DeathSilent:
		e.breakConnection(err)
	case o.Death == DeathTimeout:
		e.breakAt(errSilence, o.Medium.Now()+o.Timeout)
	default:
		due := o.Medium.Carry(o.Place, at, o.Medium.Now(), 0)
		if due != Never {
			due = o.Medium.Carry(at, o.Place, due, 0)
		}
		if due == Never && o.Timeout > 0 {
			due, err = o.Medium.Now()+o.Timeout, errSilence
		}
		e.breakAt(err, due)
	}
}

// FindProcess implements uct.ProcessIface. Without a Place the processes of peers are unknown.
func (i *iface) FindProcess(p uct.ReachableParams, _ func(uct.Process) bool) (uct.Process, error) {
	return 0, i.Reachable(p)
}

// SameLibrary implements uct.ProcessIface. All peers use this library, but with uct.PeerRelease113
// they are treated as C UCX 1.13.
func (i *iface) SameLibrary(uct.ReachableParams) bool { return i.peerRelease != uct.PeerRelease113 }
