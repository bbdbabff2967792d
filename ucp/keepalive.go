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

// keepalive finds out about peers that went without a word. Every
// UCX_KEEPALIVE_INTERVAL it asks for a number of endpoints in turn: the
// transport whether the peer's process lives, where the transport does not watch
// by itself, and in ErrModePeer the peer's worker whether the other end of the
// endpoint still exists (ucp_worker_do_ep_keepalive in src/ucp/core/ucp_worker.c).
// The question goes over the lane that the selection chose for it.
//
// Endpoints that are being closed are looked after like others: what they wait for
// may never come.
//
// In ErrModeNone C asks nobody. We ask the peer's worker there too once something
// has waited for a message of the peer for a whole interval, which nobody would
// ever send if it has closed its end: memory that is shared has no connection to
// break. What we ask about must be a number from a table, which are odd. A peer of
// C in ErrModeNone uses the address of its endpoint for that, cannot tell whether
// it is still one, and does not answer.
type keepalive struct {
	timer *event.Timer
	next  int // slot of the endpoint to go on with
}

// keepaliveFamily is the question whether peers are still there.
type keepaliveFamily struct{ noFamily }

func (keepaliveFamily) about() familyInfo { return familyInfo{name: "keepalive"} }

// opened looks after the endpoint's peer from now on.
func (keepaliveFamily) opened(ep *Endpoint) { ep.w.startKeepalive() }

// startKeepalive makes sure that the keepalive runs once there is an endpoint.
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

// keepsAlive reports whether peers are asked at all.
func (s *settings) keepsAlive() bool {
	return time.Duration(s.KeepaliveInterval) > 0 && s.KeepaliveEps > 0
}

// keepaliveRound looks at the next endpoints.
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
		k.timer = nil // the next endpoint tries again
	}
}

// keepalive asks for one endpoint. What is found out arrives like any failure.
func (ep *Endpoint) keepalive() {
	if ep.gone() != nil {
		return
	}
	waits := ep.w.ends.unanswered(ep) // what is found out may change that
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
			_ = c.Check(nil) // what it says now is also reported
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
	ep.state |= epChecking // one at a time: a peer may be stopped for long
	if ep.w.wireups.sendWireupBy(ep, checkMessage{}, proto.WireupEpCheck, ep.remoteID, ep.w.wireups.wireupAddress(ep)) != nil {
		ep.state &^= epChecking
	}
}

// patience is how many looks of the keepalive an acknowledgement may take.
const patience = 3

// unacknowledged looks at an endpoint that has answered. As long as it waits for the
// acknowledgement the peer may not have connected its ends, and questions to them would find
// that nobody is there: so early none is asked. If the lane that brought the answer is gone,
// and the peer has not said in all that time that it has it, it never will, and not each
// transport tells that nobody has connected the other end.
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

// unanswered reports whether something cannot end without a message of the peer.
func (ee *endpointEnds) unanswered(ep *Endpoint) bool {
	return ep.outstanding.head != nil || ep.rma != nil && !ep.rma.idle()
}

// checkMessage asks whether the peer's end exists.
type checkMessage struct{ wireupMessage }

func (checkMessage) about() protocolInfo { return protocolInfo{name: "keepalive"} }

// release lets the next one go.
func (checkMessage) release(r *Request) { r.ep.state &^= epChecking }
