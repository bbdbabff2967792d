package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// pairing is what an endpoint has besides some of whose lanes are connected pairwise.
type pairing struct {
	lanes   uint64  // those that are
	joined  uint64  // of these, those whose other end is known
	entries []uint8 // for each lane, the entry of the address it was chosen toward
	aux     lane    // carries wireup messages until the lanes do; uct is nil if there is none
	waits   bool    // has answered, and waits for the acknowledgement
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
	ep.pair = nil
}

// dropAux closes the auxiliary lane. What was sent over it has been answered.
func (ep *Endpoint) dropAux() {
	if p := ep.pair; p != nil && p.aux.uct != nil {
		ue := p.aux.uct
		p.aux = lane{}
		ue.Close()
	}
}
