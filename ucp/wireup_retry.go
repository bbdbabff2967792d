package ucp

import (
	"errors"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// An address may name devices that the peer no longer has, or that cannot be reached from here. A
// wireup request sent to such a device gets no reply. If nothing but that request was sent, and the
// request is for pairwise lanes, without which no operation can start, the worker safely repeats
// the request over the other devices in the address. Once data was sent on lanes, the worker cannot
// know what has arrived, so the loss of a lane ends the endpoint. C UCX ends the endpoint in both
// cases.

// retryOtherDevices handles the failure of a lane, whose transport endpoint is ue. It reports
// whether the wireup request was repeated over other devices of the peer's address.
func (ws *wireupState) retryOtherDevices(ep *Endpoint, ue uct.Endpoint, cause error) bool {
	if ep.pair == nil || ep.pair.conn != nil || ep.pair.waits || ep.remoteID != 0 || ep.err != nil || ep.needs&needLanes == 0 ||
		ep.life.Stage != life.Open || ep.state&epRequested == 0 || !errors.Is(cause, ucs.ErrEndpointTimeout) {
		return false
	}
	addr := ep.dest.address
	if !ws.excludeDevice(ep, addr, ws.entryOf(ep, ue), cause) {
		return false
	}
	ep.w.ends.purgeLanes(ep, ucs.ErrCanceled) // only the wireup request is queued
	if ep.life.Stage != life.Open {
		return true // a callback has closed the endpoint
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
	if ep.pair == nil { // these lanes need no agreement with the peer
		for r := ep.waiting.head; r != nil; r = r.next {
			r.lane = ep.amLane()
		}
		ep.w.rma.resolveKeys(ep)
		ep.resolveNeed(needLanes)
	}
	return true
}

// entryOf returns the entry of the peer's address that a transport endpoint leads to, -1 if none is
// known.
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

// excludeDevice excludes all lanes to the device of an address entry from the choice of lanes. It
// reports whether the address names other devices.
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
