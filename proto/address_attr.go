package proto

import (
	"fmt"
	"math"

	"github.com/ucx-go/ucx/ucs"
)

// IfaceCaps are the capabilities of a transport as address v1 packs them
// (UCP_ADDRESS_IFACE_FLAGS in src/ucp/wireup/address.h), at the bits they have
// on the wire. The lowest eight bits are the priority.
type IfaceCaps uint32

// Capabilities of an interface in address v1.
const (
	CapAMBcopy        IfaceCaps = 1 << 8
	CapPending        IfaceCaps = 1 << 9
	CapPutShort       IfaceCaps = 1 << 10
	CapPutBcopy       IfaceCaps = 1 << 11
	CapPutZcopy       IfaceCaps = 1 << 12
	CapGetShort       IfaceCaps = 1 << 13
	CapGetBcopy       IfaceCaps = 1 << 14
	CapGetZcopy       IfaceCaps = 1 << 15
	CapConnectToIface IfaceCaps = 1 << 16
	CapCBSync         IfaceCaps = 1 << 17
	CapCBAsync        IfaceCaps = 1 << 18
	CapTagEagerBcopy  IfaceCaps = 1 << 19
	CapTagRndvZcopy   IfaceCaps = 1 << 20
	CapEventRecv      IfaceCaps = 1 << 21
	CapAtomic32       IfaceCaps = 1 << 30 // supports all 32-bit atomic operations
	CapAtomic64       IfaceCaps = 1 << 31 // supports all 64-bit atomic operations

	capPriorityMask IfaceCaps = 0xFF
)

// PeerFlags are the capabilities that the other side learns from either version of the
// address (UCP_ADDR_IFACE_FLAG_*), at the bits of version 2.
type PeerFlags uint16

// Capabilities of a peer's interface.
const (
	PeerConnectToIface PeerFlags = 1 << 0
	PeerAMSync         PeerFlags = 1 << 1 // calls active message handlers from progress
	PeerCBAsync        PeerFlags = 1 << 2
	PeerPut            PeerFlags = 1 << 3
	PeerGet            PeerFlags = 1 << 4
	PeerTagEager       PeerFlags = 1 << 5
	PeerTagRndv        PeerFlags = 1 << 6
	PeerEventRecv      PeerFlags = 1 << 7
	PeerAtomic32       PeerFlags = 1 << 8
	PeerAtomic64       PeerFlags = 1 << 9
)

// Has reports whether all bits of want are set.
func (f PeerFlags) Has(want PeerFlags) bool { return f&want == want }

// Peer returns the capabilities as a peer sees them, in the bits of address v2.
func (c IfaceCaps) Peer() PeerFlags {
	var f PeerFlags
	set := func(p PeerFlags, on bool) {
		if on {
			f |= p
		}
	}
	set(PeerConnectToIface, c&CapConnectToIface != 0)
	set(PeerAMSync, c&CapCBSync != 0 && c&CapAMBcopy != 0)
	set(PeerCBAsync, c&CapCBAsync != 0)
	set(PeerPut, c&(CapPutShort|CapPutBcopy|CapPutZcopy) != 0)
	set(PeerGet, c&(CapGetShort|CapGetBcopy|CapGetZcopy) != 0)
	set(PeerTagEager, c&CapTagEagerBcopy != 0)
	set(PeerTagRndv, c&CapTagRndvZcopy != 0)
	set(PeerEventRecv, c&CapEventRecv != 0)
	set(PeerAtomic32, c&CapAtomic32 != 0)
	set(PeerAtomic64, c&CapAtomic64 != 0)
	return f
}

// IfaceAttr holds the performance and the capabilities of a transport, as an address announces
// them. ParseAddress returns finite, non-negative times and a positive bandwidth, or an error.
type IfaceAttr struct {
	Overhead  float64 // seconds per message
	Bandwidth float64 // bytes per second, for one process of the node
	Latency   float64 // seconds; v1: without the part that grows with the number of endpoints
	Priority  uint8

	// SegSize is the longest active message that the transport accepts, header included. 0
	// means not announced (v1); a sender then uses its own limit. v2 has a granularity of
	// 64 bytes.
	SegSize int

	// Caps are the capabilities in address v1. An address v2 does not contain them.
	Caps IfaceCaps

	// Flags are the capabilities in address v2. ParseAddress sets them for both versions; packing
	// v1 uses Caps instead.
	Flags PeerFlags
}

// String prints the attributes in the units of ucx_info.
func (a IfaceAttr) String() string {
	return fmt.Sprintf("bw %.2fMB/s lat %.0fns ovh %.0fns prio %d flags %#x seg %d",
		a.Bandwidth/(1<<20), a.Latency*nsecPerSec, a.Overhead*nsecPerSec, a.Priority, uint16(a.Flags), a.SegSize)
}

const segSizeUnit = 64 // UCP_ADDRESS_IFACE_SEG_SIZE_FACTOR

// appendV1 appends the attributes: ucp_address_packed_iface_attr_t.
func (a *IfaceAttr) appendV1(b []byte) []byte {
	b = le.AppendUint32(b, math.Float32bits(float32(a.Overhead)))
	b = le.AppendUint32(b, math.Float32bits(float32(a.Bandwidth)))
	b = le.AppendUint32(b, math.Float32bits(float32(a.Latency)))
	return le.AppendUint32(b, uint32(a.Caps&^capPriorityMask)|uint32(a.Priority))
}

func parseAttrV1(r *reader) (a IfaceAttr) {
	a.Overhead = float64(r.f32())
	a.Bandwidth = float64(r.f32())
	a.Latency = float64(r.f32())
	caps := r.u32()
	a.Priority = uint8(caps)
	a.Caps = IfaceCaps(caps) &^ capPriorityMask
	a.Flags = a.Caps.Peer()
	return a
}

// parseAttrV2 reads ucp_address_v2_packed_iface_attr_t.
func parseAttrV2(r *reader) (a IfaceAttr) {
	a.Overhead = fp8Overhead.unpack(r.u8()) / nsecPerSec
	a.Bandwidth = fp8Bandwidth.unpack(r.u8())
	a.Latency = fp8Latency.unpack(r.u8()) / nsecPerSec
	a.Priority = r.u8()
	a.SegSize = int(r.u16()) * segSizeUnit
	a.Flags = PeerFlags(r.u16())
	return a
}

// appendV2 appends the attributes: ucp_address_v2_packed_iface_attr_t.
func (a *IfaceAttr) appendV2(b []byte) []byte {
	b = append(b, fp8Overhead.packSeconds(a.Overhead), fp8Bandwidth.pack(a.Bandwidth), fp8Latency.packSeconds(a.Latency), a.Priority)
	b = le.AppendUint16(b, uint16(min(a.SegSize/segSizeUnit, math.MaxUint16)))
	return le.AppendUint16(b, uint16(a.Flags))
}

// check rejects values that no transport can have, so that computations with a peer's
// attributes neither divide by zero nor compare with NaN. Releases up to 1.11 packed a negative
// bandwidth for shared devices; they are not supported.
func (a *IfaceAttr) check() error {
	if !(a.Bandwidth > 0) || math.IsInf(a.Bandwidth, 0) {
		return formatErrorf(ucs.ErrInvalidAddr, "address", "invalid bandwidth %g", a.Bandwidth)
	}
	if !(a.Overhead >= 0) || math.IsInf(a.Overhead, 0) {
		return formatErrorf(ucs.ErrInvalidAddr, "address", "invalid overhead %g", a.Overhead)
	}
	if !(a.Latency >= 0) || math.IsInf(a.Latency, 0) {
		return formatErrorf(ucs.ErrInvalidAddr, "address", "invalid latency %g", a.Latency)
	}
	return nil
}
