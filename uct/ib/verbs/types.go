//go:build linux

package verbs

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Distinct types for numbers of different kinds.
type (
	QPN  = provider.QPN  // of a queue pair, 24 bits
	PSN  uint32          // of a packet, 24 bits
	LKey = provider.LKey // of memory, for local use
	RKey = provider.RKey // of memory, for peers
	QKey = provider.QKey // of datagrams
	PKey uint16          // of a partition
	LID  = provider.LID  // of a port in an InfiniBand subnet
	GUID uint64          // of a node or port
)

// String returns the GUID in the format of sysfs: 0000:0000:0000:0000.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}

// GID is the address of a port, an IPv6 address with RoCE.
type GID [16]byte

// GIDFromAddr returns the GID of an IP address, IPv4 mapped into IPv6.
func GIDFromAddr(a netip.Addr) GID { return GID(a.As16()) }

// Addr returns the GID as an IP address, IPv4 if it is a mapped one.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether g is zero: an empty entry of the table.
func (g GID) IsZero() bool { return g == GID{} }

// String returns the GID in 8 groups, as sysfs and the C tools print it.
func (g GID) String() string {
	h := hex.EncodeToString(g[:])
	return h[0:4] + ":" + h[4:8] + ":" + h[8:12] + ":" + h[12:16] + ":" + h[16:20] + ":" + h[20:24] + ":" + h[24:28] + ":" + h[28:]
}

// GIDType is the protocol of a GID.
type GIDType uint8

// Protocols; enum ib_uverbs_gid_type. GIDUnknown is that of an unreadable entry.
const (
	GIDInfiniBand GIDType = iota
	GIDRoCEv1
	GIDRoCEv2
	GIDUnknown GIDType = 255
)

// String returns the name of the protocol.
func (t GIDType) String() string {
	return name(int(t), "IB", "RoCE v1", "RoCE v2")
}

// MTU is a path MTU, in InfiniBand's encoding.
type MTU uint8

// Path MTUs.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Bytes returns the MTU in bytes, 0 if it is invalid.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// String returns the MTU in bytes.
func (m MTU) String() string {
	if n := m.Bytes(); n > 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("MTU(%d)", uint8(m))
}

// PortState is the logical state of a port.
type PortState uint8

// States of a port; enum ib_port_state, ib_verbs.h.
const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

// String returns the name that sysfs has.
func (s PortState) String() string {
	return name(int(s), "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
}

// LinkLayer is the link layer of a port.
type LinkLayer uint8

// Link layers; enum rdma_link_layer, ib_verbs.h.
const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

// String returns the name that sysfs has.
func (l LinkLayer) String() string { return name(int(l), "Unspecified", "InfiniBand", "Ethernet") }

// NodeType is the kind of a device.
type NodeType uint8

// Kinds of devices; enum rdma_node_type, ib_verbs.h.
const (
	NodeUnknown NodeType = iota
	NodeCA
	NodeSwitch
	NodeRouter
	NodeRNIC
	NodeUSNIC
	NodeUSNICUDP
	NodeUnspecified
)

// String returns the name that sysfs has.
func (n NodeType) String() string {
	return name(int(n), "unknown", "CA", "switch", "router", "RNIC", "usNIC", "usNIC UDP", "unspecified")
}

// Transport returns the transport of devices of the type.
func (n NodeType) Transport() TransportType {
	switch n {
	case NodeCA, NodeSwitch, NodeRouter:
		return TransportIB
	case NodeRNIC:
		return TransportIWARP
	case NodeUSNIC:
		return TransportUSNIC
	case NodeUSNICUDP:
		return TransportUSNICUDP
	case NodeUnspecified:
		return TransportUnspecified
	}
	return TransportUnknown
}

// TransportType is the transport of a device.
type TransportType int8

// Transports of devices; enum ibv_transport_type, rdma-core libibverbs/verbs.h. RoCE is
// TransportIB.
const (
	TransportUnknown TransportType = iota - 1
	TransportIB
	TransportIWARP
	TransportUSNIC
	TransportUSNICUDP
	TransportUnspecified
)

// String returns the name of the transport.
func (t TransportType) String() string {
	return name(int(t), "InfiniBand", "iWARP", "usNIC", "usNIC UDP", "unspecified")
}

// Access is a set of permitted accesses to memory; in a queue pair, what peers may do
// through it.
type Access uint32

// Access flags; enum ib_uverbs_access_flags. Peers that write or do atomics need
// AccessLocalWrite too.
const (
	AccessLocalWrite      Access = 1 << 0
	AccessRemoteWrite     Access = 1 << 1
	AccessRemoteRead      Access = 1 << 2
	AccessRemoteAtomic    Access = 1 << 3
	AccessMWBind          Access = 1 << 4
	AccessZeroBased       Access = 1 << 5
	AccessOnDemand        Access = 1 << 6
	AccessHugeTLB         Access = 1 << 7
	AccessRelaxedOrdering Access = 1 << 20 // ignored by devices that do not support it

	accessOptional = 0x3ff << 20
	accessRemote   = AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic
)

// name is the i-th name, or the number.
func name(i int, names ...string) string { return provider.Name(i, names...) }

// bigEndian turns a number of the kernel's that is big endian into one.
func bigEndian(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:])
}
