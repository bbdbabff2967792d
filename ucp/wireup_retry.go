package ucp

import (
	"errors"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// An address may name devices that the peer has no more, or that nothing reaches: who holds
// it asks there first, and hears nothing. Where nothing but that question was sent, and it is
// a question for lanes without which nothing can be, there is no harm in asking again by the
// other devices in the address. Of what was sent on lanes nobody knows what has arrived, so
// their end is that of the endpoint; C ends it in both cases.

// retryOtherDevices is told that an endpoint of a transport has failed. It reports whether the
// peer is asked by other devices of its address now.
func (ws *wireupState) retryOtherDevices(ep *Endpoint, ue uct.Endpoint, cause error) bool {
	if ep.pair == nil || ep.pair.conn != nil || ep.pair.waits || ep.remoteID != 0 || ep.err != nil || ep.needs&needLanes == 0 ||
		ep.life.Stage != life.Open || ep.state&epRequested == 0 || !errors.Is(cause, ucs.ErrEndpointTimeout) {
		return false
	}
	addr := ep.dest.address
	if !ws.excludeDevice(ep, addr, ws.entryOf(ep, ue), cause) {
		return false
	}
	ep.w.ends.purgeLanes(ep, ucs.ErrCanceled) // nothing but the question
	if ep.life.Stage != life.Open {
		return true // by a callback
	}
	ep.w.ends.closeLanes(ep, false)
	ep.state &^= epRequested | epResent | epResentTwice
	if err := ws.connectBy(ep, addr, laneRules{}); err != nil {
		ep.w.ctx.log.Debug("no other device reaches the peer", zap.String("endpoint", ep.describe()), zap.Error(err))
		return false
	}
	ep.w.ctx.log.Debug("wireup request goes over other devices", zap.String("endpoint", ep.describe()), zap.Error(cause))
	if err := ws.requestWireup(ep); err != nil {
		return false
	}
	if ep.pair == nil { // nobody has to agree to these lanes
		for r := ep.waiting.head; r != nil; r = r.next {
			r.lane = ep.amLane()
		}
		ep.w.rma.resolveKeys(ep)
		ep.resolveNeed(needLanes)
	}
	return true
}

// entryOf is the entry of the address that an endpoint of a transport leads to, -1 if none
// is known.
func (ws *wireupState) entryOf(ep *Endpoint, ue uct.Endpoint) int {
	if ep.pair.aux.uct == ue {
		return ep.pair.auxEntry
	}
	for k := range ep.lanes {
		if ep.lanes[k].uct == ue {
			return int(ep.pair.entries[k])
		}
	}
	return -1
}

// excludeDevice leaves out all ways to the device that an entry of the address is of, and
// reports whether there are others.
func (ws *wireupState) excludeDevice(ep *Endpoint, addr *proto.WorkerAddress, entry int, cause error) (others bool) {
	gone, _ := addr.Entry(entry)
	if gone == nil {
		return false
	}
	addr.Ifaces(func(n int, d *proto.AddressDevice, _ *proto.AddressIface) bool {
		if d != gone {
			others = true
			return true
		}
		for local := range ep.w.ifaces {
			ws.excludeDomain(ep, laneRoute{local, n}, cause)
		}
		return true
	})
	return others
}
