//go:build linux

package host

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
)

// A device address (uct_iface_local_addr_ns_t in src/uct/base/uct_iface.h) is the system id. If
// bit 63 of the id is set, the number of the IPC namespace follows.
const (
	systemLen    = 8
	hasNamespace = 1 << 63 // UCT_IFACE_LOCAL_ADDR_FLAG_NS
)

// DeviceAddr is the device address of the shared-memory transports.
type DeviceAddr struct {
	System uint64 // bit 63 is always clear
	IPC    Namespace
}

// LocalDeviceAddr returns the device address of this process.
func LocalDeviceAddr() DeviceAddr {
	return DeviceAddr{
		System: topo.SystemID() &^ hasNamespace,
		IPC:    OwnNamespace(topo.NamespaceIPC),
	}
}

// Len returns the number of bytes that Append adds.
func (d DeviceAddr) Len() int {
	if d.IPC.Other {
		return systemLen + NamespaceLen
	}
	return systemLen
}

// Append appends the packed address in a form that C UCX 1.13 and 1.22 both read.
func (d DeviceAddr) Append(b []byte) []byte {
	if !d.IPC.Other {
		return binary.LittleEndian.AppendUint64(b, d.System&^hasNamespace)
	}
	b = binary.LittleEndian.AppendUint64(b, d.System|hasNamespace)
	return d.IPC.Append(b)
}

// ParseDeviceAddr parses a peer's address in the form of any release. The address must fill b.
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

// Reach returns nil if, according to their device addresses, two processes can share memory.
// Otherwise it returns an error that names the obstacle and matches ucs.ErrUnreachable.
func (d DeviceAddr) Reach(peer DeviceAddr) error {
	if d.System != peer.System {
		return fmt.Errorf("peer is on another machine, %#x, this machine is %#x: %w", peer.System, d.System, ucs.ErrUnreachable)
	}
	return d.IPC.reach("IPC", peer.IPC)
}

// ReachAddr is like Reach, for an untrusted packed address. The error for a malformed address
// also matches ucs.ErrInvalidAddr.
func (d DeviceAddr) ReachAddr(peer []byte) error {
	p, err := ParseDeviceAddr(peer)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
	}
	return d.Reach(p)
}

// ReachPID returns nil if a process in PID namespace n can find a process in PID namespace peer
// by its process id. Otherwise it returns an error that matches ucs.ErrUnreachable.
func (n Namespace) ReachPID(peer Namespace) error { return n.reach("PID", peer) }

func (n Namespace) reach(kind string, peer Namespace) error {
	if n != peer {
		return fmt.Errorf("peer is in another %s namespace, %v, this process is in %v: %w", kind, peer, n, ucs.ErrUnreachable)
	}
	return nil
}
