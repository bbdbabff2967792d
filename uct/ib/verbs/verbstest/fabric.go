//go:build linux

package verbstest

import "sync"

// Fabric is a network of devices that reach each other by their addresses. Any
// goroutine may use it and its devices: one lock has them all, so what happens in a
// network happens in one order.
type Fabric struct {
	mu      sync.Mutex
	kernels []*Kernel // under mu, as they were added
	era     uint64    // under mu: rises with every change of ports and GIDs
	sched   scheduler // under mu
	desk    desk      // under mu
}

// NewFabric returns a network without devices.
func NewFabric() *Fabric { return &Fabric{era: 1} }

// Add adds a device. It panics if there can be none as configured.
func (n *Fabric) Add(c Config) *Kernel {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := &Kernel{
		net: n, cfg: c.filled(len(n.kernels)), qps: make(map[uint32]*qp), mrs: make(map[uint32]*mr), mws: make(map[uint32]*mw),
		ahs: make(map[uint32]*ah), nextQPN: 0x11, nextKey: 2, nextAH: 1, nextOff: 0x1000,
	}
	k.cfg.check()
	for i, p := range k.cfg.Ports {
		k.ports = append(k.ports, &port{Port: p, k: k, num: uint8(i + 1), active: !p.Down})
	}
	n.kernels = append(n.kernels, k)
	n.era++
	return k
}

// Devices are the devices of the network, as they were added.
func (n *Fabric) Devices() []*Kernel {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*Kernel(nil), n.kernels...)
}

// Progress tries everything again that waits, at all devices.
func (n *Fabric) Progress() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runAll()
}
