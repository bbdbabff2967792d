package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// pairing is what an endpoint has besides some of whose lanes are connected pairwise.
type pairing struct {
	lanes    uint64      // those that are
	joined   uint64      // of these, those whose other end is known
	kept     uint64      // of these, those that were connected before the agreement that is under way
	entries  []uint8     // for each lane, the entry of the address it was chosen toward
	aux      lane        // carries wireup messages until the lanes do; uct is nil if there is none
	auxEntry int         // of the address that it leads to
	waits    bool        // has answered, and waits for the acknowledgement
	looked   uint8       // how often the keepalive has found it waiting, since the last change
	conn     *connection // of an endpoint that a connection manager has made, nil for others
}

// number is what peers call a lane: behind a connection manager's, which is lane 0 there.
func (p *pairing) number(lane int) uint8 {
	if p.conn != nil {
		lane++
	}
	return uint8(lane)
}

// conn returns what the endpoint has that a connection manager has made, nil for others.
func (ep *Endpoint) conn() *connection {
	if ep.pair == nil {
		return nil
	}
	return ep.pair.conn
}

// auxNumber stands for the auxiliary lane among the numbers of lanes.
const auxNumber = proto.NullLane - 1

// auxLane is lane for numbers that no lane has.
func (ep *Endpoint) auxLane(k uint8) uct.Endpoint {
	if p := ep.pair; p != nil && k == auxNumber && p.aux.uct != nil {
		return p.aux.uct
	}
	return refuse{}
}

// auxMaxMessage is maxMessage for those.
func (ep *Endpoint) auxMaxMessage(k uint8) int {
	if p := ep.pair; p != nil && k == auxNumber && p.aux.uct != nil {
		return p.aux.iface.attr.AM.MaxBcopy
	}
	return 0
}

// unpair is told that the lanes are closed.
func (ep *Endpoint) unpair() {
	ep.dropAux()
	if p := ep.pair; p != nil && p.conn != nil {
		*p = pairing{conn: p.conn}
		return
	}
	ep.pair = nil
}

// auxLost is told that an endpoint of a transport has failed. It reports whether that does
// not matter: a peer that has got the answer closes what it has no more use for, and its
// acknowledgement comes over another lane, perhaps with messages that are here already.
// The lanes are asked whether it is there.
func (ep *Endpoint) auxLost(ue uct.Endpoint) bool {
	p := ep.pair
	if p == nil || !p.waits || p.aux.uct != ue {
		return false
	}
	ep.dropAux()
	p.looked = 0
	if p.conn != nil {
		return true
	}
	for k := range ep.lanes {
		if c, ok := ep.lanes[k].uct.(uct.Checker); ok && p.joined&(1<<k) != 0 {
			_ = c.Check(nil) // what it finds arrives as a failure
		}
	}
	return true
}

// dropAux closes the auxiliary lane, over which nobody will be told anything any more.
func (ep *Endpoint) dropAux() {
	p := ep.pair
	if p == nil || p.aux.uct == nil {
		return
	}
	ue := p.aux.uct
	ue.PendingPurge(func(p *uct.Pending) {
		if h, ok := p.Owner.(*hooks); ok {
			(*Request)(h).abort(ucs.ErrCanceled)
		}
	})
	p.aux = lane{}
	ue.Close()
}
