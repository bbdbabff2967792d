package ucp

import (
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs/event"
)

// keepalive detects lost peers that send no notice. Every UCX_KEEPALIVE_INTERVAL it checks a number
// of endpoints in turn. It asks the transport whether the peer's process lives, if the transport
// does not watch the process by itself. In ErrModePeer it asks the peer's worker whether the peer's
// endpoint still exists (ucp_worker_do_ep_keepalive in src/ucp/core/ucp_worker.c). The keepalive
// message goes over the lane that the selection chose for it, or like a request while the peer may not have
// connected its pairwise lanes.
//
// Endpoints that are being closed are checked like others, because what they wait for may never
// come.
//
// An endpoint that does not know the id of the peer's endpoint yet cannot ask for it. The reply that
// names the id may have been lost with a connection on which nothing of this endpoint was sent, so
// that no lane fails. After a whole interval without a reply the request is therefore repeated.
//
// In ErrModeNone C UCX does not ask the peer's worker. This library does, once an operation has
// waited for a message of the peer for a whole interval, or the peer is late with its acknowledgement of
// a reply. If the peer has closed its endpoint, such a message is never sent, and shared memory has no connection that could break. The id in the
// keepalive message must come from a table of ids; such ids are odd. A C UCX peer in ErrModeNone
// uses the address of its endpoint as the id, cannot tell whether the id is still valid, and does
// not reply.
type keepalive struct {
	timer *event.Timer
	next  int // slot, in Worker.endpoints, of the endpoint to be checked next
}

// keepaliveFamily is the family of keepalive messages, which detect lost peers.
type keepaliveFamily struct{ noFamily }

func (keepaliveFamily) about() familyInfo { return familyInfo{name: "keepalive"} }

// opened starts the keepalive of the endpoint's worker, if it is not running yet.
func (keepaliveFamily) opened(ep *Endpoint) { ep.w.startKeepalive() }

// startKeepalive starts the keepalive timer unless it runs, or the settings disable it.
func (w *Worker) startKeepalive() {
	k := &w.keep
	if k.timer != nil || !w.ctx.settings.keepsAlive() {
		return
	}
	var err error
	if k.timer, err = w.uctw.Timers().After(time.Duration(w.ctx.settings.KeepaliveInterval), w.keepaliveRound); err != nil {
		w.ctx.log.WarnOnce("", "no keepalive", zap.String("worker", w.name), zap.Error(err))
	}
}

// keepsAlive reports whether the settings enable the keepalive.
func (s *settings) keepsAlive() bool {
	return time.Duration(s.KeepaliveInterval) > 0 && s.KeepaliveEps > 0
}

// keepaliveRound checks the next endpoints, and restarts the timer if the worker still has
// endpoints.
func (w *Worker) keepaliveRound() {
	k := &w.keep
	k.next = w.endpoints.Some(k.next, w.ctx.settings.KeepaliveEps, (*Endpoint).keepalive)
	if w.endpoints.Len() == 0 {
		k.timer.Stop()
		k.timer = nil
		return
	}
	if err := k.timer.Reset(time.Duration(w.ctx.settings.KeepaliveInterval)); err != nil {
		w.ctx.log.WarnOnce("", "no keepalive", zap.String("worker", w.name), zap.Error(err))
		k.timer = nil // the next new endpoint starts the timer again
	}
}

// keepalive checks the peer of one endpoint. A loss that it finds is reported like any failure.
func (ep *Endpoint) keepalive() {
	if ep.gone() != nil {
		return
	}
	asks := ep.w.handshakes.mayHaveLostReply(ep)
	waits := asks || ep.w.ends.unanswered(ep) // read first, because the checks below may end operations
	long := waits && ep.state&epWaiting != 0
	ep.state &^= epWaiting
	if waits {
		ep.state |= epWaiting
	}
	early, ask := ep.w.handshakes.unacknowledged(ep)
	if ep.gone() != nil {
		return
	}
	for _, k := range ep.cfg.lanes.Checked {
		if early && ep.pair.Has(k) {
			continue
		}
		_ = ep.lane(k).Check(nil) // an error returned here is reported as a failure, too
	}
	ep.w.handshakes.checkAux(ep)
	if long && asks && ep.gone() == nil {
		ep.w.handshakes.repeatRequest(ep)
	}
	ask = ask || ep.cfg.lanes.Keepalive != proto.NullLane || long && ep.remoteID&1 != 0
	if ep.gone() != nil || !ask || ep.remoteID == 0 || ep.peer == nil || ep.state&epChecking != 0 {
		return
	}
	if ep.peer.UUID() == ep.w.uuid { // connected to this worker as to another (EndpointNoLoopback)
		if other := ep.w.endpoints.Get(uint64(ep.remoteID)); other == nil || other.err != nil {
			ep.report(life.Removed, errEndGone)
		}
		return
	}
	if early && ep.pair.Has(ep.w.handshakes.wireupLane(ep, proto.WireupEpCheck)) {
		return // the peer may not have connected the lane yet, and the message would end the endpoint
	}
	if ep.w.own.packAddress() != nil {
		return
	}
	ep.state |= epChecking // one message at a time: a peer may be stopped for long
	if ep.w.wireups.sendWireupBy(ep, checkMessage{}, proto.WireupEpCheck, ep.remoteID, ep.w.wireups.wireupAddress(ep)) != nil {
		ep.state &^= epChecking
	}
}

// unanswered reports whether the endpoint has an operation that waits for a message of the peer.
func (ee *endpointEnds) unanswered(ep *Endpoint) bool {
	return !ep.outstanding.Empty() || ep.rma != nil && !ep.rma.idle()
}

// checkMessage is the protocol of the keepalive message, which asks whether the peer's endpoint
// exists.
type checkMessage struct{ wireupMessage }

func (checkMessage) about() protocolInfo { return protocolInfo{name: "keepalive"} }

// release allows the next keepalive message.
func (checkMessage) release(r *Request) { r.ep.state &^= epChecking }
