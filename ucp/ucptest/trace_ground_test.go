//go:build linux

package ucptest

import (
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// grounds are the simulated transports of traces.
var grounds = map[string]transport{
	// Registered memory is accessed with keys.
	"keys": simulate("keys", sim.Options{}),

	// Memory needs no key: rendezvous can read and write it.
	"open": simulate("open", sim.Options{Keyless: true}),

	// The same on two devices; with registration; with writes only.
	"lanes": simulate("lanes", sim.Options{Keyless: true, Devices: 2}),
	"rdma":  simulate("rdma", sim.Options{ValueKeys: true, DomainAttr: needMemh}),
	"puts":  simulate("puts", sim.Options{Keyless: true, Attr: without(allGets, false)}),

	// Nothing has been sent when a call returns: short and copied messages too complete only in the
	// next round.
	"buffered": simulate("buffered", sim.Options{Keyless: true, Buffered: true, Latency: 1, ConnectDelay: 2}),

	// Lanes are connected pairwise, with wireup over another device.
	"pairs": simulate("pairs", sim.Options{Keyless: true, Devices: 2, Attr: pairwise}),

	// Transfers without copies require registration, which is not supported.
	"unregistered": simulate("unregistered", sim.Options{Keyless: true, DomainAttr: func(a *uct.MDAttr) {
		a.Flags = a.Flags&^uct.MDFlagRegister | uct.MDFlagNeedMemh
	}}),

	// The transport copies long pieces at once.
	"large": simulate("large", sim.Options{Attr: func(_ int, a *uct.IfaceAttr) {
		a.Put.MaxBcopy, a.Get.MaxBcopy = 256<<10, 256<<10
	}}),

	// Only messages are supported.
	"messages": simulate("messages", sim.Options{Attr: without(allPuts|allGets, true)}),

	// Connections report where they come from, and can be stopped.
	"placed": simulate("placed", sim.Options{Place: &sim.Place{IP: netip.MustParseAddr("192.0.2.1"), Process: 7}}),

	// Allocated memory can be mapped by peers.
	"mapped": simulateMapped("mapped"),
}

// mapping is a component whose domains can map each other's allocations, like shared memory. All of
// them are in this process, so the mapping is the memory itself.
type mapping struct {
	uct.Component
	allocated map[uct.MemHandle][]byte
}

// simulateMapped registers a simulated transport with such domains.
func simulateMapped(name string) transport {
	s := &simulated{net: sim.NewNetwork()}
	s.component = mapping{
		Component: sim.New(sim.Options{Name: name, Network: s.net, DomainAttr: func(a *uct.MDAttr) {
			a.Flags |= uct.MDFlagRkeyPtr
		}}),
		allocated: make(map[uct.MemHandle][]byte),
	}
	uct.Register(s.component)
	return transport{name: name, settings: []setting{{"TLS", name}}, sim: s}
}

// OpenMD implements uct.Component.
func (m mapping) OpenMD(name string, set *config.Set) (uct.MemoryDomain, error) {
	d, err := m.Component.OpenMD(name, set)
	return mappingDomain{d, m}, err
}

// mappingDomain is a domain of mapping.
type mappingDomain struct {
	uct.MemoryDomain
	of mapping
}

// Alloc implements uct.MemoryDomain.
func (d mappingDomain) Alloc(p uct.AllocParams) (uct.MemHandle, error) {
	h, err := d.MemoryDomain.Alloc(p)
	if err == nil {
		d.of.allocated[h] = h.Bytes()
	}
	return h, err
}

// Deregister implements uct.MemoryDomain.
func (d mappingDomain) Deregister(h uct.MemHandle) error {
	delete(d.of.allocated, h)
	return d.MemoryDomain.Deregister(h)
}

// RkeyPtr implements uct.MemoryDomain.
func (d mappingDomain) RkeyPtr(_ *uct.Rkey, addr uint64, n int) ([]byte, error) {
	for _, b := range d.of.allocated {
		if base := addressOf(b); addr >= base && addr+uint64(n) <= base+uint64(len(b)) {
			off := addr - base
			return b[off : off+uint64(n) : off+uint64(n)], nil
		}
	}
	return nil, ucs.ErrInvalidAddr
}
