package sim

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Network connects ifaces. Any goroutine may call its methods, unless noted otherwise.
type Network struct {
	id uint64 // unique in the process

	mu            sync.Mutex
	last          uint64               // guarded by mu; last allocated number
	eps           int                  // guarded by mu; number of endpoints created
	ifaces        map[uint64]*iface    // guarded by mu
	endpointsByID map[uint64]*endpoint // guarded by mu; endpoints that can be connected pairwise
	places        map[*Place][]*iface  // guarded by mu; the ifaces at each place
	graves        map[uint64]*Place    // guarded by mu; places of the ifaces that are closed
	free          []*packet            // guarded by mu

	// Connection managers. Only the goroutine of the medium may use them.
	managers  []*connManager
	listeners map[netip.AddrPort]*connListener
	lastPort  uint16

	tap    Tap // see Tap
	tapped int // number of the last operation reported to tap
}

var networks atomic.Uint64

// NewNetwork makes an empty network.
func NewNetwork() *Network {
	return &Network{
		id: networks.Add(1), ifaces: make(map[uint64]*iface), endpointsByID: make(map[uint64]*endpoint),
		places: make(map[*Place][]*iface), graves: make(map[uint64]*Place),
	}
}

// Drop breaks all connections. The endpoints fail with err when their ifaces are progressed;
// messages in flight are lost.
func (n *Network) Drop(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, i := range n.sorted() {
		for _, e := range i.senders() {
			e.breakConnection(err)
		}
	}
}

// Readdress gives every iface a new address, like a transport that rebuilds its receive side.
// Endpoints that are created with an old address fail; existing endpoints continue to work.
// Only the goroutine that uses the ifaces may call Readdress.
func (n *Network) Readdress() {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.sorted()
	n.ifaces = make(map[uint64]*iface)
	for _, i := range old {
		n.last++
		i.id = n.last
		i.addr = binary.LittleEndian.AppendUint64(nil, i.id)
		n.ifaces[i.id] = i
	}
}

// Pending returns the number of messages that are sent and not yet delivered.
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

// number allocates a number that is unique on the network.
func (n *Network) number() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	return n.last
}
