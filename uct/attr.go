package uct

import (
	"fmt"
	"math"
)

// Resource is one transport on one device.
type Resource struct {
	Transport string
	Device    string
	Type      DeviceType
	SysDevice int // position in the machine's topology, -1 if unknown
}

// String returns "transport/device".
func (r Resource) String() string { return r.Transport + "/" + r.Device }

// DeviceType groups devices for UCX_*_DEVICES (uct_device_type_t).
type DeviceType uint8

// Device types.
const (
	DeviceNetwork DeviceType = iota
	DeviceShared
	DeviceAccelerator
	DeviceSelf
)

// String returns the name that the C tools print.
func (t DeviceType) String() string {
	switch t {
	case DeviceNetwork:
		return "network"
	case DeviceShared:
		return "intra-node"
	case DeviceAccelerator:
		return "accelerator"
	case DeviceSelf:
		return "loopback"
	}
	return fmt.Sprintf("device type %d", uint8(t))
}

// IfaceFlags are capabilities of an Iface (UCT_IFACE_FLAG_*), with C's bit
// numbers: UCP packs some of them into its address.
type IfaceFlags uint64

// Iface flags.
const (
	IfaceAMShort            IfaceFlags = 1 << 0
	IfaceAMBcopy            IfaceFlags = 1 << 1
	IfaceAMZcopy            IfaceFlags = 1 << 2
	IfacePending            IfaceFlags = 1 << 3
	IfacePutShort           IfaceFlags = 1 << 4
	IfacePutBcopy           IfaceFlags = 1 << 5
	IfacePutZcopy           IfaceFlags = 1 << 6
	IfaceGetShort           IfaceFlags = 1 << 8
	IfaceGetBcopy           IfaceFlags = 1 << 9
	IfaceGetZcopy           IfaceFlags = 1 << 10
	IfaceAtomicCPU          IfaceFlags = 1 << 30
	IfaceAtomicDevice       IfaceFlags = 1 << 31
	IfaceErrHandleShortBuf  IfaceFlags = 1 << 32
	IfaceErrHandleBcopyBuf  IfaceFlags = 1 << 33
	IfaceErrHandleZcopyBuf  IfaceFlags = 1 << 34
	IfaceErrHandleAMID      IfaceFlags = 1 << 35
	IfaceErrHandleRemoteMem IfaceFlags = 1 << 36
	IfaceErrHandleBcopyLen  IfaceFlags = 1 << 37
	IfaceErrHandlePeerFail  IfaceFlags = 1 << 38
	IfaceEpCheck            IfaceFlags = 1 << 39
	IfaceConnectToIface     IfaceFlags = 1 << 40
	IfaceConnectToEP        IfaceFlags = 1 << 41
	IfaceConnectToSockAddr  IfaceFlags = 1 << 42
	IfaceAMDup              IfaceFlags = 1 << 43
	IfaceCBSync             IfaceFlags = 1 << 44
	IfaceCBAsync            IfaceFlags = 1 << 45
	IfaceEpKeepalive        IfaceFlags = 1 << 46
	IfacePutAMOrder         IfaceFlags = 1 << 47
	IfaceTagEagerShort      IfaceFlags = 1 << 50
	IfaceTagEagerBcopy      IfaceFlags = 1 << 51
	IfaceTagEagerZcopy      IfaceFlags = 1 << 52
	IfaceTagRndvZcopy       IfaceFlags = 1 << 53
	IfaceInterNode          IfaceFlags = 1 << 54
)

// Has reports whether all bits of want are set.
func (f IfaceFlags) Has(want IfaceFlags) bool { return f&want == want }

// EventFlags are the events an Iface can signal (UCT_IFACE_FLAG_EVENT_*).
type EventFlags uint32

// Event flags, with C's bit numbers.
const (
	EventSendComp EventFlags = 1 << 0
	EventRecv     EventFlags = 1 << 1
	EventRecvSig  EventFlags = 1 << 2
	EventFD       EventFlags = 1 << 3 // has a descriptor in the worker's set
	EventAsyncCB  EventFlags = 1 << 4

	EventAny = EventSendComp | EventRecv // every event that can be waited for
)

// Unlimited is the value of a size limit that does not apply.
const Unlimited = math.MaxInt

// IfaceAttr describes an open Iface: capabilities, limits and performance.
type IfaceAttr struct {
	Resource Resource
	Flags    IfaceFlags
	Events   EventFlags

	AM       AMLimits
	Put      RMALimits
	Get      RMALimits
	Atomic32 AtomicOps
	Atomic64 AtomicOps

	DeviceAddrLen int // lengths of the packed addresses, in bytes
	IfaceAddrLen  int
	EpAddrLen     int

	// Batches reports that the transport collects consecutive copied messages and hands them
	// over together.
	Batches bool

	// NoSources reports that the transport cannot tell its peers apart: its handlers get no
	// Source. The iface is then a ProcessIface.
	NoSources bool

	// MaxInflightEPs is the number of endpoints whose send queues can be full at the same time,
	// because they share a completion queue; 0 means all.
	MaxInflightEPs int

	MaxEndpoints int
	NumPaths     int // parallel paths worth using, at least 1

	Perf Perf
}

// AMLimits are sizes of active messages, in bytes, header included.
type AMLimits struct {
	MaxShort      int // with the 8-byte header
	MaxBcopy      int
	MinZcopy      int
	MaxZcopy      int
	MaxZcopyHdr   int
	MaxIOV        int
	OptZcopyAlign int
	AlignMTU      int
}

// RMALimits are sizes of put or get operations, in bytes.
type RMALimits struct {
	MaxShort      int
	MaxBcopy      int
	MinZcopy      int
	MaxZcopy      int
	MaxIOV        int
	OptZcopyAlign int
	AlignMTU      int
}

// Linear is the linear cost C + M·n.
type Linear struct {
	C float64
	M float64
}

// At returns the cost for n.
func (l Linear) At(n float64) float64 { return l.C + l.M*n }

// Perf is the performance model of an Iface, the input of lane and protocol
// selection. Times are in seconds, bandwidths in bytes per second.
type Perf struct {
	Overhead           float64 // CPU time per message, as published in addresses
	SendOverhead       float64 // CPU time to post a message
	RecvOverhead       float64 // CPU time to receive a message
	CopyOverhead       float64 // extra CPU time of a copied message over a short one, both sides
	BandwidthDedicated float64 // of each iface alone
	BandwidthShared    float64 // shared by the processes of a node
	Latency            Linear  // grows with the number of endpoints
	Priority           uint8   // breaks ties between devices
}

// Bandwidth returns the bandwidth of one of ppn processes on the node.
func (p *Perf) Bandwidth(ppn int) float64 {
	if ppn < 1 {
		ppn = 1
	}
	return p.BandwidthDedicated + p.BandwidthShared/float64(ppn)
}

// IfaceParams are the parameters of MemoryDomain.OpenIface.
type IfaceParams struct {
	Transport string
	Device    string

	// OnError is called with an endpoint that has failed, its EndpointParams.UserData, and the
	// cause. OnError runs inside progress, never inside a send, once per endpoint, after the
	// endpoint's completions have received their error; no operation succeeds afterwards. When
	// OnError returns, the endpoint accepts only PendingPurge and Close. If nil, failures are
	// logged.
	OnError func(ep Endpoint, userData any, err error)

	// Accept decides whether to accept a connection from a peer, before any byte is read from
	// the connection; nil accepts all. With TLS it is called once more after the handshake,
	// with SourceInfo.TLS set. It runs inside progress and must not call the iface. A transport
	// without connections does not call it.
	Accept func(SourceInfo) bool

	// Reclaim is called by a transport that has no room for another endpoint. Reclaim closes
	// the endpoints whose ProcessEndpoint.Gone is not nil, or, if there are none, some of the least
	// needed endpoints. It reports whether it has closed any. It runs inside NewEndpoint. Nil
	// means that no endpoint can be closed.
	Reclaim func() bool

	// SenderExited is called by an iface with IfaceAttr.NoSources when a process that may have sent
	// messages has exited. The messages of the process have been delivered by then, and OnError has
	// been called for the endpoints to the process. SenderExited runs inside progress. It may be
	// nil.
	SenderExited func()

	// PeerRelease is the range of C UCX releases of the peers. It selects the default length of
	// shared-memory rings, for which no value suits all releases.
	PeerRelease PeerRelease
}

// PeerRelease is a range of C UCX releases that peers may be of. Peers of every release can
// communicate, whatever the range.
type PeerRelease uint8

// Ranges of C UCX releases.
const (
	PeerReleaseAny PeerRelease = iota // any; same choices as for 1.16 and later
	PeerRelease113                    // 1.13 to 1.15
	PeerRelease122                    // 1.16 and later
)
