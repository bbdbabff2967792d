package sim

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/rma"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// Options describe a component. The zero value is a component "sim" with one
// device, all capabilities, no latency and no faults, on a network of its own.
type Options struct {
	Name    string   // of component, domain and transport; "" is "sim"
	Network *Network // where its ifaces are; nil: a new one
	Devices int      // number of devices, "sim0", "sim1", …; 0 is 1

	// Latency is the number of rounds that something takes beyond the next one.
	Latency int

	// ConnectDelay is the number of rounds of its iface before a new endpoint
	// can send.
	ConnectDelay int

	// Window is the number of operations of an endpoint in flight before it
	// refuses; 0 is 32.
	Window int

	// Credits is the number of operations of an iface in flight, of all its
	// endpoints together, before they refuse; 0: no limit. A device's completion
	// queue is such a limit.
	Credits int

	// Buffered makes short and buffered messages return ucs.InProgress and
	// complete in the next round, as if they had to leave a buffer.
	Buffered bool

	// Keyless makes remote access need no key, as over tcp: registered memory is
	// open to every peer, or to the one that it was registered for.
	Keyless bool

	// ValueKeys lets memory be opened to a peer for one message (uct.ValueKeys), as a
	// device for RDMA does.
	ValueKeys bool

	// KeepData offers handlers to keep received data.
	KeepData bool

	// Reorder mixes, by this seed, the messages of different endpoints that
	// arrive in one round; 0: as they were sent.
	Reorder uint64

	// Place says where the component is, nil: nobody can tell. Its peers know it
	// whatever it says, and its ifaces know where addresses lead.
	Place *Place

	// Plan makes things go wrong with what endpoints of this component send.
	Plan fault.Plan

	// Attr and DomainAttr edit the attributes of a device or the domain before
	// they are announced: what is taken away there is refused.
	Attr       func(device int, a *uct.IfaceAttr)
	DomainAttr func(a *uct.MDAttr)
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "sim"
	}
	if o.Network == nil {
		o.Network = NewNetwork()
	}
	if o.Devices == 0 {
		o.Devices = 1
	}
	if o.Window == 0 {
		o.Window = 32
	}
	return o
}

// attributes are those of device number dev.
func (o *Options) attributes(r uct.Resource, dev int) uct.IfaceAttr {
	ops := uct.AtomicOps{Post: rma.PostOps, Fetch: rma.FetchOps}
	a := uct.IfaceAttr{
		Resource: r,
		Flags: uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy | uct.IfacePending |
			uct.IfacePutShort | uct.IfacePutBcopy | uct.IfacePutZcopy |
			uct.IfaceGetBcopy | uct.IfaceGetZcopy | uct.IfaceAtomicDevice |
			uct.IfaceErrHandlePeerFail | uct.IfaceEpCheck | uct.IfaceConnectToIface |
			uct.IfaceConnectToEP | uct.IfaceCBSync | uct.IfaceInterNode,
		Events: uct.EventSendComp | uct.EventRecv | uct.EventFD,
		AM: uct.AMLimits{
			MaxShort: 256, MaxBcopy: 8192, MaxZcopy: 64 << 10, MaxZcopyHdr: 512, MaxIOV: 8,
			OptZcopyAlign: 1, AlignMTU: 1,
		},
		Put: uct.RMALimits{
			MaxShort: 256, MaxBcopy: 8192, MaxZcopy: 1 << 30, MaxIOV: 8, OptZcopyAlign: 1, AlignMTU: 1,
		},
		Get: uct.RMALimits{
			MaxBcopy: 8192, MaxZcopy: 1 << 30, MaxIOV: 8, OptZcopyAlign: 1, AlignMTU: 1,
		},
		Atomic32:      ops,
		Atomic64:      ops,
		DeviceAddrLen: deviceAddrLen,
		IfaceAddrLen:  ifaceAddrLen,
		EpAddrLen:     epAddrLen,
		MaxEndpoints:  uct.Unlimited,
		NumPaths:      1,
		Perf: uct.Perf{
			Overhead:           100e-9,
			SendOverhead:       100e-9,
			RecvOverhead:       100e-9,
			BandwidthDedicated: 10 << 30,
			Latency:            uct.Linear{C: 1e-6, M: 1e-9},
		},
	}
	if o.Attr != nil {
		o.Attr(dev, &a)
	}
	return a
}
