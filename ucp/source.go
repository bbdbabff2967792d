package ucp

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// source is a connection that made the worker hold something: messages nobody
// has received, messages that are not complete, endpoints toward the peer, answers
// that it does not read. When a limit is reached who holds most gives way
// (account.go), and when a connection ends nobody waits for ever for the rest of its
// messages. What a source holds is in lists of its own: it takes as long to throw
// it away as it took to bring it.
type source struct {
	links[source] // of the same account

	w               *Worker
	charged         *account         // nil until something is charged: pays
	uct             *uct.Source      // nil: of transports that do not tell connections apart, or over
	cause           error            // with what it has ended, if it has failed and the transport knows
	ended           bool             // the connection has ended
	paused          bool             // its reading is stopped
	evicted         bool             // it had to give way, with all that it can give back: for good, as its connection is over
	detached        bool             // nothing is held for it any more, and it is in no list
	rateLimited     bool             // it asks too often, and is not read for a while
	certificateRead bool             // named was worked out
	stoppedStreams  int              // streams that the application does not read, because of which it is not read
	deferred        *deferredRequest // a request, and it is not read until that is heard
	resumeAt        int              // when it owes no more than that it is read again
	checkAt         int              // when it owes that it is looked at again whether it may

	held            int // bytes of unexpected messages
	opened          int // endpoints opened by the peer and not claimed by the user
	replyBytes      int // bytes of answers, and of replies, that wait for the transport
	askBytes        int // of those that end with a message of the peer's
	messages        messageList
	actives         *AMMessage // in queues
	fragments       assemblyList
	streams         *stream           // a list of those with unread bytes that it pays for
	openings        *endpointCharge   // the endpoints
	peer            *peer             // whose connection it is, as far as that is known
	proof           *proto.TokenProof // that came last and whose request has not come
	peerCertificate *certificate      // what the peer has proved, if looked
}

var _ uct.SourceUser = (*source)(nil)

// sourceOf returns the source of a message.
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
	at.sources++
	return s
}

// account returns who pays for the source. Within the machine the kernel has to be asked
// for that, which is left until it matters: most connections that we have opened bring
// nothing that is charged.
func (s *source) account() *account {
	if s.charged == nil {
		return s.findAccount()
	}
	return s.charged
}

//go:noinline
func (s *source) findAccount() *account {
	if s.uct == nil { // it is over, and was nobody's
		return s.w.accounts.unnamed.charged
	}
	s.w.accounts.accountOf(ledgerSource(s.uct)).add(s)
	return s.charged
}

// ledgerSource says who pays for a connection, as the kernel has it. Transports that do
// not know where their peers are have one account together.
func ledgerSource(src *uct.Source) ledger.Source {
	l, ok := src.Owner.(uct.SourceLocator)
	if !ok {
		return ledger.Shared
	}
	info, uid := l.SourceInfo(), -1
	if info.Local && info.User.Known {
		uid = info.User.UID
	}
	return ledger.SourceOf(info.Addr.Addr(), uid)
}

// locator is the connection as what knows its peer, nil if it does not.
func (s *source) locator() uct.SourceLocator {
	if s.uct == nil {
		return nil
	}
	l, _ := s.uct.Owner.(uct.SourceLocator)
	return l
}

// SourceGone implements uct.SourceUser. What the connection has brought still
// counts: closing it gives nothing back.
func (s *source) SourceGone() {
	s.cause = s.uct.Err()
	s.uct, s.ended, s.paused, s.stoppedStreams = nil, true, false, 0
	for _, f := range s.w.families {
		f.sourceGone(s)
	}
	s.settle()
}

// take charges the source with n bytes more.
func (s *source) take(n int) {
	s.held += n
	s.account().held += n
}

// give takes n bytes off its charge.
func (s *source) give(n int) {
	p := s.account()
	s.held -= n
	p.held -= n
	if p.held < p.low || s.ended {
		s.settle()
	}
}

// readOn goes on reading the connection, if nothing is in the way any more.
func (s *source) readOn() {
	if s.uct == nil || s.paused || s.rateLimited || s.deferred != nil || s.stoppedStreams > 0 {
		return
	}
	if p, ok := s.uct.Owner.(uct.SourcePauser); ok {
		p.ResumeSource()
	}
}

// settle gives back to the process what is no longer needed, and forgets a source
// that is over and holds nothing. What is kept of it later the unnamed one pays for.
func (s *source) settle() {
	p := s.charged
	if s.detached {
		p = s.account()
	}
	if p != nil && p.held < p.low {
		p.resize(p.held + s.w.accounts.slack(p.held))
	}
	if s.detached {
		return
	}
	if s.ended && s.held == 0 && s.opened == 0 && s.replyBytes == 0 && s.fragments.head == nil {
		s.detached = true
		s.w.accounts.sources--
		if p != nil {
			p.remove(s)
			s.charged = nil
		}
	}
}

// endpointCharge is what an endpoint is charged to, if anybody: made when there is something to
// note.
type endpointCharge struct {
	links[endpointCharge] // opened by the same

	ep       *Endpoint
	openedBy *source         // the peer's, until the user claims the endpoint
	age      uint64          // of the endpoints that peers have opened, which one it is
	boundTo  *ledger.Account // whose peer the application knows by this endpoint
	answers  answerQueue
	replies  *replyCharge // nil before the first reply that has waited
}

// ensureCharge returns what the endpoint is charged to.
func (at *accountTable) ensureCharge(ep *Endpoint) *endpointCharge {
	if ep.charge == nil {
		ep.charge = &endpointCharge{ep: ep}
	}
	return ep.charge
}

// openedBy is who opened an endpoint that the user does not know of yet, or nil.
func (at *accountTable) openedBy(ep *Endpoint) *source {
	if ep.charge == nil {
		return nil
	}
	return ep.charge.openedBy
}

// chargeTo notes who opened an endpoint that the user does not know of yet.
func (at *accountTable) chargeTo(ep *Endpoint, from *source) {
	b := at.ensureCharge(ep)
	b.openedBy = from
	ep.w.wireups.everOpened++
	b.age = ep.w.wireups.everOpened
	link(&from.openings, b, (*endpointCharge).place)
	ep.w.wireups.unexpected++
	from.opened++
	p := from.account()
	p.opened++
	p.ledger.Add(ledger.Endpoints, 1)
}

// uncharge ends that, and returns who it was.
func (at *accountTable) uncharge(ep *Endpoint) *source {
	from := at.openedBy(ep)
	if from == nil {
		return nil
	}
	b := ep.charge
	unlink(&from.openings, b, (*endpointCharge).place)
	b.openedBy = nil
	ep.w.wireups.unexpected--
	from.opened--
	p := from.account()
	p.opened--
	p.ledger.Add(ledger.Endpoints, -1)
	if from.ended {
		from.settle()
	}
	return from
}

// Messages that name a request or an endpoint act on it only if they are of its
// peer, as far as that can be told. A connection belongs to one peer from the first
// wireup message on by which it is known, or the first other message that comes from
// where the peer is. Ids cannot be guessed, but who has seen one could use it.

// unknownPeer is whose a connection is that has spoken for a peer that is elsewhere, until
// it says who it is.
var unknownPeer = &peer{identity: new(identity)}

// bindPeer is told that a wireup message of a peer came by a connection.
func (s *source) bindPeer(p *peer) {
	if s.uct == nil {
		return // memory of ours does not say who wrote there
	}
	if p.certificate() == nil {
		if proved := s.certificate(); proved != nil {
			p.ensureExtra().certificate = proved
		}
	}
	switch q := s.peer.canonical(); {
	case q == nil, q == unknownPeer:
		s.peer = p
	case q != p && q.identity == p.identity && !q.trusted():
		s.w.peers.mergePeers(q, p)
	case q != p && q.identity == p.identity && !p.trusted():
		s.w.peers.mergePeers(p, q)
		p = q
	}
	p.lastSource = s
}

// belongsToOther reports whether a connection is known to be of another peer: one with
// another uuid, or of which the application has another address.
func (s *source) belongsToOther(p *peer) bool {
	q := s.peer.canonical()
	return s.uct != nil && q != nil && q != unknownPeer && q != p && (q.identity != p.identity || q.trusted() && p.trusted())
}

// spoofed reports whether a message is not of the endpoint's peer, and counts that.
// It costs a comparison. A connection on which another worker has said who it is loses
// its place by such a message: ids of endpoints and requests are told to their peer
// alone, and not used again, so that nobody comes by one in good faith. Messages that
// are late name ids that are gone, and never come here.
func (ad *admission) spoofed(src *uct.Source, ep *Endpoint) bool {
	if src == nil {
		return false
	}
	if s, ok := src.User.(*source); ok && s.peer != nil && s.peer == ep.peer {
		return false
	}
	return ad.spoofedSlow(src, ep)
}

//go:noinline
func (ad *admission) spoofedSlow(src *uct.Source, ep *Endpoint) bool {
	w := ad.w
	l, ok := src.Owner.(uct.SourceLocator)
	if !ok && src.User == nil {
		return false // it cannot be told
	}
	s, p := w.accounts.sourceOf(src), ep.peer.canonical()
	hostile := false
	switch {
	case p == nil: // the worker itself
		if ok && l.SourceInfo().Local || !ok && s.peer == nil {
			return false
		}
	case s.peer != nil:
		q := s.peer.canonical()
		if q == p {
			s.peer = p
			return false
		}
		hostile = q != unknownPeer && q.uuid != p.uuid
	case !ok, ad.comesFrom(src, l, ep):
		if ok {
			s.peer = p
		}
		return false
	default:
		s.peer = unknownPeer // it is not looked at again for each message
	}
	if w.refused(s, ledger.Claim) {
		w.ctx.log.Warn("message for an operation with another peer dropped", zap.String("worker", w.name), zap.String("endpoint", ep.describe()))
	}
	if hostile {
		src.Drop(fmt.Errorf("ucp: a message for an operation with another peer: %w", ucs.ErrRejected))
	}
	return true
}

// comesFrom reports whether a connection can be the peer's of an endpoint: it is one
// that the endpoint sends over, or the process fits that holds it, or the address that
// it comes from.
func (ad *admission) comesFrom(src *uct.Source, l uct.SourceLocator, ep *Endpoint) bool {
	w := ad.w
	for k := range ep.lanes {
		if h, ok := ep.lanes[k].uct.(uct.SourceHolder); ok && h.Source() == src {
			return true // we send over it
		}
	}
	info := l.SourceInfo()
	if !info.Addr.IsValid() || w.ctx.settings.CheckSource != config.Yes || ep.dest == nil || ep.dest.address == nil {
		return true
	}
	d := addressValidator{w: w, from: w.accounts.sourceOf(src), connection: l, info: info}
	if ep.process != 0 && info.Local && ad.timeLookup(d.from, func() bool { return l.HeldBy(ep.process) }) {
		return true
	}
	found := false
	ep.dest.address.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		found = d.isAt(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}, f.Transport)
		return !found
	})
	return found
}

// logMalformed notes a message that makes no sense. Its error tells the transport
// to drop the connection it came on.
func (w *Worker) logMalformed(err error) error {
	w.stats.Malformed++
	w.ctx.log.Debug("malformed message", zap.String("worker", w.name), zap.Error(err))
	return err
}
