package ucp

import (
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/uct"
)

// claim makes an endpoint that a peer has opened the user's, for its transports, too.
func (ep *Endpoint) claim() {
	ep.report(life.Claim, nil)
	for i := range ep.lanes {
		if c, ok := ep.lanes[i].uct.(uct.Claimer); ok {
			c.Claim()
		}
	}
	for _, f := range ep.w.families {
		f.claimed(ep)
	}
}

// widen gives an endpoint that the peer has opened the lanes that its whole address
// leads to: requests name only what is needed, and not all of that is believed. It
// keeps its id and the peer's. While something is on its way it keeps its lanes, too, and
// those that were agreed on with the peer anyway.
func (ep *Endpoint) widen(addr *proto.WorkerAddress) {
	if ep.pair != nil || slices.Equal(entriesOf(addr), entriesOf(ep.where.address)) || !ep.idle() {
		return
	}
	lanes, ue, cfg, where, refused, process := ep.lanes, ep.ue, ep.cfg, ep.where, ep.refused(), ep.process
	ep.setRefused(nil)
	ep.process = 0
	if err := ep.connect(addr); err != nil {
		ep.w.ctx.log.Debug("endpoint keeps the lanes that its peer's request had", zap.String("worker", ep.w.name), zap.Error(err))
		ep.lanes, ep.ue, ep.cfg, ep.where, ep.process = lanes, ue, cfg, where, process
		ep.setRefused(refused)
		return
	}
	ep.state &^= epAstray // memory is opened to the whole address now
	for i := range lanes {
		lanes[i].uct.Close()
	}
	ep.open()
}

// idle reports whether nothing of the endpoint is on its way.
func (ep *Endpoint) idle() bool {
	const busy = epRequested | epDraining | epChecking
	if ep.usable() != nil || ep.state&busy != 0 || ep.waiting.head != nil || ep.outstanding.head != nil || ep.rma != nil ||
		ep.w.copying.head != nil || ep.w.dispatched.head != nil || ep.w.dispatching != nil {
		return false
	}
	for i := range ep.lanes {
		if ep.lanes[i].uct.Flush(uct.FlushLocal, nil) != nil {
			return false
		}
	}
	return true
}
