//go:build linux

package verbs

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Numbers, keys and identifiers of InfiniBand, each with its own type.
type (
	QPN  = provider.QPN  // number of a queue pair, 24 bits
	PSN  uint32          // sequence number of a packet, 24 bits
	LKey = provider.LKey // key of registered memory, for local use
	RKey = provider.RKey // key of registered memory, for peers
	QKey = provider.QKey // key that datagrams carry and the receiver checks
	PKey uint16          // key of a partition
	LID  = provider.LID  // address of a port in an InfiniBand subnet
	GUID uint64          // globally unique identifier of a node or port
)

// String returns the GUID in the format of sysfs: 0000:0000:0000:0000.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}

// GID is the address of a port, an IPv6 address with RoCE.
type GID [16]byte

// GIDFromAddr returns the GID of an IP address; an IPv4 address is mapped into IPv6.
func GIDFromAddr(a netip.Addr) GID { return GID(a.As16()) }

// Addr returns the GID as an IP address: IPv4 if the GID is an IPv4-mapped IPv6 address, else IPv6.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether g is zero, as an empty entry of a GID table is.
func (g GID) IsZero() bool { return g == GID{} }

// String returns the GID in 8 groups, as sysfs and the C tools print it.
func (g GID) String() string {
	h := hex.EncodeToString(g[:])
	return h[0:4] + ":" + h[4:8] + ":" + h[8:12] + ":" + h[12:16] + ":" + h[16:20] + ":" + h[20:24] + ":" + h[24:28] + ":" + h[28:]
}

// GIDType is the protocol that a GID is used with: InfiniBand, RoCE v1 or RoCE v2.
type GIDType uint8

// Protocols of GIDs; enum ib_uverbs_gid_type. GIDUnknown means that the kernel reported no protocol
// or an unknown one.
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

// MTU is a path MTU in InfiniBand's encoding: n stands for 128 << n bytes.
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

// String returns the name of the state as in sysfs, for example ACTIVE.
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

// String returns the name of the link layer as in sysfs.
func (l LinkLayer) String() string { return name(int(l), "Unspecified", "InfiniBand", "Ethernet") }

// NodeType is the kind of a device, for example a channel adapter (CA) or an RNIC.
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

// String returns the name of the type as in sysfs.
func (n NodeType) String() string {
	return name(int(n), "unknown", "CA", "switch", "router", "RNIC", "usNIC", "usNIC UDP", "unspecified")
}

// Transport returns the transport that devices of this type use.
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

// Access is a set of permitted memory accesses. In the attributes of a queue pair, it is the set
// that the peer may use through the queue pair.
type Access uint32

// Access flags; enum ib_uverbs_access_flags. AccessRemoteWrite and AccessRemoteAtomic require
// AccessLocalWrite.
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

// name returns names[i], or i as a decimal number if there is no such name.
func name(i int, names ...string) string { return provider.Name(i, names...) }

// bigEndian returns the value of v, which the kernel has stored in big-endian byte order.
func bigEndian(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:])
}
