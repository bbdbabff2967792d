package ucp

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp/internal/account"
	"github.com/ucx-go/ucx/ucp/internal/admit"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// source is a connection, with the resources that it makes the worker hold: messages without a
// receive, messages that are not complete, endpoints toward the peer, answers and replies that the
// peer does not read. When a limit is reached the source that holds most is evicted (package
// account). When a connection ends, no receive waits forever for the rest of the connection's
// messages. The resources are in lists of the source, so that the time to drop them is proportional
// to their number.
type source struct {
	account.Holder

	w               *Worker
	uct             *uct.Source      // nil for an ended or unidentified connection
	cause           error            // error that the connection ended with, if it failed and the transport knows the error
	rateLimited     bool             // the peer sends requests too often; reading pauses for a while
	certificateRead bool             // whether peerCertificate was determined
	checked         bool             // the source is in eagerState.checked
	stoppedStreams  int32            // streams that the application does not read; the connection is not read while there are any
	deferred        *deferredRequest // a deferred request; the connection is not read until the request is handled

	messages        messageList
	actives         list.Set[AMMessage] // active messages in queues
	fragments       list.List[assembly]
	streams         list.Set[stream]         // the streams with unread bytes that are charged to the source
	openings        list.Set[endpointCharge] // the endpoints opened by the peer
	owner           identity.Owner[*peerEnd] // the peer that the connection belongs to
	proof           admit.Proof              // the last proof of the token
	peerCertificate *admit.Certificate       // what the peer has proved, nil if nothing or not determined
}

var (
	_ uct.SourceUser  = (*source)(nil)
	_ account.Owner   = (*source)(nil)
	_ identity.Source = (*source)(nil)
)

// sourceOf returns the source of a message, and creates it if there is none.
func (at *accountTable) sourceOf(src *uct.Source) *source {
	if src == nil {
		return &at.unnamed
	}
	if s, ok := src.User.(*source); ok {
		return s
	}
	return at.newSource(src)
}

func (at *accountTable) newSource(src *uct.Source) *source {
	s := &source{w: at.w, uct: src}
	src.User = s
	at.Register(&s.Holder, s)
	return s
}

// FindAccount attaches the source to the account of its peer. For a connection within the machine
// the kernel has to be asked for the user of the peer.
func (s *source) FindAccount() *account.Account {
	at := &s.w.accounts
	if s.uct == nil { // the connection is over, and has no account
		return at.unnamed.Account()
	}
	return at.Attach(&s.Holder, ledgerSource(s.uct))
}

// ledgerSource returns the ledger source that is charged for a connection, by what the kernel knows
// of the peer. Transports that cannot identify their peers share one account, ledger.Shared.
func ledgerSource(src *uct.Source) ledger.Source {
	l, ok := src.Owner.(uct.Connection)
	if !ok {
		return ledger.Shared
	}
	info, uid := l.SourceInfo(), -1
	if info.Local && info.User.Known {
		uid = info.User.UID
	}
	return ledger.SourceOf(info.Addr.Addr(), uid)
}

// locator returns the connection as a uct.Connection, nil if the transport does not know its
// peer.
func (s *source) locator() uct.Connection {
	if s.uct == nil {
		return nil
	}
	l, _ := s.uct.Owner.(uct.Connection)
	return l
}

// SourceGone implements uct.SourceUser. The resources of the connection stay charged, so that a
// peer gains nothing by closing the connection.
func (s *source) SourceGone() {
	s.cause = s.uct.Err()
	s.uct, s.stoppedStreams = nil, 0
	s.owner.SetEnded(s)
	s.SetEnded()
	for _, f := range s.w.families {
		f.sourceGone(s)
	}
	s.Settle()
}

// Evict drops the connection and frees what the connection made the worker hold.
func (s *source) Evict(reason error) {
	w := s.w
	if a := s.Account().Ledger(); a.Refuse(ledger.Evicted) {
		w.ctx.log.Warn("dropping the connection that holds the most memory or endpoints", zap.String("worker", w.name), zap.Stringer("from", a.Source()),
			zap.Int("bytes", s.Held()), zap.Int("endpoints", s.Opened()), zap.Error(reason))
	}
	w.stats.Evicted++
	evicting := w.accounts.evicting
	w.accounts.evicting = true
	for _, f := range w.families {
		f.evict(s, reason)
	}
	if s.uct != nil {
		s.uct.Drop(reason)
	}
	w.accounts.evicting = evicting
}

// ReadOn resumes reading the connection, unless another reason to pause it remains.
func (s *source) ReadOn() {
	if s.uct == nil || s.Paused() || s.rateLimited || s.deferred != nil || s.stoppedStreams > 0 {
		return
	}
	if p, ok := s.uct.Owner.(uct.Connection); ok {
		p.ResumeSource()
	}
}

// Messages that name a request or an endpoint act on it only if they come from its peer, as far
// as that can be determined (identity.Owner). Ids cannot be guessed, but a process that has seen an
// id could use it.

// bindPeer records that a wireup message of peer p came on the connection. If the connection
// belongs to no peer yet, it belongs to p from now on.
func (s *source) bindPeer(p *peer) {
	if s.uct != nil { // messages in memory of this process do not say which process wrote them
		s.owner.Bind(&s.w.peers.Table, p, s)
	}
}

// belongsToOther reports whether the connection is known to belong to another peer: one with
// another uuid, or one with the same uuid that the application knows by another address.
func (s *source) belongsToOther(p *peer) bool { return s.uct != nil && s.owner.IsOther(p) }

// spoofed reports whether a message does not come from the endpoint's peer, and counts such
// messages. In the usual case it costs a comparison. A connection that is known to belong to a
// worker with another uuid is dropped for such a message: only the peer gets the ids of its
// endpoints and requests, and ids are not reused, so that an honest worker never sends the id of
// another. Late messages name ids that no longer exist, and are dropped before this check.
func (ad *admission) spoofed(src *uct.Source, ep *Endpoint) bool {
	if src == nil {
		return false
	}
	if s, ok := src.User.(*source); ok && s.owner.Is(ep.peer) {
		return false
	}
	return ad.spoofedSlow(src, ep)
}

//go:noinline
func (ad *admission) spoofedSlow(src *uct.Source, ep *Endpoint) bool {
	w := ad.w
	l, ok := src.Owner.(uct.Connection)
	if !ok && src.User == nil {
		return false // the sender cannot be determined
	}
	s, p := w.accounts.sourceOf(src), ep.peer.Canonical()
	hostile := false
	switch {
	case p == nil: // the worker itself
		if ok && l.SourceInfo().Local || !ok && !s.owner.Decided() {
			return false
		}
	case s.owner.Decided() && !s.owner.Forgotten(p):
		q := s.owner.Peer()
		if q == p {
			s.owner.Set(p)
			return false
		}
		hostile = q != nil && q.UUID() != p.UUID()
	case !ok, ad.comesFrom(src, l, ep):
		if ok {
			s.owner.Set(p)
		}
		return false
	default:
		s.owner.SetUnknown()
	}
	if w.refused(s, ledger.Claim) {
		w.ctx.log.Warn("message dropped: it names an operation with another peer", zap.String("worker", w.name), zap.String("endpoint", ep.describe()))
	}
	if hostile {
		src.Drop(fmt.Errorf("ucp: a message names an operation with another peer: %w", ucs.ErrRejected))
	}
	return true
}

// comesFrom reports whether a connection can be that of an endpoint's peer: the endpoint sends
// over the connection, or the peer's process holds the connection, or the connection comes from
// the peer's address.
func (ad *admission) comesFrom(src *uct.Source, l uct.Connection, ep *Endpoint) bool {
	w := ad.w
	for k := range ep.lanes {
		if h, ok := ep.lanes[k].uct.(uct.NetworkEndpoint); ok && h.Source() == src {
			return true // the endpoint sends over it
		}
	}
	if !l.SourceInfo().Addr.IsValid() || w.ctx.settings.CheckSource != config.Yes || ep.dest == nil || ep.dest.address == nil {
		return true
	}
	return sender{w, w.accounts.sourceOf(src), ep.dest.address.UUID}.validator().ComesFrom(ep.dest.address, ep.process)
}

// logMalformed counts and logs a malformed message. It returns err, which tells the transport to
// drop the connection of the message.
func (w *Worker) logMalformed(err error) error {
	w.stats.Malformed++
	w.ctx.log.Debug("malformed message", zap.String("worker", w.name), zap.Error(err))
	return err
}
