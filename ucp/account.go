package ucp

import (
	"cmp"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp/internal/account"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// accountTable is the worker's table of accounts. It adds to account.Table the accounting of
// endpoints: an endpoint that a peer has opened is charged to the connection that opened it, and an
// endpoint that the application has made marks the peer's account as known to the application.
// Package account defines the rules.
type accountTable struct {
	account.Table
	w       *Worker
	unnamed source // for the messages of transports that do not tell connections apart

	unbound     int // endpoints of the application whose peers' accounts are not known
	unboundSeen int // value of unbound after the last look at all of them
	nextUnbound int // slot of the endpoint at which the next partial look begins

	rndvSource *source // connection that brought the rendezvous offer being handled
	evicting   bool    // an eviction is running: Request.finish defers the end of requests
}

var _ account.Host = (*accountTable)(nil)

// start initializes the table of a new worker with the limits from the settings.
func (at *accountTable) start() {
	at.unnamed.w = at.w
	s := &at.w.ctx.settings
	limits := account.Limits{
		Bytes:       s.MaxUnexpected.Int(account.AutoBytes()),
		Endpoints:   s.MaxUnexpEps,
		StopReplies: account.StopReplies,
		DropReplies: account.DropMultiple * account.StopReplies,
	}
	at.Open(at, limits, &at.unnamed.Holder, &at.unnamed)
}

// Wake implements account.Host: it makes the worker call Reclaim at the end of its next round of
// progress. Any goroutine may call it.
func (at *accountTable) Wake() {
	if !at.w.reclaimWanted.Swap(true) {
		at.w.due.Store(true)
		at.w.wake.Signal()
	}
}

// LogRefusal implements account.Host: it counts a refused request of a peer, and logs one a minute
// for each reason.
func (at *accountTable) LogRefusal(who *ledger.Account, reason ledger.Reason, err error) {
	w := at.w
	w.stats.Refused++
	if who.Refuse(reason) {
		w.ctx.log.Warn("refusing a peer's request", zap.String("worker", w.name), zap.Stringer("from", who.Source()), zap.Error(err))
	}
}

// Bind implements account.Host: it finds the accounts of the peers to which the application has
// made endpoints, and keeps them in Endpoint.charge. Bind is called only when a limit is reached,
// and by Worker.Peers.
func (at *accountTable) Bind() {
	w := at.w
	if at.unbound == 0 {
		return
	}
	look := func(ep *Endpoint) {
		if ep.life.EverHeld() && ep.life.Stage != life.Gone && (ep.charge == nil || ep.charge.boundTo == nil) {
			at.bindToLanes(ep)
		}
	}
	if at.unbound != at.unboundSeen {
		w.endpoints.Each(look)
		at.unboundSeen = at.unbound
		return
	}
	at.nextUnbound = w.endpoints.Some(at.nextUnbound, bindBatch, look)
}

// bindBatch is the number of endpoints that one call of Bind examines once Bind has examined all
// endpoints and has found no account for some of them.
const bindBatch = 64

// bindToLanes binds the endpoint to the account of the first of its lanes that knows the peer's
// connection.
func (at *accountTable) bindToLanes(ep *Endpoint) {
	for i := range ep.lanes {
		if l, ok := ep.lanes[i].uct.(uct.NetworkEndpoint); ok {
			if src := l.Source(); src != nil {
				at.bindAccount(ep, ledgerSource(src))
				return
			}
		}
	}
}

// bindAccount marks the account of a ledger source as known to the application, because the
// application has made the endpoint to it.
func (at *accountTable) bindAccount(ep *Endpoint, who ledger.Source) {
	if b := at.ensureCharge(ep); b.boundTo == nil && ep.life.Stage != life.Gone {
		b.boundTo = ledger.Open(who)
		b.boundTo.Add(ledger.Known, 1)
		ep.w.accounts.unbound--
	}
}

// unbindAccount undoes bindAccount at the end of the endpoint.
func (at *accountTable) unbindAccount(ep *Endpoint) {
	switch {
	case !ep.life.EverHeld():
	case ep.charge == nil || ep.charge.boundTo == nil:
		ep.w.accounts.unbound--
	default:
		ep.charge.boundTo.Add(ledger.Known, -1)
		ep.charge.boundTo.Close()
		ep.charge.boundTo = nil
	}
}

// endpointCharge holds the accounting of an endpoint. It is created when it is first needed.
type endpointCharge struct {
	ofSource list.Member[endpointCharge] // in the set of the endpoints opened on one connection (source.openings)
	ep       *Endpoint
	openedBy *source         // connection on which the peer opened it; nil if the application holds it
	age      uint64          // serial number of the endpoint among those that peers have opened
	boundTo  *ledger.Account // the account of a peer that the application knows by this endpoint
	answers  answerQueue
	replies  *replyCharge // nil until a reply is in flight after its call
}

// ensureCharge returns the endpointCharge of an endpoint, and creates it if there is none.
func (at *accountTable) ensureCharge(ep *Endpoint) *endpointCharge {
	if ep.charge == nil {
		ep.charge = &endpointCharge{ep: ep}
		ep.charge.ofSource.Value = ep.charge
	}
	return ep.charge
}

// openedBy returns the connection on which the peer opened the endpoint, or nil if the application
// holds the endpoint.
func (at *accountTable) openedBy(ep *Endpoint) *source {
	if ep.charge == nil {
		return nil
	}
	return ep.charge.openedBy
}

// chargeTo charges an endpoint that a peer has opened to the connection on which it was opened.
func (at *accountTable) chargeTo(ep *Endpoint, from *source) {
	b := at.ensureCharge(ep)
	b.openedBy = from
	ep.w.wireups.everOpened++
	b.age = ep.w.wireups.everOpened
	from.openings.Add(&b.ofSource)
	ep.w.wireups.unexpected++
	from.AddEndpoint()
}

// uncharge undoes chargeTo. It returns the connection that was charged, nil if there was none.
func (at *accountTable) uncharge(ep *Endpoint) *source {
	from := at.openedBy(ep)
	if from == nil {
		return nil
	}
	b := ep.charge
	b.ofSource.Remove()
	b.openedBy = nil
	ep.w.wireups.unexpected--
	from.SubEndpoint()
	return from
}

// A transport that has no room for another endpoint, for example because the process has reached
// its limit of memory mappings, calls uct.IfaceParams.Reclaim. The worker then closes endpoints
// that peers have opened: first all whose peers are gone, otherwise the oldest ones without
// operations in flight. Endpoints of the application stay.

// reclaimShare sets how many endpoints are closed at once when no peer is gone: one in
// reclaimShare, and one more. Finding them takes longer than closing them.
const reclaimShare = 64

// errReclaimed is the error of an endpoint that was closed to make room.
var errReclaimed = fmt.Errorf("ucp: closed to free an endpoint: peers have opened as many as the limit allows: %w", ucs.ErrExceedsLimit)

// reclaimEndpoints closes endpoints to make room, and reports whether it has closed any. If not, it
// asks the other workers of the process to close some, so that a later call of the transport may
// succeed.
func (at *accountTable) reclaimEndpoints() bool {
	if at.reclaimHere() {
		return true
	}
	at.AskForRoom()
	return false
}

// reclaimForOthers closes endpoints if another worker has asked for room.
func (at *accountTable) reclaimForOthers() {
	if at.RoomWanted() {
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
		if at.openedBy(ep) == nil || ep.held > 0 || ep.peer != nil && ep.peer.UUID() == w.wireups.opening {
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
		if p := at.openedBy(gone[0]).Account(); p.Ledger().Refuse(ledger.Evicted) {
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

// expendable reports whether the peer is gone (ended), and whether nothing is in flight that
// closing the endpoint would lose (quiet). quiet is also false if closing the endpoint would free
// no resources of a transport.
func (at *accountTable) expendable(ep *Endpoint) (ended, quiet bool) {
	const busy = epDraining | epChecking
	quiet = ep.life.Stage == life.Serving && ep.state&busy == 0 && !ep.handshake.Unanswered() && ep.flushes == 0 && ep.waiting.Empty() && ep.outstanding.Empty() &&
		(ep.rma == nil || ep.rma.idle()) && (ep.am == nil || ep.am.started.Empty() && ep.am.early.Empty()) &&
		(ep.stream == nil || ep.stream.unread == 0 && ep.stream.recvs.Empty() && ep.stream.sending == nil) &&
		ep.charge.answers.count == 0 && (ep.w.dispatching == nil || ep.w.dispatching.ep != ep) &&
		!hasRequestOf(ep, &ep.w.copying) && !hasRequestOf(ep, &ep.w.dispatched)
	some := false
	for k := range ep.lanes {
		r, ok := ep.lanes[k].uct.(uct.ProcessEndpoint)
		if !ok {
			continue
		}
		some = true
		ended = ended || r.Gone() != nil
		quiet = quiet && r.Idle()
	}
	return ended, quiet && some
}

// hasRequestOf reports whether a request of the endpoint ep is in a list.
func hasRequestOf(ep *Endpoint, l *list.List[Request]) bool {
	for n := l.Front(); n != nil; n = n.Next() {
		if n.Value.ep == ep {
			return true
		}
	}
	return false
}
