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

// Caps returns what address v1 says about an interface.
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

// allAtomics reports whether an interface has all that UCP's atomics of one size
// take.
func allAtomics(o uct.AtomicOps) bool {
	const post, fetch = 1<<uct.AtomicSwap - 1, 1<<(uct.AtomicCSwap+1) - 1
	return o.Post&post == post && o.Fetch&fetch == fetch
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

// LocalIface is one of our resources: what its transport says of it, but for what
// the caller wants otherwise. Performance is what we publish.
type LocalIface struct {
	Transport TransportID
	Device    int   // same number: same device
	MD        uint8 // number of the memory domain
	Auxiliary bool  // serves only wireup and keepalive

	Attr   uct.IfaceAttr
	Domain uct.MDAttr

	name string
}

// Name returns "transport/device", which it remembers: like a selection, it is for one
// goroutine at a time.
func (l *LocalIface) Name() string {
	if l.name == "" {
		l.name = l.Attr.Resource.String()
	}
	return l.name
}

// LaneInput is all that the lanes of an endpoint depend on.
type LaneInput struct {
	Features  Features
	ErrMode   ErrMode
	Keepalive bool // keepalive is on; it matters only with an error mode

	// CM: the endpoint is made by a connection manager, which is lane 0.
	CM bool

	// Messages says that there must be a lane for active messages, also if no feature
	// asks for one; MessagesOnly that there must be no other one.
	Messages, MessagesOnly bool

	Local  []LocalIface
	Remote *WorkerAddress

	// Reachable reports why a local interface cannot reach an entry of the
	// address, nil if it can. It is asked only for entries of the same transport.
	Reachable func(local int, d *AddressDevice, f *AddressIface) error

	NumEndpoints int // expected number of endpoints of the worker; 0: 1
	PPN          int // expected number of processes on the node, which share bandwidth; 0: 1
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

// Lane returns the lane from a local interface to an entry of the address, for no use.
func (in *LaneInput) Lane(local, remote int) Lane {
	l := &in.Local[local]
	dev, f := in.Remote.Entry(remote)
	return Lane{
		Local: local, Name: l.Name(), MD: l.MD,
		Remote: remote, Peer: f.Transport, DstMD: dev.MD, DstSysDev: dev.SysDev, SegSize: f.Attr.SegSize,
	}
}

// LaneLimits are settings and constants of the selection. The zero value stands
// for DefaultLaneLimits.
type LaneLimits struct {
	Total    int     // all lanes
	FastPath int     // lanes of which short operations may use all (RMA, AMO, AM)
	Rndv     int     // lanes for long remote access (UCX_MAX_RNDV_LANES)
	Eager    int     // lanes for long eager messages (UCX_MAX_EAGER_LANES)
	RMA      int     // lanes for a put or get; 0: none goes without a copy (UCX_MAX_RMA_LANES)
	MaxRatio float64 // slower lanes are dropped (UCX_MULTI_LANE_MAX_RATIO)

	// Slow keeps these, as releases before 1.16 do, which leave them out only when they
	// spread data (ucp_wireup_add_bw_lanes of v1.13.1): peers of those have as many lanes.
	Slow bool

	// PathRatio is the part of a device's bandwidth that each lane over it takes, 0 for one
	// part of as many as the device has paths (UCX_MULTI_PATH_RATIO).
	PathRatio float64
}

// DefaultLaneLimits are the limits C UCX 1.22.0 applies toward a peer that
// announces no release, which is what it takes us for: selections on both sides
// must agree where endpoints are connected pairwise.
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
