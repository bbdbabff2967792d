package ucp

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Who asks for an endpoint, or after one, and whether that is answered.

// admission decides which wireup requests a worker answers.
type admission struct {
	w               *Worker
	rates           map[ledger.Source]*requestRate
	replay          func(src *uct.Source, message []byte) error // handles a request that was deferred
	unreachableTold bool                                        // a peer that could not be answered was logged
	mismatchTold    bool                                        // a peer that would hang was logged
}

// requester is who has sent a request, as far as that is believed.
type requester struct {
	peer     *peer                // nil for nobody that is known
	claimed  *proto.WorkerAddress // what he has said of himself, nil if all of that is believed
	migrated bool                 // he may be that peer, and may be anybody
	deferred bool                 // the request is kept back
}

// admitRequest decides whether to do what a peer asks for, in what order it costs: first how
// often it has asked, then whether it has proved that it may, then whether the worker is
// open to who it says it is, and only then whether it is that. It leaves in the address
// what is believed. The error drops the connection.
func (ad *admission) admitRequest(from *source, m *proto.Wireup, message []byte) (requester, error) {
	again, proved := from.replaying(), false
	if again {
		proved = from.deferred.proved
	} else {
		err := ad.checkRate(from)
		if err == nil {
			proved, err = ad.proved(from, m, message)
		}
		if err != nil {
			return requester{}, err
		}
	}
	p, first := ad.claimedPeer(from, &m.Address)
	if err := ad.admit(from, p, proved); err != nil {
		ad.notPeer(from, first)
		return requester{}, err
	}
	q := requester{claimed: ad.validateAddress(from, &m.Address)}
	p, second := ad.claimedPeer(from, &m.Address)
	ad.notPeer(from, first || second)
	if q.peer = p; p == nil && proved && m.Type == proto.WireupRequest {
		q.peer = ad.migratedPeer(from, q.claimed, m)
		q.migrated = q.peer != nil
	}
	err := ad.admit(from, q.peer, proved)
	q.deferred = err == nil && !again && ad.deferRequest(from, &m.Address, message, proved)
	return q, err
}

// notPeer counts that who asks has not the certificate of whom he says that he is.
func (ad *admission) notPeer(from *source, so bool) {
	w := ad.w
	if so && w.refused(from, ledger.Claim) {
		w.ctx.log.Diag("a peer's certificate does not belong to the peer that its request names: treating it as another peer",
			zap.String("worker", w.name), zap.Stringer("from", from.account().ledger.Source()))
	}
}

// claimedPeer returns the peer that has sent a request: who goes by its uuid and has an
// entry of its address, as far as that is believed; nil for nobody. Requests through
// memory of ours are believed also if the application gave another part of the
// peer's address. other says that the address is of a peer with another certificate.
func (ad *admission) claimedPeer(from *source, addr *proto.WorkerAddress) (p *peer, other bool) {
	w := ad.w
	p = w.peers.findPeer(addr.UUID, entriesOf(addr))
	if p != nil && !p.provenBy(from) {
		return nil, true
	}
	if p == nil && from.uct == nil {
		p = w.peers.trustedPeer(addr.UUID)
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
	w.peers.peerOf(&addr).allowed = true
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
	if p := w.peers.findPeer(addr.UUID, entriesOf(&addr)); p != nil && p.allowed {
		p.allowed = false
		w.peers.releasePeer(p)
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

// admit refuses requests of peers that the application does not vouch for, if that
// is what it wants, or if they have not proved that they have its address. The error
// drops the connection: the peer shall not wait.
func (ad *admission) admit(from *source, p *peer, proved bool) error {
	w := ad.w
	switch {
	case p != nil && p.trusted():
		return nil
	case !proved:
		return ad.unproved(from)
	case !w.params.Closed && !w.ctx.settings.Closed:
		return nil
	}
	err := fmt.Errorf("ucp: the worker is closed to unknown peers: %w", ucs.ErrRejected)
	if w.refused(from, ledger.Policy) {
		w.ctx.log.Warn("request of an unknown peer refused", zap.String("worker", w.name), zap.Error(err))
	}
	return err
}

// staleRequest reports whether a question whether an end still exists can be of a worker to
// which the application had an endpoint: it came through memory of ours, with a uuid that
// is remembered. Such a question is answered, whoever the worker is open to now. On a
// connection a refusal says as much, as the connection ends; in memory nothing else
// would, and the peer would wait for as long as this process lives. It needs no proof of
// the token, as C UCX knows none. Who is somebody else and has seen the uuid is a process
// of our user, and learns that there is no such endpoint.
func (ad *admission) staleRequest(from *source, m *proto.Wireup) bool {
	w := ad.w
	k := w.peers.byUUID[m.Address.UUID]
	return from.uct == nil && k != nil && k.nextSN != 0
}

// keepLocalEntries leaves in an address what leads within the machine.
func (ad *admission) keepLocalEntries(addr *proto.WorkerAddress) {
	w := ad.w
	for k := range addr.Devices {
		d := &addr.Devices[k]
		d.Ifaces = slices.DeleteFunc(d.Ifaces, func(f proto.AddressIface) bool {
			return !slices.ContainsFunc(w.ifaces, func(i *iface) bool { return i.id == f.Transport && i.inside() })
		})
	}
}

// certificate stands for whom a certificate names. Where the peer's was verified that is
// its subject with the alternative names, so that a certificate may be renewed;
// otherwise, and if there are no names, it is the key.
type certificate [sha256.Size]byte

// extensionSAN are the alternative names of a certificate's subject (RFC 5280, 4.2.1.6).
var extensionSAN = asn1.ObjectIdentifier{2, 5, 29, 17}

// certificateOf returns what the peer of a connection has proved; nil without TLS, and
// for peers without a certificate.
func certificateOf(t *tls.ConnectionState) *certificate {
	if t == nil || len(t.PeerCertificates) == 0 {
		return nil
	}
	c := t.PeerCertificates[0]
	named := c.RawSubjectPublicKeyInfo
	if names := namesIn(c); len(t.VerifiedChains) > 0 && len(names) > 0 {
		named = names
	}
	p := certificate(sha256.Sum256(named))
	return &p
}

// namesIn returns the names of a certificate, nil if it has none.
func namesIn(c *x509.Certificate) []byte {
	var san []byte
	for _, e := range c.Extensions {
		if e.Id.Equal(extensionSAN) {
			san = e.Value
		}
	}
	if empty := []byte{0x30, 0}; bytes.Equal(c.RawSubject, empty) && san == nil {
		return nil
	}
	return append(bytes.Clone(c.RawSubject), san...)
}

// certificate is what the peer of a connection has proved. It is worked out once.
func (s *source) certificate() *certificate {
	l := s.locator()
	if l == nil {
		return nil
	}
	if !s.certificateRead {
		s.certificateRead, s.peerCertificate = true, certificateOf(l.SourceTLS())
	}
	return s.peerCertificate
}

// provenBy reports whether a connection can be the peer's: who was heard with a
// certificate is not somebody without it. What came through memory of ours is as good.
func (p *peer) provenBy(from *source) bool {
	if p.certificate() == nil || from.locator() == nil {
		return true
	}
	q := from.certificate()
	return q != nil && *q == *p.certificate()
}
