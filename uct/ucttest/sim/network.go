package sim

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// Network is where ifaces find each other. Its methods may be called from any
// goroutine.
type Network struct {
	id uint64 // unique in the process

	mu     sync.Mutex
	last   uint64               // guarded by mu; numbers handed out
	eps    int                  // guarded by mu; endpoints made
	ifaces map[uint64]*iface    // guarded by mu
	ends   map[uint64]*endpoint // guarded by mu; those that can be connected pairwise
	free   []*packet            // guarded by mu

	tap    Tap // see Tap
	tapped int // numbers given to its events
}

var networks atomic.Uint64

// NewNetwork makes an empty network.
func NewNetwork() *Network {
	return &Network{id: networks.Add(1), ifaces: make(map[uint64]*iface), ends: make(map[uint64]*endpoint)}
}

// Drop breaks all connections. The endpoints fail with err when their ifaces
// are progressed; messages on their way are lost.
func (n *Network) Drop(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, i := range n.ifaces {
		for e := range i.incoming {
			e.lose(err)
		}
	}
}

// Readdress gives every iface a new address, as a transport does that had to
// rebuild its receive side. Endpoints that are made with an old one fail; those
// that exist go on. Only the goroutine that uses the ifaces may call it.
func (n *Network) Readdress() {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.ifaces
	n.ifaces = make(map[uint64]*iface)
	for _, i := range old {
		n.last++
		i.id = n.last
		i.addr = binary.LittleEndian.AppendUint64(nil, i.id)
		n.ifaces[i.id] = i
	}
}

// Pending returns the number of messages that have been sent and not yet been
// delivered.
func (n *Network) Pending() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, i := range n.ifaces {
		for _, p := range i.inbox {
			if !p.last {
				count++
			}
		}
	}
	return count
}

// number hands out a number that is unique on the network.
func (n *Network) number() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	return n.last
}
