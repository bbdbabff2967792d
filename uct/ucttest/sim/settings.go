package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// Options describe a component. The zero value is a component "sim" with one device, all
// capabilities, no latency and no faults, on a separate network.
type Options struct {
	Name    string   // name of component, domain and transport; "" is "sim"
	Network *Network // network of its ifaces; nil: a new one
	Devices int      // number of devices, "sim0", "sim1", …; 0 is 1

	// OwnDomains makes each device a memory domain of its own, with the name of the device and with
	// its own keys, as RDMA devices are.
	OwnDomains bool

	// Latency is the delay of deliveries and remote accesses in rounds, beyond the next round.
	Latency int

	// ConnectDelay is the number of rounds of the iface before a new endpoint can send.
	ConnectDelay int

	// Window is the maximum number of operations in flight of an endpoint; 0 is 32.
	Window int

	// Credits is the maximum number of operations in flight of all endpoints of an iface
	// together, like the completion queue of a device; 0: no limit.
	Credits int

	// Buffered makes short and bcopy messages return ucs.InProgress and complete in the next
	// round, as if they had to leave a buffer.
	Buffered bool

	// Keyless makes remote access work without keys, as in transport tcp: every peer may access
	// registered memory, or only the peer that the memory was registered for.
	Keyless bool

	// ValueKeys makes remote keys plain numbers (uct.DeviceMemory), as with RDMA devices.
	ValueKeys bool

	// KeepData allows handlers to keep received data.
	KeepData bool

	// Reorder is the seed to shuffle messages of different endpoints that arrive in one round;
	// 0: messages arrive in the order of sending.
	Reorder uint64

	// Place is the location of the component; nil: unknown. With a Place, the receivers of its
	// messages can identify the sender (uct.Connection), and its ifaces can locate peers
	// (uct.NetworkIface) and find their processes (uct.ProcessIface).
	Place *Place

	// Medium makes the network count time instead of rounds; nil: rounds. It needs a Place.
	Medium Medium

	// Death is what peers notice of the end of a process (Network.Kill). Only with a Medium.
	Death Death

	// Timeout is the time without acknowledgements, in nanoseconds, after which an endpoint fails;
	// 0: it waits for ever. With Probes it also fails if it has nothing in flight. Only with a
	// Medium.
	Timeout uint64
	Probes  bool

	// Handshake makes a new endpoint wait for an answer from the peer's host before it can send. Only
	// with a Medium.
	Handshake bool

	// SendBuffer is the number of bytes in flight from which an endpoint accepts nothing; 0: no
	// limit.
	SendBuffer int

	// Rings makes a process that ends in the middle of writing a message (Network.Kill) block the
	// receiver for HoleDelay nanoseconds, until the receiver has noticed that the message will not
	// be complete.
	Rings     bool
	HoleDelay uint64

	// NoSources makes the transport unable to tell its senders apart (uct.IfaceAttr.NoSources), as with
	// memory that they share, and its devices ones within a machine (uct.DeviceShared). It needs a Place.
	NoSources bool

	// Copies makes remote accesses copies by the CPU, which move a part of the bytes if a process
	// ends in the middle.
	Copies bool

	// Locate, if set, returns the Place of a domain that is being opened, so that one component
	// can stand for many processes.
	Locate func() *Place

	// Forge, if set, may change the bytes of each message that a process sends, except data that is not
	// copied.
	Forge func(from *Place, id uct.AMID, data []byte)

	// Processes makes endpoints know the process that they lead to (uct.ProcessEndpoint). It needs a
	// Place.
	Processes bool

	// Claim, if set, is called before something is made that takes n units of a resource of the
	// process at a place, and with a negative n when it is given back. Its error is returned by the
	// call that needs the resource.
	Claim func(at *Place, r Resource, n int) error

	// LateLimit makes an endpoint that gets no resource fail later, as one that cannot open a socket.
	LateLimit bool

	// Plan injects faults into the operations of this component's endpoints.
	Plan fault.Plan

	// Attr and DomainAttr edit the attributes of a device or the domain before they are
	// announced. Operations of a removed capability are refused.
	Attr       func(device int, a *uct.IfaceAttr)
	DomainAttr func(a *uct.MDAttr)
}

// Resource is something that objects of a transport take from their process.
type Resource uint8

// Resources, and what they are counted in.
const (
	Domains    Resource = iota // 1
	Interfaces                 // 1
	Endpoints                  // 1
	Registered                 // bytes
	Allocated                  // bytes
)

// claim calls Claim.
func (o *Options) claim(r Resource, n int) error {
	if o.Claim == nil {
		return nil
	}
	return o.Claim(o.Place, r, n)
}

// deviceName returns the name of a device.
func (o *Options) deviceName(i int) string { return fmt.Sprintf("%s%d", o.Name, i) }

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

// attributes returns the attributes of device number dev.
func (o *Options) attributes(r uct.Resource, dev int) uct.IfaceAttr {
	ops := uct.AtomicOps{Post: kit.AtomicPostOps, Fetch: kit.AtomicFetchOps}
	a := uct.IfaceAttr{
		Resource:  r,
		NoSources: o.NoSources,
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
