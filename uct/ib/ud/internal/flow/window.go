//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// The packets in flight of an endpoint are a list of nodes, in order of their numbers. All
// endpoints of an interface share one pool of nodes, so an idle endpoint has none.

const none = -1

// node is one packet in flight, or the mark of a flush between two packets.
type node struct {
	next  int32
	slot  int32 // slot of the layer above that holds the message
	psn   wire.PSN
	am    uint8
	flags nodeFlags
}

// nodeFlags are the kind of a node and its properties.
type nodeFlags uint8

const (
	nodeMessage nodeFlags = iota
	nodeMark              // of a flush: no packet; its number is that of the packet before
	nodeCREQ              // this and the next two: no slot, the packet is built for each transmission
	nodeCREP
	nodeKeepalive
	nodeKind nodeFlags = 7 // mask of the kinds

	nodeLarge nodeFlags = 1 << 6 // retransmitted only to a lively peer
	nodeAsked nodeFlags = 1 << 7 // an acknowledgement was asked for
)

type pool struct {
	nodes []node
	free  int32
}

func (p *pool) at(i int32) *node { return &p.nodes[i] }

func (p *pool) take() int32 {
	i := p.free
	if i == none {
		p.nodes = append(p.nodes, node{})
		return int32(len(p.nodes) - 1)
	}
	p.free = p.nodes[i].next
	return i
}

func (p *pool) give(i int32) {
	p.nodes[i].next = p.free
	p.free = i
}

// push adds a packet in flight, with the next number.
func (e *Endpoint) push(slot int32, am uint8, f nodeFlags) {
	e.link(node{next: none, slot: slot, psn: e.psn, am: am, flags: f})
	e.psn++
	e.every = e.it.tick
}

// mark adds a flush mark after the packet with number at.
func (e *Endpoint) mark(slot int32, at wire.PSN) {
	e.link(node{next: none, slot: slot, psn: at, flags: nodeMark | nodeAsked})
}

func (e *Endpoint) link(n node) {
	p := &e.it.nodes
	i := p.take()
	p.nodes[i] = n
	if e.last == none {
		e.first = i
		e.sent = e.it.now
	} else {
		p.nodes[e.last].next = i
	}
	e.last = i
	if e.slot == none {
		e.start()
	}
}

// ask reports whether the next packet asks for an acknowledgement. It does at a quarter of the
// window, at its end, and if a probe is owed anyway (uct_ud_ep_req_ack of ud_ep.h).
func (e *Endpoint) ask() bool {
	return e.psn-e.acked == (e.max-e.acked)>>2 || e.psn+1 == e.max || e.owed&oweProbe != 0
}

// release gives back the slots of acknowledged packets.
func (e *Endpoint) release() {
	p := &e.it.nodes
	for e.first != none && !p.at(e.first).psn.After(e.acked) {
		n := *p.at(e.first)
		p.give(e.first)
		if e.first = n.next; e.first == none {
			e.last = none
		}
		if n.flags&nodeKind <= nodeMark {
			e.it.port.Done(e, n.slot, nil) // may close the endpoint, or send
		}
	}
	e.oweNotice()
}

// oweNotice requests that Dispatch notifies the peer of the close, once the peer has received everything
// that was sent before the endpoint was closed.
func (e *Endpoint) oweNotice() {
	if e.state&(closed|connected|parted) == closed|connected && e.Idle() {
		e.state |= parted
		e.owe(oweEnd)
	}
}

// Slots iterates over the slots that the endpoint holds, in order.
func (e *Endpoint) Slots(yield func(slot int32) bool) {
	p := &e.it.nodes
	for i := e.first; i != none; i = p.at(i).next {
		if n := p.at(i); n.flags&nodeKind <= nodeMark && !yield(n.slot) {
			return
		}
	}
}

// purge gives back all slots, with err, and drops the owed control packets.
func (e *Endpoint) purge(err error) {
	p := &e.it.nodes
	e.disown()
	e.acked = e.psn - 1
	e.max = e.acked + e.cwnd
	e.re, e.reMax, e.pos = e.psn, e.acked, none
	for e.first != none {
		n := *p.at(e.first)
		p.give(e.first)
		if e.first = n.next; e.first == none {
			e.last = none
		}
		if n.flags&nodeKind <= nodeMark {
			e.it.port.Done(e, n.slot, err)
		}
	}
}

// shrink halves the window after a loss. Packets in flight beyond the window are not retransmitted,
// and no new packets are sent, until the peer acknowledges (uct_ud_ep_ca_drop).
func (e *Endpoint) shrink() {
	e.cwnd = max(e.cwnd/2, MinWindow)
	if e.max = e.acked + e.cwnd; e.max.After(e.psn) {
		e.max = e.psn
	}
}
