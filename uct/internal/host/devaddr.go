//go:build linux

package host

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
)

// A device address (uct_iface_local_addr_ns_t in src/uct/base/uct_iface.h) is
// the system id, whose bit 63 says that the number of the IPC namespace follows.
const (
	systemLen    = 8
	hasNamespace = 1 << 63 // UCT_IFACE_LOCAL_ADDR_FLAG_NS
)

// DeviceAddr is the device address of the shared-memory transports.
type DeviceAddr struct {
	System uint64 // bit 63 is always clear
	IPC    Namespace
}

// LocalDeviceAddr describes this process.
func LocalDeviceAddr() DeviceAddr {
	return DeviceAddr{
		System: topo.SystemID() &^ hasNamespace,
		IPC:    OwnNamespace(topo.NamespaceIPC),
	}
}

// Len is the number of bytes Append adds.
func (d DeviceAddr) Len() int {
	if d.IPC.Other {
		return systemLen + NamespaceLen
	}
	return systemLen
}

// Append appends the address in the form both releases read.
func (d DeviceAddr) Append(b []byte) []byte {
	if !d.IPC.Other {
		return binary.LittleEndian.AppendUint64(b, d.System&^hasNamespace)
	}
	b = binary.LittleEndian.AppendUint64(b, d.System|hasNamespace)
	return d.IPC.Append(b)
}

// ParseDeviceAddr reads a peer's address, all of b, in the form of any release.
func ParseDeviceAddr(b []byte) (DeviceAddr, error) {
	var d DeviceAddr
	if len(b) < systemLen {
		return d, fmt.Errorf("device address of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	system := binary.LittleEndian.Uint64(b)
	if system&hasNamespace != 0 {
		ns, err := ParseNamespace(b[systemLen:])
		if err != nil {
			return d, fmt.Errorf("device address of %d bytes: %w", len(b), err)
		}
		d.IPC = ns
	} else if len(b) != systemLen {
		return d, fmt.Errorf("device address of %d bytes without a namespace: %w", len(b), ucs.ErrInvalidAddr)
	}
	d.System = system &^ hasNamespace
	return d, nil
}

// Reach says whether two processes can share memory as far as their device
// addresses tell: nil, or an error that names the obstacle and matches
// ucs.ErrUnreachable.
func (d DeviceAddr) Reach(peer DeviceAddr) error {
	if d.System != peer.System {
		return fmt.Errorf("peer is on another machine, %#x, this is %#x: %w", peer.System, d.System, ucs.ErrUnreachable)
	}
	return d.IPC.reach("IPC", peer.IPC)
}

// ReachAddr is Reach for an untrusted packed address. The error of one that
// cannot be read matches ucs.ErrInvalidAddr as well.
func (d DeviceAddr) ReachAddr(peer []byte) error {
	p, err := ParseDeviceAddr(peer)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
	}
	return d.Reach(p)
}

// ReachPID says whether a process in PID namespace peer can be found by its
// number from PID namespace n: nil, or an error that matches ucs.ErrUnreachable.
func (n Namespace) ReachPID(peer Namespace) error { return n.reach("PID", peer) }

func (n Namespace) reach(kind string, peer Namespace) error {
	if n != peer {
		return fmt.Errorf("peer is in another %s namespace, %v, this is %v: %w", kind, peer, n, ucs.ErrUnreachable)
	}
	return nil
}
