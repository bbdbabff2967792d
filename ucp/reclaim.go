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

// A transport that has no room for another endpoint, as when the process has as many
// mappings as it may, asks for some (uct.IfaceParams.Reclaim). Endpoints that peers have
// opened give way: first all whose peers are gone, then the oldest that nothing is
// under way on. Those of the application stay.

// reclaimShare is the part of the endpoints that gives way at once where all peers are
// there: to look for them takes longer than to close them.
const reclaimShare = 64

// errReclaimed is why an endpoint gave way.
var errReclaimed = fmt.Errorf("ucp: endpoints of peers take all the room: %w", ucs.ErrExceedsLimit)

// reclaim closes endpoints to make room, and reports whether it has closed any. What
// others hold is asked for, for the next time.
func (at *accountTable) reclaim() bool {
	if at.reclaimHere() {
		return true
	}
	at.askSiblingsForRoom()
	return false
}

// reclaimForOthers closes some if another worker has asked for that.
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

// expendable reports whether the peer is gone, or whether nothing is under way on the
// endpoint that would be missed. Closing it has to give room.
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
