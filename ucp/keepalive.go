package ucp

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// keepalive detects lost peers that send no notice. Every UCX_KEEPALIVE_INTERVAL it checks a number
// of endpoints in turn. It asks the transport whether the peer's process lives, if the transport
// does not watch the process by itself. In ErrModePeer it asks the peer's worker whether the other
// end of the endpoint still exists (ucp_worker_do_ep_keepalive in src/ucp/core/ucp_worker.c). The
// keepalive message goes over the lane that the selection chose for it.
//
// Endpoints that are being closed are checked like others, because what they wait for may never
// come.
//
// In ErrModeNone C UCX asks no worker. This library asks the peer's worker there too, once an
// operation has waited for a message of the peer for a whole interval. If the peer has closed its
// end, no such message would ever be sent, and shared memory has no connection that could break.
// The id in the keepalive message must come from a table of ids; such ids are odd. A C UCX peer in
// ErrModeNone uses the address of its endpoint as the id, cannot tell whether the id is still
// valid, and does not reply.
type keepalive struct {
	timer *event.Timer
	next  int // slot of the endpoint to continue with
}

// keepaliveFamily is the family of keepalive messages, which ask whether peers are still there.
type keepaliveFamily struct{ noFamily }

func (keepaliveFamily) about() familyInfo { return familyInfo{name: "keepalive"} }

// opened starts the keepalive for the endpoint's worker, if it does not run yet.
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
	waits := ep.w.ends.unanswered(ep) // read first, because the checks below may end operations
	long := waits && ep.state&epWaiting != 0
	ep.state &^= epWaiting
	if waits {
		ep.state |= epWaiting
	}
	early := ep.w.ends.unacknowledged(ep)
	if ep.gone() != nil {
		return
	}
	for _, k := range ep.cfg.lanes.checked {
		if early && ep.pair.lanes&(1<<k) != 0 {
			continue
		}
		if c, ok := ep.lane(k).(uct.Checker); ok {
			_ = c.Check(nil) // an error returned here is reported as a failure, too
		}
	}
	loopback := ep.peer == nil || ep.peer.uuid == ep.w.uuid
	ask := ep.cfg.lanes.keepalive != proto.NullLane || long && ep.remoteID&1 != 0
	if ep.gone() != nil || !ask || ep.remoteID == 0 || loopback || ep.state&epChecking != 0 {
		return
	}
	if ep.w.own.packAddress() != nil {
		return
	}
	ep.state |= epChecking // one message at a time: a peer may be stopped for long
	if ep.w.wireups.sendWireupBy(ep, checkMessage{}, proto.WireupEpCheck, ep.remoteID, ep.w.wireups.wireupAddress(ep)) != nil {
		ep.state &^= epChecking
	}
}

// patience is how many rounds of the keepalive an acknowledgement may take.
const patience = 3

// unacknowledged checks an endpoint that has sent a reply to a wireup request for pairwise lanes.
// early reports that the lanes must not be checked yet: while the endpoint waits for the
// acknowledgement, the peer may not have connected its ends, and a check would find no peer.
// unacknowledged fails the endpoint if the lane that carried the reply is gone and the peer has not
// acknowledged the reply within patience rounds. The acknowledgement will then never come, and not
// every transport reports that the other end was never connected.
func (ee *endpointEnds) unacknowledged(ep *Endpoint) (early bool) {
	p := ep.pair
	if p == nil || !p.waits || p.conn != nil {
		return false
	}
	if p.looked < patience {
		p.looked++
		return true
	}
	if k := ep.cfg.lanes.wireup; p.aux.uct == nil && p.lanes&(1<<k) != 0 {
		ep.fail(fmt.Errorf("the peer has not acknowledged the reply, and the connection that carried it is gone: %w", ucs.ErrEndpointTimeout))
	}
	return false
}

// unanswered reports whether the endpoint has an operation that cannot end without a message of the
// peer.
func (ee *endpointEnds) unanswered(ep *Endpoint) bool {
	return ep.outstanding.head != nil || ep.rma != nil && !ep.rma.idle()
}

// checkMessage carries the question whether the peer's end exists.
type checkMessage struct{ wireupMessage }

func (checkMessage) about() protocolInfo { return protocolInfo{name: "keepalive"} }

// release allows the next keepalive message.
func (checkMessage) release(r *Request) { r.ep.state &^= epChecking }
