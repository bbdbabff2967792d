//go:build linux

package verbstest

import (
	"fmt"
	"sync"
)

// Fabric is a network of devices that reach each other by their addresses. Any
// goroutine may use it and its devices: one lock has them all, so what happens in a
// network happens in one order.
type Fabric struct {
	mu      sync.Mutex
	kernels []*Kernel    // under mu, as they were added
	era     uint64       // under mu: rises with every change of ports and GIDs
	sched   scheduler    // under mu
	desk    desk         // under mu
	faults  faults       // under mu
	log     func(string) // under mu
}

// NewFabric returns a network without devices.
func NewFabric() *Fabric { return &Fabric{era: 1} }

// Add adds a device. It panics if there can be none as configured.
func (n *Fabric) Add(c Config) *Kernel {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := &Kernel{
		net: n, cfg: c.filled(len(n.kernels)), number: len(n.kernels), qps: make(map[uint32]*qp), mrs: make(map[uint32]*mr), mws: make(map[uint32]*mw),
		ahs: make(map[uint32]*ah), nextQPN: 0x11, nextKey: 2, nextAH: 1,
	}
	k.cfg.check()
	k.of = k.cfg.kind()
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

// Find is the device of a name, its own or that of its node, which for the n-th is
// uverbs and n-1; nil if there is none.
func (n *Fabric) Find(name string) *Kernel {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, k := range n.kernels {
		if name == k.cfg.Name || name == fmt.Sprintf("uverbs%d", i) {
			return k
		}
	}
	return nil
}

// SetHook has all messages from now on go by a hook; nil: no longer.
func (n *Fabric) SetHook(h Hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.hook = h
}

// Release lets everything go on that is held on its way, in the order in which it was
// sent.
func (n *Fabric) Release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.faults.packets {
		l.due = 0
	}
	n.faults.arrivals()
	for q := n.sched.aside.first; q != nil; q = q.next {
		q.trip.due = 0
	}
	n.kick()
}

// Held is how many messages are held on their way.
func (n *Fabric) Held() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := len(n.faults.packets)
	for q := n.sched.aside.first; q != nil; q = q.next {
		if q.stopped() {
			held++
		}
	}
	return held
}

// Counts are the messages since there is the network.
func (n *Fabric) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.faults.counts
}
