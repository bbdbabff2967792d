//go:build simulate

package simnet

import (
	"net/netip"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/udsim"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// character is a simulated transport. Each has the traits of a real one by which the layers above
// can go wrong.
type character struct {
	name    string
	options sim.Options
	takes   takes         // what one unit of each resource takes
	resend  time.Duration // timeout after which a lost message is sent again, doubled each time; 0: none is lost
}

var characters = []*character{
	// A stream between hosts: the end of a process resets its connections, memory needs no key,
	// messages leave a buffer of limited size, and a host that is gone is noticed by probes: at the
	// settings of tcp 10 s of silence and 9 probes with 2 s between them.
	{"nettcp", sim.Options{
		Keyless: true, Buffered: true, Handshake: true, Death: sim.DeathReset, Timeout: uint64(28 * time.Second), Probes: true,
		SendBuffer: 128 << 10, Attr: stream, LateLimit: true,
	}, takes{sim.Interfaces: {Descriptors: 2}, sim.Endpoints: {Descriptors: 1}, sim.Allocated: {Memory: 1}}, 200 * time.Millisecond},

	// Rings within a host: the end of a process is noticed only by those that check, and a process
	// that ends in the middle of a message holds up the messages of others.
	{"netshm", sim.Options{
		Death: sim.DeathSilent, KeepData: true, Rings: true, NoSources: true, HoleDelay: uint64(time.Millisecond), Attr: rings,
		Processes: true, DomainAttr: onlyAllocated,
	}, takes{sim.Interfaces: {Descriptors: 1, SharedMemory: 1 << 20}, sim.Endpoints: {Memory: 1 << 20}, sim.Allocated: {SharedMemory: 1}}, 0},

	// Copies between the memories of two processes of a host, which end in the middle when one of the
	// processes does.
	{"netcma", sim.Options{Keyless: true, Death: sim.DeathReset, Copies: true, Attr: copies, Processes: true, DomainAttr: onlyRegistered}, takes{}, 0},

	// Pairwise connections with credits, and a device for wireup; memory must be registered. A peer
	// that does not acknowledge is given up after 8 transmissions, one a second.
	{"netrc", sim.Options{
		ValueKeys: true, Devices: 3, OwnDomains: true, Credits: 64, Death: sim.DeathTimeout, Timeout: uint64(8 * time.Second),
		Attr: pairwise, DomainAttr: needMemh,
	}, takes{
		sim.Domains: {Descriptors: 1}, sim.Interfaces: {Descriptors: 2, LockedMemory: 1 << 20}, sim.Endpoints: {LockedMemory: 16 << 10},
		sim.Registered: {LockedMemory: 1}, sim.Allocated: {LockedMemory: 1},
	}, time.Second},
}

type takes = [sim.Allocated + 1]Limits

// netud is lossy datagrams under the state machine of ud_verbs.
const netud = "netud"

// transfers are the flags of remote memory access.
const transfers = uct.IfacePutShort | uct.IfacePutBcopy | uct.IfacePutZcopy | uct.IfaceGetBcopy | uct.IfaceGetZcopy |
	uct.IfaceAtomicDevice

func noAtomics(a *uct.IfaceAttr) { a.Atomic32, a.Atomic64 = uct.AtomicOps{}, uct.AtomicOps{} }

// stream leaves puts without copies, which are messages of the stream.
func stream(_ int, a *uct.IfaceAttr) {
	a.Flags &^= transfers &^ uct.IfacePutZcopy
	a.Flags |= uct.IfacePutAMOrder | uct.IfaceEpKeepalive
	noAtomics(a)
	a.Perf.Latency.C = 5e-6
}

// rings makes a device reach only processes of its host, by copies of the CPU.
func rings(_ int, a *uct.IfaceAttr) {
	a.Flags &^= uct.IfaceInterNode | uct.IfaceConnectToEP | uct.IfaceAMZcopy | uct.IfacePutZcopy | uct.IfaceGetZcopy |
		uct.IfaceAtomicDevice
	a.Flags |= uct.IfaceAtomicCPU
	a.AM.MaxZcopy, a.AM.MaxZcopyHdr = 0, 0
	a.Put.MaxZcopy, a.Get.MaxZcopy = 0, 0
	a.Perf.Latency.C = 80e-9
}

// copies leaves transfers without copies, within a host. There is no descriptor.
func copies(_ int, a *uct.IfaceAttr) {
	a.Flags &^= uct.IfaceInterNode | uct.IfaceConnectToEP | uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy | uct.IfaceCBSync |
		transfers&^(uct.IfacePutZcopy|uct.IfaceGetZcopy)
	a.AM = uct.AMLimits{}
	a.Events = uct.EventSendComp | uct.EventRecv
	noAtomics(a)
	a.Perf.Latency.C = 80e-9
	a.Perf.Overhead = 2e-6
}

// pairwise makes devices 0 and 2 ones whose endpoints are connected with one endpoint of the peer, and
// device 1 a slow one for messages to any peer.
func pairwise(device int, a *uct.IfaceAttr) {
	if device != 1 {
		a.Flags &^= uct.IfaceConnectToIface
		a.Flags |= uct.IfacePutAMOrder
		return
	}
	a.Flags &^= uct.IfaceConnectToEP | transfers
	noAtomics(a)
	a.Perf.Latency.C *= 100
	a.Perf.BandwidthDedicated /= 100
}

// onlyAllocated makes a domain give access to memory that it has allocated, and onlyRegistered to memory
// that others have.
func onlyAllocated(a *uct.MDAttr)  { a.Flags &^= uct.MDFlagRegister }
func onlyRegistered(a *uct.MDAttr) { a.Flags &^= uct.MDFlagAlloc }

// needMemh makes a domain require registered memory for transfers without copies.
func needMemh(a *uct.MDAttr) { a.Flags |= uct.MDFlagNeedMemh }

// managers are the connection managers, by their components.
var managers = map[string]struct {
	on      string // transport
	options sim.ConnOptions
}{
	// Like sockcm: a connection over tcp, whose request follows when the server's host has answered.
	"nettcp": {"nettcp", sim.ConnOptions{Device: "nettcp0", Timeout: uint64(127 * time.Second)}},

	// Like rdmacm: a request in the first datagram, with little private data.
	"netrdmacm": {"netrc", sim.ConnOptions{Device: "netrc0", MaxPrivate: 64, Early: true, Timeout: uint64(20 * time.Second)}},
}

func init() {
	for _, c := range characters {
		uct.Register(&component{c.name})
	}
	uct.Register(&component{netud})
	uct.Register(&component{"netrdmacm"})
}

// OpenConnManager implements uct.ConnManagerComponent.
func (c *component) OpenConnManager(w *uct.Worker, _ *config.Set) (uct.ConnManager, error) {
	m, ok := managers[c.name]
	if !ok || current == nil {
		return nil, ucs.ErrUnsupported
	}
	o := m.options
	o.HostAt = current.Net.placeOn
	return sim.OpenConnManager(current.Net.components[m.on], w, o)
}

// placeOn returns a place on the host with an address.
func (n *Net) placeOn(ip netip.Addr) *sim.Place {
	for _, p := range n.w.processes {
		if p.host.addr == ip {
			return p.place
		}
	}
	return nil
}

// Config returns a configuration that allows the transports of a list, and the connection managers that
// work with them.
func Config(transports string) (*ucp.Config, error) {
	c, err := ucp.ReadConfig("", "")
	if err == nil {
		err = c.Modify("TLS", transports)
	}
	if err == nil {
		err = c.Modify("SOCKADDR_TLS_PRIORITY", "netrdmacm,nettcp")
	}
	return c, err
}

// component is a registered component of which each world has its own.
type component struct{ name string }

// current is the world that exists, nil if there is none.
var current *World

func (c *component) of() uct.Component {
	if current == nil && c.name != netud {
		return sim.New(sim.Options{Name: c.name})
	}
	return current.Net.components[c.name]
}

// Name implements uct.Component.
func (c *component) Name() string { return c.name }

// Flags implements uct.Component.
func (c *component) Flags() uct.ComponentFlags {
	if managers[c.name].on != "" {
		return uct.ComponentFlagCM
	}
	return 0
}

// Transports implements uct.Component.
func (c *component) Transports() []string {
	if c.name == "netrdmacm" {
		return nil
	}
	return []string{c.name}
}

// MemoryDomains implements uct.Component.
func (c *component) MemoryDomains(s *config.Set) ([]uct.MDResource, error) {
	if c.name == "netrdmacm" {
		return nil, nil
	}
	if current == nil || current.process == nil {
		return nil, ucs.ErrNoDevice
	}
	return c.of().MemoryDomains(s)
}

// OpenMD implements uct.Component.
func (c *component) OpenMD(name string, s *config.Set) (uct.MemoryDomain, error) {
	return c.of().OpenMD(name, s)
}

// open makes the networks of the world.
func (n *Net) open() {
	n.components = make(map[string]uct.Component)
	n.ud = udsim.NewNetwork()
	taken := takes{sim.Domains: {Descriptors: 1}, sim.Interfaces: {Descriptors: 2, LockedMemory: 1 << 20}}
	n.components[netud] = udsim.New(udsim.Options{
		Name: netud, Network: n.ud, Medium: medium{n, &character{name: netud}}, Fate: n.fate,
		// A message whose sender has closed is given up when the connection is forgotten, because the
		// notice of its end can be lost. The end of a program waits longer than that.
		Linger: time.Minute,
		Locate: func() *sim.Place { return n.w.process.place },
		Claim: func(at *sim.Place, r sim.Resource, units int) error {
			return n.w.processes[at.Process-1].claim(taken[r], int64(units))
		},
	})
	for _, c := range characters {
		o := c.options
		o.Name, o.Network, o.Medium = c.name, sim.NewNetwork(), medium{n, c}
		o.Locate = func() *sim.Place { return n.w.process.place }
		o.Claim = func(at *sim.Place, r sim.Resource, units int) error {
			return n.w.processes[at.Process-1].claim(c.takes[r], int64(units))
		}
		o.Forge = func(from *sim.Place, id uct.AMID, data []byte) {
			if f := n.w.processes[from.Process-1].forge; f != nil {
				f(id, data)
			}
		}
		n.nets = append(n.nets, o.Network)
		n.components[c.name] = sim.New(o)
	}
}
