package proto

import "math"

// IfaceFlags are capabilities of a local transport: UCT_IFACE_FLAG_* at C's bit
// numbers (src/uct/api/uct.h), so that a transport's own flags convert as they
// are. Only the bits that selection looks at have names.
type IfaceFlags uint64

// Interface flags.
const (
	FlagAMShort        IfaceFlags = 1 << 0
	FlagAMBcopy        IfaceFlags = 1 << 1
	FlagAMZcopy        IfaceFlags = 1 << 2
	FlagPending        IfaceFlags = 1 << 3
	FlagPutShort       IfaceFlags = 1 << 4
	FlagPutBcopy       IfaceFlags = 1 << 5
	FlagPutZcopy       IfaceFlags = 1 << 6
	FlagGetShort       IfaceFlags = 1 << 8
	FlagGetBcopy       IfaceFlags = 1 << 9
	FlagGetZcopy       IfaceFlags = 1 << 10
	FlagErrHandlePeer  IfaceFlags = 1 << 38
	FlagEpCheck        IfaceFlags = 1 << 39
	FlagConnectToIface IfaceFlags = 1 << 40
	FlagConnectToEP    IfaceFlags = 1 << 41
	FlagCBSync         IfaceFlags = 1 << 44
	FlagCBAsync        IfaceFlags = 1 << 45
	FlagEpKeepalive    IfaceFlags = 1 << 46
	FlagTagEagerBcopy  IfaceFlags = 1 << 51
	FlagTagRndvZcopy   IfaceFlags = 1 << 53
)

// EventFlags are the events a local transport can signal
// (UCT_IFACE_FLAG_EVENT_*), at C's bit numbers.
type EventFlags uint32

// Event flags.
const (
	EventSendComp EventFlags = 1 << 0
	EventRecv     EventFlags = 1 << 1
)

// capBits pairs the bits of address v1 with those of the transport, in the
// order of both (ucp_address_pack_flags in src/ucp/wireup/address.c).
var capBits = [...]struct {
	cap  IfaceCaps
	flag IfaceFlags
}{
	{CapAMBcopy, FlagAMBcopy},
	{CapPending, FlagPending},
	{CapPutShort, FlagPutShort},
	{CapPutBcopy, FlagPutBcopy},
	{CapPutZcopy, FlagPutZcopy},
	{CapGetShort, FlagGetShort},
	{CapGetBcopy, FlagGetBcopy},
	{CapGetZcopy, FlagGetZcopy},
	{CapConnectToIface, FlagConnectToIface},
	{CapCBSync, FlagCBSync},
	{CapCBAsync, FlagCBAsync},
	{CapTagEagerBcopy, FlagTagEagerBcopy},
	{CapTagRndvZcopy, FlagTagRndvZcopy},
}

// Caps returns what address v1 says about a transport. atomic32 and atomic64
// tell whether it has all atomic operations of that size and is to be used for
// them.
func Caps(flags IfaceFlags, events EventFlags, atomic32, atomic64 bool) IfaceCaps {
	var c IfaceCaps
	for _, b := range capBits {
		if flags&b.flag != 0 {
			c |= b.cap
		}
	}
	if events&EventRecv != 0 {
		c |= CapEventRecv
	}
	if atomic32 {
		c |= CapAtomic32
	}
	if atomic64 {
		c |= CapAtomic64
	}
	return c
}

// Features are what the application uses, at the bits of ucp_feature.
type Features uint32

// Features.
const (
	FeatureTag      Features = 1 << 0
	FeatureRMA      Features = 1 << 1
	FeatureAtomic32 Features = 1 << 2
	FeatureAtomic64 Features = 1 << 3
	FeatureWakeup   Features = 1 << 4
	FeatureStream   Features = 1 << 5
	FeatureAM       Features = 1 << 6
)

// has reports whether all bits of want are set.
func (f Features) has(want Features) bool { return f&want == want }

// LocalMD is what selection needs to know of a memory domain.
type LocalMD struct {
	Index         uint8
	Register      bool // host memory can be registered
	Access        bool // host memory can be touched without
	Alloc         bool
	NeedMemh      bool
	NeedRkey      bool
	RkeyPtr       bool // a key gives a pointer to the peer's memory
	InvalidateRMA bool // access can be taken back before an operation ends
	RegCost       Linear
}

// LocalIface is one of our resources. Performance is what we publish.
type LocalIface struct {
	Name      string // "tcp/lo"
	Transport TransportID
	Device    int // same number: same device
	MD        LocalMD
	Flags     IfaceFlags
	Events    EventFlags
	Atomic32  bool // has all atomic operations of the size and is to be used for them
	Atomic64  bool
	Auxiliary bool // serves only wireup and keepalive

	MaxBcopy     int // longest active message
	MaxEndpoints int // 0: no limit
	NumPaths     int // 0: 1

	Overhead  float64 // seconds per message
	Bandwidth float64 // bytes per second for this process
	Latency   Linear  // seconds, plus seconds per endpoint of the worker
	Priority  uint8
}

// LaneInput is all that the lanes of an endpoint depend on.
type LaneInput struct {
	Features  Features
	ErrMode   ErrMode
	Keepalive bool // keepalive is on; it matters only with an error mode

	// CM: the endpoint is made by a connection manager, which is lane 0.
	CM bool

	Local  []LocalIface
	Remote *WorkerAddress

	// Reachable reports why a local interface cannot reach an entry of the
	// address, nil if it can. It is asked only for entries of the same transport.
	Reachable func(local int, d *AddressDevice, f *AddressIface) error

	NumEndpoints int // expected number of endpoints of the worker; 0: 1
	RndvScheme   RndvScheme
	Limits       LaneLimits
}

// LaneLimits are settings and constants of the selection. The zero value stands
// for DefaultLaneLimits.
type LaneLimits struct {
	Total    int     // all lanes
	FastPath int     // lanes of which short operations may use all (RMA, AMO, AM)
	Rndv     int     // lanes for long remote access (UCX_MAX_RNDV_LANES)
	Eager    int     // lanes for long eager messages (UCX_MAX_EAGER_LANES)
	MaxRatio float64 // slower lanes are dropped (UCX_MULTI_LANE_MAX_RATIO)
}

// DefaultLaneLimits are the limits C UCX 1.22.0 applies toward a peer that
// announces no release, which is what it takes us for: selections on both sides
// must agree where endpoints are connected pairwise.
func DefaultLaneLimits() LaneLimits {
	return LaneLimits{Total: 16, FastPath: 5, Rndv: 2, Eager: 1, MaxRatio: laneMaxRatio}
}

func (l LaneLimits) orDefault() LaneLimits {
	if l == (LaneLimits{}) {
		return DefaultLaneLimits()
	}
	l.Total = min(max(l.Total, 1), MaxLanes)
	l.FastPath = min(max(l.FastPath, 1), l.Total)
	if !(l.MaxRatio >= 1) || math.IsInf(l.MaxRatio, 0) {
		l.MaxRatio = laneMaxRatio
	}
	return l
}
