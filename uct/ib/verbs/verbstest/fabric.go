//go:build linux

package verbstest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Fabric is a network of devices that reach each other by their addresses. Any goroutine may use it
// and its devices. One lock guards them all, so everything in a network happens in one order.
type Fabric struct {
	mu              sync.Mutex
	kernels         []*Kernel    // under mu, in the order of Add
	topologyVersion uint64       // under mu: incremented by every change of ports and GIDs
	sched           scheduler    // under mu
	scratch         scratch      // under mu
	faults          faults       // under mu
	log             func(string) // under mu
}

// NewFabric returns a network without devices.
func NewFabric() *Fabric { return &Fabric{topologyVersion: 1} }

// Add adds a device. It panics if the configuration is invalid.
func (n *Fabric) Add(c Config) *Kernel {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := &Kernel{
		net: n, cfg: c.filled(len(n.kernels)), number: len(n.kernels), qps: make(map[uint32]*qp), mrs: make(map[uint32]*mr), mws: make(map[uint32]*mw),
		ahs: make(map[uint32]*ah), nextQPN: 0x11, nextKey: 2, nextAH: 1,
	}
	k.cfg.check()
	k.kind = k.cfg.kind()
	for i, p := range k.cfg.Ports {
		k.ports = append(k.ports, &port{Port: p, k: k, num: uint8(i + 1), active: !p.Down})
	}
	n.kernels = append(n.kernels, k)
	n.topologyVersion++
	return k
}

// Devices returns the devices of the network in the order of Add.
func (n *Fabric) Devices() []*Kernel {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*Kernel(nil), n.kernels...)
}

// Find returns the device with this name, nil if there is none. The name is that of the device, or
// that of its device node: uverbs0 for the first device, uverbs1 for the second.
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

// SetHook installs a hook that decides the fate of all messages from now on; nil removes it.
func (n *Fabric) SetHook(h Hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.hook = h
}

// Release lets all held messages continue: first the datagrams, then the requests of connected queue
// pairs, which are executed when the devices execute work requests (Work). Each of the two kinds
// continues in the order in which the messages were sent.
func (n *Fabric) Release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.faults.packets {
		l.due = 0
	}
	n.faults.arrivals()
	held := n.heldRequests()
	slices.SortFunc(held, func(a, b *qp) int { return cmp.Compare(a.sendState.number, b.sendState.number) })
	for _, q := range held {
		q.sendState.due = 0
		q.leave()
		n.sched.waiting.add(q)
	}
	n.retryWaiting()
}

// Held returns the number of held messages.
func (n *Fabric) Held() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.faults.packets) + len(n.heldRequests())
}

// heldRequests returns the queue pairs whose request is held. They may be in either list of the
// scheduler.
func (n *Fabric) heldRequests() (held []*qp) {
	for _, k := range n.kernels {
		for _, q := range k.order {
			if q.isHeld() {
				held = append(held, q)
			}
		}
	}
	return held
}

// Counts returns the message counts since the network was made.
func (n *Fabric) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.faults.counts
}
