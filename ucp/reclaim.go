package ucp

import (
	"cmp"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// A transport that has no room for another endpoint, for example because the process has as many
// mappings as it may have, asks for room (uct.IfaceParams.Reclaim). The worker then closes
// endpoints that peers have opened: first all whose peers are gone, otherwise the oldest ones
// without operations in flight. Endpoints of the application stay.

// reclaimShare sets how many endpoints are closed at once when no peer is gone: one in
// reclaimShare, and one more. To look for them takes longer than to close them.
const reclaimShare = 64

// errReclaimed is the error of an endpoint that was closed to make room.
var errReclaimed = fmt.Errorf("ucp: endpoints of peers take all the room: %w", ucs.ErrExceedsLimit)

// reclaim closes endpoints to make room, and reports whether it has closed any. If not, it asks
// the other workers of the process to close some, which gives room to a later call.
func (at *accountTable) reclaim() bool {
	if at.reclaimHere() {
		return true
	}
	at.askSiblingsForRoom()
	return false
}

// reclaimForOthers closes endpoints if another worker has asked for room.
func (at *accountTable) reclaimForOthers() {
	if at.roomWanted.Swap(false) {
		at.reclaimHere()
	}
}

func (at *accountTable) reclaimHere() bool {
	w := at.w
	if w.closed {
		return false
	}
	var gone, idle []*Endpoint
	number := 0
	w.endpoints.Each(func(ep *Endpoint) {
		if at.openedBy(ep) == nil || ep.held > 0 || ep.peer != nil && ep.peer.uuid == w.wireups.opening {
			return
		}
		number++
		switch ended, quiet := at.expendable(ep); {
		case ended:
			gone = append(gone, ep)
		case quiet:
			idle = append(idle, ep)
		}
	})
	if gone == nil && idle != nil {
		slices.SortFunc(idle, func(a, b *Endpoint) int { return cmp.Compare(a.charge.age, b.charge.age) })
		gone = idle[:min(len(idle), 1+number/reclaimShare)]
		if p := at.openedBy(gone[0]).account(); p.ledger.Refuse(ledger.Evicted) {
			w.ctx.log.Warn("closing the oldest idle endpoints of peers to make room", zap.String("worker", w.name),
				zap.Int("closed", len(gone)), zap.Int("of", number), zap.Error(errReclaimed))
		}
	}
	evicting := at.evicting
	at.evicting = true
	for _, ep := range gone {
		ep.report(life.Evict, errReclaimed)
	}
	at.evicting = evicting
	return gone != nil
}

// expendable reports whether the peer is gone (ended), and whether the endpoint has nothing in
// flight that would be missed (quiet). quiet is false if closing the endpoint would give no room.
func (at *accountTable) expendable(ep *Endpoint) (ended, quiet bool) {
	const busy = epRequested | epDraining | epChecking
	quiet = ep.life.Stage == life.Serving && ep.state&busy == 0 && ep.flushes == 0 && ep.waiting.head == nil && ep.outstanding.head == nil &&
		(ep.rma == nil || ep.rma.idle()) && (ep.am == nil || ep.am.started.head == nil && ep.am.early.head == nil) &&
		(ep.stream == nil || ep.stream.unread == 0 && ep.stream.recvs.head == nil && ep.stream.sending == nil) &&
		ep.charge.answers.count == 0 && (ep.w.dispatching == nil || ep.w.dispatching.ep != ep) &&
		!ep.w.copying.has(ep) && !ep.w.dispatched.has(ep)
	some := false
	for k := range ep.lanes {
		r, ok := ep.lanes[k].uct.(uct.Reclaimable)
		if !ok {
			continue
		}
		some = true
		ended = ended || r.Gone() != nil
		quiet = quiet && r.Idle()
	}
	return ended, quiet && some
}

// has reports whether a request of an endpoint is in the list.
func (l *requestList) has(ep *Endpoint) bool {
	for r := l.head; r != nil; r = r.next {
		if r.ep == ep {
			return true
		}
	}
	return false
}
