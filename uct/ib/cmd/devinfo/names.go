//go:build linux

package main

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Names of values, as ibv_devinfo prints them.

// at returns names[i], or other if the index is out of range or the name is empty.
func at[T ~int | ~int8 | ~uint8 | ~uint32](i T, other string, names ...string) string {
	if i >= 0 && int64(i) < int64(len(names)) && names[i] != "" {
		return names[i]
	}
	return other
}

func transportName(t verbs.TransportType) string {
	if t < verbs.TransportIB || t > verbs.TransportUnspecified {
		return "invalid transport"
	}
	return t.String()
}

func stateName(s verbs.PortState) string {
	return at(s, "invalid state", "", "PORT_DOWN", "PORT_INIT", "PORT_ARMED", "PORT_ACTIVE")
}

func physName(s int) string {
	return at(s, "invalid physical state", "", "SLEEP", "POLLING", "DISABLED", "PORT_CONFIGURATION TRAINNING", "LINK_UP",
		"LINK_ERROR_RECOVERY", "PHY TEST")
}

func atomicName(a verbs.AtomicCap) string {
	return at(a, "invalid atomic capability", "ATOMIC_NONE", "ATOMIC_HCA", "ATOMIC_GLOB")
}

func mtuName(m verbs.MTU) string {
	if n := m.Bytes(); n != 0 {
		return fmt.Sprint(n)
	}
	return "invalid MTU"
}

func widthName(w uint8) string {
	switch w {
	case 1:
		return "1"
	case 2:
		return "4"
	case 4:
		return "8"
	case 8:
		return "12"
	case 16:
		return "2"
	}
	return "invalid width"
}

func vlName(n uint8) string { return at(n, "invalid value", "", "1", "2", "4", "8", "15") }

func linkName(l verbs.LinkLayer) string {
	return at(l, "Unknown", "Unspecified", "InfiniBand", "Ethernet")
}

func speedName(s uint32) string {
	switch s {
	case 1:
		return "2.5 Gbps"
	case 2:
		return "5.0 Gbps"
	case 4, 8:
		return "10.0 Gbps"
	case 16:
		return "14.0 Gbps"
	case 32:
		return "25.0 Gbps"
	case 64:
		return "50.0 Gbps"
	case 128:
		return "100.0 Gbps"
	case 256: // in later releases of ibv_devinfo
		return "200.0 Gbps"
	}
	return "invalid speed"
}

// Names of capability flags, indexed by the bit number.
var (
	odpGeneralNames = []string{"ODP_SUPPORT", "ODP_SUPPORT_IMPLICIT"}
	odpNames        = []string{"SUPPORT_SEND", "SUPPORT_RECV", "SUPPORT_WRITE", "SUPPORT_READ", "SUPPORT_ATOMIC", "SUPPORT_SRQ"}
	rawPacketNames  = []string{"C-VLAN stripping offload", "Scatter FCS offload", "IP csum offload", "Delay drop"}
)

const rawPacketKnown = verbs.RawPacketCVLANStripping | verbs.RawPacketScatterFCS | verbs.RawPacketIPChecksum | verbs.RawPacketDelayDrop

// writeFlags prints the names of the set bits, and the other bits as a number.
func writeFlags(w io.Writer, flags uint64, names []string) {
	for i, name := range names {
		if flags&(1<<i) != 0 {
			fmt.Fprintf(w, indent+"%s\n", name)
			flags &^= 1 << i
		}
	}
	writeUnknown(w, flags)
}

func writeUnknown(w io.Writer, flags uint64) {
	if flags != 0 {
		fmt.Fprintf(w, indent+"Unknown flags: 0x%X\n", flags)
	}
}

// rawPacket is IBV_QPT_RAW_PACKET of enum ibv_qp_type, which package verbs does not define.
const rawPacket verbs.QPType = 8

func writeQPTypes(w io.Writer, types uint32) {
	fmt.Fprint(w, "\t\tsupported_qp:\n")
	for _, t := range []struct {
		typ  verbs.QPType
		name string
	}{{rawPacket, "SUPPORT_RAW_PACKET"}, {verbs.UD, "SUPPORT_UD"}} {
		if types&(1<<t.typ) != 0 {
			fmt.Fprintf(w, indent+"%s\n", t.name)
			types &^= 1 << t.typ
		}
	}
	writeUnknown(w, uint64(types))
}

// ipv6 formats a GID as glibc formats an IPv6 address: an IPv4 address after 12 zero bytes is in
// dotted notation.
func ipv6(g verbs.GID) string {
	if [12]byte(g[:12]) == [12]byte{} && (g[12] != 0 || g[13] != 0) {
		return "::" + netip.AddrFrom4([4]byte(g[12:])).String()
	}
	return netip.AddrFrom16(g).String()
}
