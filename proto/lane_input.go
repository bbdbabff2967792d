package proto

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// capBits pairs the bits of address v1 with those of the transport, in the
// order of both (ucp_address_pack_flags in src/ucp/wireup/address.c).
var capBits = [...]struct {
	cap  IfaceCaps
	flag uct.IfaceFlags
}{
	{CapAMBcopy, uct.IfaceAMBcopy},
	{CapPending, uct.IfacePending},
	{CapPutShort, uct.IfacePutShort},
	{CapPutBcopy, uct.IfacePutBcopy},
	{CapPutZcopy, uct.IfacePutZcopy},
	{CapGetShort, uct.IfaceGetShort},
	{CapGetBcopy, uct.IfaceGetBcopy},
	{CapGetZcopy, uct.IfaceGetZcopy},
	{CapConnectToIface, uct.IfaceConnectToIface},
	{CapCBSync, uct.IfaceCBSync},
	{CapCBAsync, uct.IfaceCBAsync},
	{CapTagEagerBcopy, uct.IfaceTagEagerBcopy},
	{CapTagRndvZcopy, uct.IfaceTagRndvZcopy},
}

// Caps returns the capabilities of an interface for address v1.
func Caps(a *uct.IfaceAttr) IfaceCaps {
	var c IfaceCaps
	for _, b := range capBits {
		if a.Flags&b.flag != 0 {
			c |= b.cap
		}
	}
	if a.Events&uct.EventRecv != 0 {
		c |= CapEventRecv
	}
	if allAtomics(a.Atomic32) {
		c |= CapAtomic32
	}
	if allAtomics(a.Atomic64) {
		c |= CapAtomic64
	}
	return c
}

// allAtomics reports whether an interface has all operations that UCP's atomics of one size need.
func allAtomics(o uct.AtomicOps) bool {
	const post, fetch = 1<<uct.AtomicSwap - 1, 1<<(uct.AtomicCSwap+1) - 1
	return o.Post&post == post && o.Fetch&fetch == fetch
}

// Features are the features that the application uses, at the bits of ucp_feature.
type Features uint32

// Features of a UCP context (UCP_FEATURE_*).
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

// LocalIface is one local resource, with the attributes of its transport as the caller has
// adjusted them. The performance values are those that the worker's own address announces.
type LocalIface struct {
	Transport TransportID
	Device    int   // number of the device, which resources may share
	MD        uint8 // number of the memory domain
	Auxiliary bool  // the resource may be used only for wireup and keepalive

	Attr   uct.IfaceAttr
	Domain uct.MDAttr

	name string
}

// Name returns "transport/device". It caches the name, so one goroutine at a time may call it.
func (l *LocalIface) Name() string {
	if l.name == "" {
		l.name = l.Attr.Resource.String()
	}
	return l.name
}

// LaneInput holds everything that the lanes of an endpoint depend on.
type LaneInput struct {
	Features  Features
	ErrMode   ErrMode
	Keepalive bool // keepalive is on; it matters only with an error mode

	// CM means that a connection manager connects the endpoint. The manager's lane is lane 0.
	CM bool

	// Messages requires a lane for active messages, even if no feature needs one. MessagesOnly
	// requires that there is no other lane.
	Messages, MessagesOnly bool

	Local  []LocalIface
	Remote *WorkerAddress

	// Reachable returns the reason why a local interface cannot reach an entry of the
	// address, nil if it can. It is called only for entries of the same transport.
	Reachable func(local int, d *AddressDevice, f *AddressIface) error

	NumEndpoints int // expected number of endpoints of the worker; 0 means 1
	PPN          int // expected number of processes on the node, which share bandwidth; 0 means 1
	RndvScheme   RndvScheme
	Limits       LaneLimits
}

// Pairs reports whether endpoints of a local interface are connected pairwise
// (ucp_wireup_connect_p2p in src/ucp/wireup/wireup.c).
func (in *LaneInput) Pairs(local int) bool {
	flags := in.Local[local].Attr.Flags
	if in.CM {
		return flags&uct.IfaceConnectToEP != 0
	}
	return flags&uct.IfaceConnectToIface == 0
}

// Lane returns the lane from a local interface to an entry of the address. It has no lane type yet.
func (in *LaneInput) Lane(local, remote int) Lane {
	l := &in.Local[local]
	dev, f := in.Remote.Entry(remote)
	return Lane{
		Local: local, Name: l.Name(), MD: l.MD,
		Remote: remote, Peer: f.Transport, DstMD: dev.MD, DstSysDev: dev.SysDev, SegSize: f.Attr.SegSize,
	}
}

// LaneLimits are settings and constants of the selection. The zero value means
// DefaultLaneLimits.
type LaneLimits struct {
	Total    int // most lanes of an endpoint
	FastPath int // most lanes that short operations may use (RMA, AMO, AM)
	Rndv     int // most lanes for long remote access (UCX_MAX_RNDV_LANES)
	Eager    int // most lanes for long eager messages (UCX_MAX_EAGER_LANES)
	RMA      int // most lanes for one put or get; 0: no zero-copy (UCX_MAX_RMA_LANES)

	// MaxRatio is the factor by which a lane may be slower than the fastest lane. Slower lanes are
	// dropped (UCX_MULTI_LANE_MAX_RATIO).
	MaxRatio float64

	// Slow keeps the lanes that MaxRatio would drop. Releases before 1.16 keep such lanes too, and
	// drop them only when they spread data (ucp_wireup_add_bw_lanes of v1.13.1). Slow is set
	// toward them, so that both sides have the same number of lanes.
	Slow bool

	// PathRatio is the part of a device's bandwidth that each lane over the device uses; 0
	// divides the bandwidth by the number of the device's paths (UCX_MULTI_PATH_RATIO).
	PathRatio float64
}

// DefaultLaneLimits returns the limits that C UCX 1.22.0 applies toward a peer that
// announces no release, such as this library: if endpoints are connected pairwise, the
// selections of both sides must agree.
func DefaultLaneLimits() LaneLimits {
	return LaneLimits{Total: 16, FastPath: 5, Rndv: 2, Eager: 1, RMA: 1, MaxRatio: laneMaxRatio}
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
	if !(l.PathRatio > 0) || math.IsInf(l.PathRatio, 0) {
		l.PathRatio = 0
	}
	return l
}
