package ucp

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/admit"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Admission control for wireup requests and endpoint checks. Package admit makes the decisions.
// This file provides the facts and carries out the decisions.

// admission decides which wireup requests a worker answers.
type admission struct {
	w                 *Worker
	gate              *admit.Gate
	replay            func(src *uct.Source, message []byte) error // handles a deferred request again
	unreachableLogged bool                                        // an unreachable requester was logged
	mismatchLogged    bool                                        // one that would hang was logged
}

// start makes the gate for the worker's token mode, and the worker's secret unless the mode is
// TokenOff.
func (ad *admission) start(mode TokenMode) {
	w := ad.w
	ad.gate = &admit.Gate{
		Closed:        w.params.Closed || w.ctx.settings.Closed,
		ProofRequired: mode == TokenRequired,
		Rates:         admit.Rates{Clock: platform.Now},
	}
	if mode != TokenOff {
		ad.gate.Tokens = admit.NewTokens(w.uuid)
	}
}

// requester is what the worker knows of the sender of a request. It implements admit.Peers.
type requester struct {
	sender
	peer     *peer                // nil if the sender is not a known peer
	claimed  *proto.WorkerAddress // the address that the sender claims, nil if the address is verified
	migrated bool                 // the sender may be the peer at a new address; not verified
	deferred bool                 // the request waits until its addresses are resolved

	m       *proto.Wireup
	message []byte // the field m in packed form
}

var _ admit.Peers = (*requester)(nil)

// admitRequest decides whether the worker answers a peer's request (admit.Gate.Decide). It removes
// from m.Address what is not verified. If it returns an error, the transport drops the connection.
func (ad *admission) admitRequest(from *source, m *proto.Wireup, message []byte) (*requester, error) {
	w := ad.w
	q := &requester{sender: sender{w, from, m.Address.UUID}, m: m, message: message}
	r := admit.Request{Message: message, Address: &m.Address, Opens: m.Type == proto.WireupRequest, Proof: from.tokenProof(), Now: w.uctw.Now()}
	if from.replaying() {
		r.Again, r.Proved = true, from.deferred.proved
	}
	d := ad.gate.Decide(&r, q.validator(), q)
	if d.Wait > 0 {
		from.pause(d.Wait)
	}
	if d.NotPeer && w.refused(from, ledger.Claim) {
		w.ctx.log.Diag("TLS certificate does not match the peer named in the request: treating the sender as a different peer",
			zap.String("worker", w.name), zap.Stringer("from", from.Account().Ledger().Source()))
	}
	ad.countContradiction(from, d.Finding)
	q.claimed, q.migrated = d.Claimed, d.Migrated
	switch d.Verdict {
	case admit.Refuse:
		ad.refuse(from, &d, r.Opens)
	case admit.Defer:
		q.deferred, from.deferred.proved = true, d.Proved
	}
	return q, d.Err
}

// refuse counts a refused request, and logs one refusal a minute for each reason. A check by which an
// endpoint of a connection manager asks for its counterpart, which has ended, is no reason for a warning:
// such a peer need neither have the token nor be known.
func (ad *admission) refuse(from *source, d *admit.Decision, opens bool) {
	w := ad.w
	var what string
	switch d.Reason {
	case ledger.Token:
		what = "request without the token refused"
	case ledger.Policy:
		what = "request of an unknown peer refused"
	default:
		w.accounts.LogRefusal(from.Account().Ledger(), d.Reason, d.Err)
		return
	}
	if !w.refused(from, d.Reason) {
		return
	}
	log := w.ctx.log.Warn
	if !opens {
		log = w.ctx.log.Diag
	}
	log(what, zap.String("worker", w.name), zap.Bool("check", !opens), zap.Error(d.Err))
}

// countContradiction counts, and may log, an address with claims that the address of an honest peer
// cannot have (admit.Finding.Contradicts).
func (ad *admission) countContradiction(from *source, f admit.Finding) {
	w := ad.w
	if f.Contradicts && w.refused(from, ledger.Claim) {
		w.ctx.log.Diag("ignoring entries of a peer's address that do not belong to the peer",
			zap.String("worker", w.name), zap.Stringer("from", from.locator().SourceInfo().Addr))
	}
}

// Standing implements admit.Peers.
func (q *requester) Standing(addr *proto.WorkerAddress) admit.Standing {
	p, other := q.w.admission.claimedPeer(q.from, addr)
	q.peer = p
	switch {
	case other:
		return admit.NotPeer
	case p == nil:
		return admit.Unknown
	case p.Trusted():
		return admit.Trusted
	}
	return admit.Untrusted
}

// Migrated implements admit.Peers.
func (q *requester) Migrated(claimed *proto.WorkerAddress) bool {
	q.peer = q.w.admission.migratedPeer(q.from, claimed, q.m)
	return q.peer != nil
}

// Resolve implements admit.Peers.
func (q *requester) Resolve(addr *proto.WorkerAddress) bool {
	return q.w.admission.deferRequest(q.from, addr, q.message)
}

// validateAddress removes from the address in a message the entries that the connection of the
// message does not verify (admit.Validator). If accepted is set, the application has accepted the
// peer, and the IP addresses are kept. validateAddress returns the removed claims for transports
// with IP addresses, nil if the whole address is verified.
func (ad *admission) validateAddress(from *source, addr *proto.WorkerAddress, accepted bool) (said *proto.WorkerAddress) {
	v := sender{ad.w, from, addr.UUID}.validator()
	if v == nil {
		return nil
	}
	v.Accepted = accepted
	f := v.Validate(addr)
	ad.countContradiction(from, f)
	return f.Claimed
}

// sender is the sender of a message that contains an address. It implements admit.Host for the
// validator of the address.
type sender struct {
	w    *Worker
	from *source
	uuid uint64 // uuid of the worker in the address
}

var _ admit.Host = sender{}

// validator returns a validator for the address. It returns nil if the address is trusted, because
// the message came through memory of this process or over a transport that does not know its peers.
func (s sender) validator() *admit.Validator {
	l := s.from.locator()
	if l == nil {
		return nil
	}
	return &admit.Validator{Host: s, Conn: l, Rates: &s.w.admission.gate.Rates, CheckIP: s.w.ctx.settings.CheckSource != config.No}
}

// Source implements admit.Host.
func (s sender) Source() ledger.Source { return s.from.Account().Ledger().Source() }

// Place implements admit.Host.
func (s sender) Place(e admit.Entry) (p admit.Destination) {
	for _, i := range s.w.ifaces {
		if i.id != e.Transport {
			continue
		}
		if i.inside() {
			if _, finds := i.uct.(uct.ProcessIface); finds {
				return admit.Destination{Kind: admit.DestinationProcess}
			}
			continue
		}
		a, has := i.uct.(uct.NetworkIface)
		if !has {
			return admit.Destination{Kind: admit.DestinationNetwork}
		}
		at, here, err := a.PeerAddr(e.ReachableParams)
		if err == nil { // all interfaces of a transport give the same result
			return admit.Destination{Kind: admit.DestinationIP, At: at, OnThisMachine: here, Pairwise: i.pairwise()}
		}
		p.Kind = admit.DestinationMalformed
	}
	return p
}

// FindProcess implements admit.Host.
func (s sender) FindProcess(e admit.Entry, may func(uct.Process) bool) bool {
	return slices.ContainsFunc(s.w.ifaces, func(i *iface) bool {
		f, finds := i.uct.(uct.ProcessIface)
		if i.id != e.Transport || !finds {
			return false
		}
		_, err := f.FindProcess(e.ReachableParams, may)
		return err == nil
	})
}

// Given implements admit.Host.
func (s sender) Given(e admit.Entry) []*proto.WorkerAddress {
	return s.w.peers.Addresses(s.uuid, identity.EntryOf(e.Transport, e.DeviceAddr, e.IfaceAddr))
}

// pairwise reports whether the interface's endpoints can only be connected to another endpoint, not
// to an interface (UCT_IFACE_FLAG_CONNECT_TO_EP in C UCX).
func (i *iface) pairwise() bool { return i.attr.Flags&uct.IfaceConnectToIface == 0 }

// inside reports whether the interface's transport stays within the machine.
func (i *iface) inside() bool {
	t := i.attr.Resource.Type
	return t == uct.DeviceShared || t == uct.DeviceSelf
}

// claimedPeer returns the peer that has the uuid of an address and an entry in common with the
// address, nil if there is none. For a request through memory of this process, any trusted peer
// with the uuid is returned as well. The result other reports that the peer's certificate differs
// from the sender's; p is then nil.
func (ad *admission) claimedPeer(from *source, addr *proto.WorkerAddress) (p *peer, other bool) {
	w := ad.w
	p = w.peers.Find(addr.UUID, identity.EntriesOf(addr))
	if p != nil && !p.ProvenBy(from) {
		return nil, true
	}
	if p == nil && from.uct == nil {
		p = w.peers.FindTrusted(addr.UUID)
	}
	return p, false
}

// Allow permits the worker of an address to open endpoints to this worker in closed mode
// (WorkerParams.Closed), although the application has no endpoint to it. The permission
// holds until Disallow. The address is untrusted; what is kept of it is copied.
func (w *Worker) Allow(a Address) error {
	if w.missing() {
		return errMissing("Worker.Allow", w == nil)
	}
	w.owner.acquireRead()
	defer w.owner.releaseRead()
	addr, err := w.admission.parseAllowed(a)
	if err != nil {
		return err
	}
	w.peers.Given(&addr).Allowed = true
	return nil
}

// Disallow withdraws the permission that Allow gave. Existing endpoints stay.
func (w *Worker) Disallow(a Address) error {
	if w.missing() {
		return errMissing("Worker.Disallow", w == nil)
	}
	w.owner.acquireRead()
	defer w.owner.releaseRead()
	addr, err := w.admission.parseAllowed(a)
	if err != nil {
		return err
	}
	if p := w.peers.Find(addr.UUID, identity.EntriesOf(&addr)); p != nil && p.Allowed {
		p.Allowed = false
		w.peers.Release(p)
	}
	return nil
}

func (ad *admission) parseAllowed(a Address) (proto.WorkerAddress, error) {
	w := ad.w
	if w.closed || len(a) == 0 {
		return proto.WorkerAddress{}, fmt.Errorf("ucp: address to allow: %w", ucs.ErrInvalidParam)
	}
	addr, _, err := proto.ParseAddress(a, proto.FormWorker)
	return addr, err
}

// staleRequest reports whether an endpoint check may come from a worker to which the application
// had an endpoint: the message came through memory of this process, with a uuid that the worker
// remembers. Such a check is answered even if the worker refuses requests of this peer. On a
// connection the peer learns of a refusal because the connection ends. Shared memory has no
// connection, so without an answer the peer would wait as long as this process lives. The message
// needs no proof of the token, because C UCX has no tokens. Another process that has seen the uuid
// belongs to the same user, and learns only that there is no such endpoint.
func (ad *admission) staleRequest(from *source, m *proto.Wireup) bool {
	return from.uct == nil && ad.w.peers.HasNumbered(m.Address.UUID)
}

// keepLocalEntries removes from an address all entries except those of transports within the
// machine.
func (ad *admission) keepLocalEntries(addr *proto.WorkerAddress) {
	w := ad.w
	for k := range addr.Devices {
		d := &addr.Devices[k]
		d.Ifaces = slices.DeleteFunc(d.Ifaces, func(f proto.AddressIface) bool {
			return !slices.ContainsFunc(w.ifaces, func(i *iface) bool { return i.id == f.Transport && i.inside() })
		})
	}
}

// tokenProof returns the last proof of the token that came on the connection, nil for transports
// that do not tell connections apart.
func (s *source) tokenProof() *admit.Proof {
	if s.uct == nil {
		return nil
	}
	return &s.proof
}

// Certificate implements identity.Source. The certificate is determined once.
func (s *source) Certificate() (c *admit.Certificate, known bool) {
	l := s.locator()
	if l == nil {
		return nil, false
	}
	if !s.certificateRead {
		s.certificateRead, s.peerCertificate = true, admit.CertificateOf(l.SourceTLS())
	}
	return s.peerCertificate, true
}

// pause stops reading the connection for d, if the transport can do that.
func (s *source) pause(d time.Duration) {
	p, ok := s.uct.Owner.(uct.Connection)
	if !ok || s.rateLimited {
		return
	}
	_, err := s.w.uctw.Timers().After(d, func() {
		s.rateLimited = false
		s.ReadOn()
	})
	if err == nil {
		s.rateLimited = true
		p.PauseSource()
	}
}

// Deferred requests. A request names addresses, and some of them the system has to resolve on the
// network (uct.NetworkIface.ResolveAddress). The resolution of an invented address ends only by a
// timeout, and a worker that waited for it could do nothing else. So a request is deferred until
// the resolution of all its addresses has ended, and its connection is not read meanwhile. Then the
// request is handled again, and an address that was not found gets no lane. If failed resolutions
// for one source have taken too much time, no more are started for the source for a while: its
// requests then get lanes only to addresses that are known already.

// deferredRequest is a request that waits until its addresses are resolved.
type deferredRequest struct {
	from       *source
	rate       *admit.Rate // rate of the source, also after its connection is closed; nil: none
	message    []byte
	proved     bool
	resolving  int // addresses that are still being resolved
	began      time.Duration
	unresolved bool // at least one address was not found
	replayed   bool // the request is being handled again
}

// maxResolving is the most addresses of one request that are resolved. A peer has one for each
// device.
const maxResolving = 8

// origin returns whether addresses in messages of the source count as given by the application
// (trusted) or by a peer. Messages through memory of this process are trusted (sender.validator).
func (s *source) origin() uct.Origin {
	if s.locator() == nil {
		return uct.OriginApplication
	}
	return uct.OriginPeer
}

// replaying reports whether a deferred request of the source is being handled again.
func (s *source) replaying() bool { return s.deferred != nil && s.deferred.replayed }

// deferRequest defers a request with this address if one of its entries has to be resolved, and
// reports whether it has deferred the request.
func (ad *admission) deferRequest(from *source, addr *proto.WorkerAddress, message []byte) bool {
	w := ad.w
	if from.deferred != nil || from.origin() != uct.OriginPeer {
		return false
	}
	rates := &ad.gate.Rates
	k := &deferredRequest{from: from, rate: rates.Of(from.Account().Ledger().Source()), began: rates.Clock()}
	if k.rate != nil && k.rate.Resolutions.Exhausted(k.began) {
		return false
	}
	addr.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for _, i := range w.ifaces {
			s, seeks := i.uct.(uct.NetworkIface)
			if i.id == f.Transport && seeks && k.resolving < maxResolving &&
				s.ResolveAddress(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}, k.resolved) {
				k.resolving++
			}
		}
		return true
	})
	if k.resolving == 0 {
		return false
	}
	k.message = append([]byte(nil), message...)
	from.deferred = k
	if p, ok := from.uct.Owner.(uct.Connection); ok {
		p.PauseSource()
	}
	return true
}

// resolved is called by the transport when the resolution of one address has ended. The parameter
// so reports whether the peer can be reached there. After the last address the request is handled
// again.
func (k *deferredRequest) resolved(so bool) {
	k.unresolved = k.unresolved || !so
	if k.resolving--; k.resolving > 0 {
		return
	}
	s := k.from
	if k.rate != nil && k.unresolved {
		k.rate.Resolutions.Add(k.began, s.w.admission.gate.Rates.Clock())
	}
	if s.uct == nil {
		return // the connection of the requester is gone
	}
	k.replayed = true
	err := s.w.admission.replay(s.uct, k.message)
	s.deferred = nil
	if err != nil && s.uct != nil {
		s.uct.Drop(err)
	}
	s.ReadOn()
}

// A peer whose connection comes from an address that is not in its worker address still gets a
// reply, on that connection (the reverse path). Honest peers do that: C UCX 1.13 does when the
// routes of its machine lead over another device than the one that it listens at. Nothing is
// connected, and the endpoint serves only that connection: the application does not get the
// endpoint, because the listener at the claimed address may be another process.

// requesterEndpoint returns an endpoint toward a requester. The endpoint leads to the verified
// part of the requester's address, addr, or over the requester's connection if addr leads
// nowhere. said is the claimed address, nil if all of it is verified.
func (ad *admission) requesterEndpoint(from *source, addr, said *proto.WorkerAddress, mode ErrMode, rules laneRules) (*Endpoint, error) {
	w := ad.w
	rules.origin = from.origin()
	ep, err := w.wireups.newEndpointBy(addr, mode, 0, rules)
	if said == nil {
		return ep, err
	}
	b, only := (*reversePath)(nil), (*proto.WorkerAddress)(nil)
	if err != nil {
		if b, only = ad.reversePath(from, said); b != nil {
			ep, err = w.wireups.newEndpointBy(only, mode, 0, laneRules{reverse: b})
		}
		if err != nil {
			return nil, err
		}
	}
	// The peer may write to memory that is opened to it from any address that it claims, because
	// the peer chooses its addresses. Over a reverse path no memory is opened, because the peer
	// that could write to it is not known.
	where := *ep.dest
	where.reversePath = b != nil
	if !where.reversePath {
		where.scopes = w.rights.scopesOf(said)
	}
	ep.dest = &where
	return ep, nil
}

// unreachableRequester handles the failure to make an endpoint toward a requester; p is nil if the
// requester is not a known peer. If the result is an error, the transport drops the connection, so
// that the requester does not wait.
func (ad *admission) unreachableRequester(from *source, p *peer, err error) error {
	w := ad.w
	const text = "no reverse path to a peer"
	fields := []zap.Field{zap.String("worker", w.name), zap.Error(err)}
	if errors.Is(err, uct.ErrMismatch) { // the peer hangs
		if !ad.mismatchLogged {
			ad.mismatchLogged = true
			w.ctx.log.Error(text, fields...)
		}
	} else if ad.unreachableLogged { // peers can ask any number of times
		w.ctx.log.Debug(text, fields...)
	} else {
		w.ctx.log.WarnOnce("", text, fields...)
	}
	ad.unreachableLogged = true
	if from.locator() == nil || p != nil && p.Trusted() {
		return nil
	}
	w.refused(from, ledger.Claim)
	return noReversePath(err)
}

// unreachableChecker handles the failure to answer an endpoint check; p is nil if the sender is not a
// known peer. The sender has been connected to this worker, so in most cases its process has ended
// since it sent the check. If the result is an error, the transport drops the connection, so that a
// sender that still exists does not wait.
func (ad *admission) unreachableChecker(from *source, p *peer, err error) error {
	w := ad.w
	w.stats.Dropped++
	w.ctx.log.Debug("cannot answer an endpoint check", zap.String("worker", w.name), zap.Error(err))
	if from.locator() == nil || p != nil && p.Trusted() {
		return nil
	}
	return noReversePath(err)
}

func noReversePath(err error) error {
	return fmt.Errorf("ucp: %w: no reverse path to the peer: %v", ucs.ErrUnreachable, err)
}

// reversePath returns the reverse path over the connection of a peer, and an address with only the
// entry of the peer's address that belongs to the connection. Both are nil if the connection cannot
// be used so.
func (ad *admission) reversePath(from *source, said *proto.WorkerAddress) (b *reversePath, only *proto.WorkerAddress) {
	w := ad.w
	if from.uct == nil {
		return nil, nil
	}
	said.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for _, i := range w.ifaces {
			r, ok := i.uct.(uct.NetworkIface)
			if !ok || i.id != f.Transport || !r.CanSendOver(from.uct, uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}) {
				continue
			}
			b = &reversePath{iface: i, src: from.uct}
			only = &proto.WorkerAddress{Version: said.Version, Flags: said.Flags, UUID: said.UUID, Name: said.Name,
				Release: said.Release, Devices: []proto.AddressDevice{*dev}}
			only.Devices[0].Ifaces = []proto.AddressIface{*f}
			return false
		}
		return true
	})
	return b, only
}

// migratedPeer returns the peer that an unmatched endpoint of the application waits for, if the
// requester may be that peer although the request comes from an address that neither the requester
// nor the application has named; nil otherwise. This is possible only for releases of C UCX that
// let the routes decide from which address they connect, and only one such address is accepted for
// each peer. If both sides have sent requests, and the received request were not accepted as the
// peer's, both would wait forever, because C UCX takes a request for the answer to its own. Only
// the endpoint's remote id depends on this guess, until the peer itself has confirmed the id
// (wireupState.idConfirmed), and the answer goes to the address that the application gave.
func (ad *admission) migratedPeer(from *source, said *proto.WorkerAddress, m *proto.Wireup) *peer {
	w := ad.w
	l := from.locator()
	if said == nil || l == nil || w.ctx.settings.CheckSource != config.Try {
		return nil
	}
	p := w.peers.Find(said.UUID, identity.EntriesOf(said))
	if p == nil || !p.Trusted() || connectsFromListed(p.Address()) {
		return nil
	}
	ep, _ := p.Unmatched(m.ConnSN)
	if ep == nil || !ep.life.EverHeld() || ep.remoteID != 0 || ep.errMode != ErrMode(m.ErrMode) ||
		!p.MayMigrate(l.SourceInfo().Addr.Addr().Unmap()) {
		return nil
	}
	return p
}

// unansweredEndpoint returns the endpoint of the application for which the worker should repeat its
// wireup request, after it has received a request that is not verified to come from the endpoint's
// peer, for example one from a translated address; nil if there is none. The endpoint's own
// request, sent or still to be sent, may stay without a reply: if the received request is the
// peer's, both sides have sent one, and the worker with the smaller uuid does not reply. That
// worker waits for the reply from here, which leads to another endpoint, so the endpoint here would
// wait forever. The first request from here is matched with the peer's own endpoint, so that the
// next request is answered like any other. No claim of the requester is believed for that. A false
// requester can cause two requests, for which C UCX makes an endpoint that nothing uses.
func (ad *admission) unansweredEndpoint(said *proto.WorkerAddress, m *proto.Wireup) *Endpoint {
	w := ad.w
	if said == nil || said.UUID >= w.uuid {
		return nil
	}
	p := w.peers.Find(said.UUID, identity.EntriesOf(said))
	if p == nil || !p.Trusted() {
		return nil
	}
	e, _ := p.Unmatched(m.ConnSN)
	ep := (*Endpoint)(e)
	if ep == nil || ep.life.Stage != life.Open {
		return nil
	}
	if ep.remoteID != 0 && (ep.state&epUnconfirmed == 0 || ep.remoteID == m.SrcEp) {
		return nil
	}
	return ep
}

// connectsFromListed reports whether the worker that published an address binds its connections
// to the devices in the address. C UCX 1.22 and later does, and so does this library.
func connectsFromListed(addr *proto.WorkerAddress) bool {
	return addr.Release >= 22 || ofThisLibrary(addr)
}

// ofThisLibrary reports whether the worker that published an address is known to be one of this
// library, which announces no release and, unlike old releases of C UCX, no capabilities of memory
// domains.
func ofThisLibrary(addr *proto.WorkerAddress) bool {
	return addr.Release == 0 && addr.Version == proto.AddressV1 &&
		!slices.ContainsFunc(addr.Devices, func(d proto.AddressDevice) bool { return d.MDCaps != 0 })
}
