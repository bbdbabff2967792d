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

// source is a connection that made the worker hold something: messages without a receive,
// messages that are not complete, endpoints toward the peer, answers and replies that the peer
// does not read. When a limit is reached the largest holder is evicted (account.go). When a
// connection ends, no receive waits forever for the rest of the connection's messages. What a
// source holds is in lists of the source: to drop all of it takes as long as it took to bring it.
type source struct {
	links[source] // of the same account

	w               *Worker
	charged         *account         // the account that is charged, nil until something is charged
	uct             *uct.Source      // nil if the connection is over, and for transports that do not tell connections apart
	cause           error            // error that the connection ended with, if it failed and the transport knows the error
	ended           bool             // the connection has ended
	paused          bool             // the worker does not read the connection until the peer reads its replies
	evicted         bool             // the connection was dropped at a limit, for good, with all that it could give back
	detached        bool             // nothing is held for the connection any more, and the source is in no list
	rateLimited     bool             // the peer asks too often: the worker does not read the connection for a while
	certificateRead bool             // peerCertificate is determined
	stoppedStreams  int              // streams that the application does not read; the connection is not read while there are any
	deferred        *deferredRequest // a deferred request; the connection is not read until the request is handled
	resumeAt        int              // the connection is read again when unpromptedBytes is at most this
	checkAt         int              // the reply limit is checked again when replyBytes is at least this

	held            int // bytes of unexpected messages
	opened          int // endpoints opened by the peer and not claimed by the application
	replyBytes      int // bytes of answers and replies that wait for the transport
	askBytes        int // the part of replyBytes that a message of the peer ends
	messages        messageList
	actives         *AMMessage // active messages in queues
	fragments       assemblyList
	streams         *stream           // list of the streams with unread bytes that are charged to the source
	openings        *endpointCharge   // list of the endpoints opened by the peer
	peer            *peer             // the peer that the connection belongs to, nil if not known
	proof           *proto.TokenProof // the last proof, while its request has not come
	peerCertificate *certificate      // what the peer has proved, nil if nothing or not determined
}

var _ uct.SourceUser = (*source)(nil)

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
	at.sources++
	return s
}

// account returns the account that is charged for the source. For a connection within the machine
// the kernel has to be asked for the user of the peer. That is done only when something is
// charged: most connections that this worker has opened bring nothing that is charged.
func (s *source) account() *account {
	if s.charged == nil {
		return s.findAccount()
	}
	return s.charged
}

//go:noinline
func (s *source) findAccount() *account {
	if s.uct == nil { // the connection is over, and has no account
		return s.w.accounts.unnamed.charged
	}
	s.w.accounts.accountOf(ledgerSource(s.uct)).add(s)
	return s.charged
}

// ledgerSource returns the ledger source that is charged for a connection, by what the kernel
// knows of the peer. Transports that do not know where their peers are share one account,
// ledger.Shared.
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

// locator returns the connection as a uct.SourceLocator, nil if the transport does not know its
// peer.
func (s *source) locator() uct.SourceLocator {
	if s.uct == nil {
		return nil
	}
	l, _ := s.uct.Owner.(uct.SourceLocator)
	return l
}

// SourceGone implements uct.SourceUser. What the connection has brought is still charged: closing
// the connection gives nothing back.
func (s *source) SourceGone() {
	s.cause = s.uct.Err()
	s.uct, s.ended, s.paused, s.stoppedStreams = nil, true, false, 0
	for _, f := range s.w.families {
		f.sourceGone(s)
	}
	s.settle()
}

// take charges the source with n more bytes.
func (s *source) take(n int) {
	s.held += n
	s.account().held += n
}

// give reduces the charge of the source by n bytes.
func (s *source) give(n int) {
	p := s.account()
	s.held -= n
	p.held -= n
	if p.held < p.low || s.ended {
		s.settle()
	}
}

// readOn resumes reading the connection, unless another reason to pause it remains.
func (s *source) readOn() {
	if s.uct == nil || s.paused || s.rateLimited || s.deferred != nil || s.stoppedStreams > 0 {
		return
	}
	if p, ok := s.uct.Owner.(uct.SourcePauser); ok {
		p.ResumeSource()
	}
}

// settle gives back to the process what is no longer needed, and detaches a source whose
// connection is over and that holds nothing. What is kept for a detached source is charged to
// accountTable.unnamed.
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

// endpointCharge records what an endpoint is charged to. It is created when there is something to
// record.
type endpointCharge struct {
	links[endpointCharge] // opened by the same source

	ep       *Endpoint
	openedBy *source         // the source of the peer, until the application claims the endpoint
	age      uint64          // serial number of the endpoint among those that peers have opened
	boundTo  *ledger.Account // the account of a peer that the application knows by this endpoint
	answers  answerQueue
	replies  *replyCharge // nil before the first reply that has waited
}

// ensureCharge returns the endpointCharge of an endpoint, and creates it if there is none.
func (at *accountTable) ensureCharge(ep *Endpoint) *endpointCharge {
	if ep.charge == nil {
		ep.charge = &endpointCharge{ep: ep}
	}
	return ep.charge
}

// openedBy returns the source that opened an endpoint which the application has not claimed, or
// nil.
func (at *accountTable) openedBy(ep *Endpoint) *source {
	if ep.charge == nil {
		return nil
	}
	return ep.charge.openedBy
}

// chargeTo charges an endpoint, which the application has not claimed, to the source that opened
// it.
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

// uncharge undoes chargeTo, and returns the source, nil if the endpoint was not charged.
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

// Messages that name a request or an endpoint act on it only if they come from its peer, as far
// as that can be determined. A connection belongs to one peer, from the first wireup message that
// identifies the peer, or from the first other message that comes from where the peer is. Ids
// cannot be guessed, but a process that has seen an id could use it.

// unknownPeer is the owner of a connection that sent a message for a peer which is elsewhere,
// until a wireup message on the connection identifies its own peer.
var unknownPeer = &peer{identity: new(identity)}

// bindPeer records that a wireup message of a peer came on the connection, which belongs to the
// peer if it had no owner.
func (s *source) bindPeer(p *peer) {
	if s.uct == nil {
		return // messages in memory of this process do not say which process wrote them
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

// belongsToOther reports whether the connection is known to belong to another peer: one with
// another uuid, or one with the same uuid that the application knows by another address.
func (s *source) belongsToOther(p *peer) bool {
	q := s.peer.canonical()
	return s.uct != nil && q != nil && q != unknownPeer && q != p && (q.identity != p.identity || q.trusted() && p.trusted())
}

// spoofed reports whether a message does not come from the endpoint's peer, and counts such
// messages. In the usual case it costs a comparison. A connection that is known to belong to a
// worker with another uuid is dropped for such a message: ids of endpoints and requests are told
// to their peer alone and are not used again, so that no worker gets one in good faith. Late
// messages name ids that are gone, and never come here.
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
		return false // the sender cannot be determined
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
		s.peer = unknownPeer // so that later messages are not looked at again
	}
	if w.refused(s, ledger.Claim) {
		w.ctx.log.Warn("message for an operation with another peer dropped", zap.String("worker", w.name), zap.String("endpoint", ep.describe()))
	}
	if hostile {
		src.Drop(fmt.Errorf("ucp: a message for an operation with another peer: %w", ucs.ErrRejected))
	}
	return true
}

// comesFrom reports whether a connection can be that of an endpoint's peer: the endpoint sends
// over the connection, or the peer's process holds the connection, or the connection comes from
// the peer's address.
func (ad *admission) comesFrom(src *uct.Source, l uct.SourceLocator, ep *Endpoint) bool {
	w := ad.w
	for k := range ep.lanes {
		if h, ok := ep.lanes[k].uct.(uct.SourceHolder); ok && h.Source() == src {
			return true // the endpoint sends over it
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

// logMalformed counts and logs a malformed message. It returns err, which tells the transport to
// drop the connection of the message.
func (w *Worker) logMalformed(err error) error {
	w.stats.Malformed++
	w.ctx.log.Debug("malformed message", zap.String("worker", w.name), zap.Error(err))
	return err
}
