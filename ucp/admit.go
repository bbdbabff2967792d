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

// Admission control for wireup requests and endpoint checks.

// admission decides which wireup requests a worker answers.
type admission struct {
	w               *Worker
	rates           map[ledger.Source]*requestRate
	replay          func(src *uct.Source, message []byte) error // handles a request that was deferred
	unreachableTold bool                                        // a peer that could not be answered was logged
	mismatchTold    bool                                        // a peer that would hang was logged
}

// requester is the sender of a request, as far as the request is verified.
type requester struct {
	peer     *peer                // nil if the sender is not a known peer
	claimed  *proto.WorkerAddress // the address that the sender claims, nil if the address is verified
	migrated bool                 // the sender may be peer, and may be any other process
	deferred bool                 // the request is deferred
}

// admitRequest decides whether the worker does what a peer asks for. The checks run in the order
// of their cost: how often the peer has asked, whether the peer has proved that it may ask,
// whether the worker is open to the peer that the sender claims to be, and last whether the claim
// is true. admitRequest leaves in m.Address only what is verified. The error drops the
// connection.
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

// notPeer counts, if so is set, that a sender does not have the certificate of the peer that it
// claims to be.
func (ad *admission) notPeer(from *source, so bool) {
	w := ad.w
	if so && w.refused(from, ledger.Claim) {
		w.ctx.log.Diag("a peer's certificate does not belong to the peer that its request names: treating it as another peer",
			zap.String("worker", w.name), zap.Stringer("from", from.account().ledger.Source()))
	}
}

// claimedPeer returns the peer that has the uuid of an address and shares an entry with the
// address, nil if there is none. A request through memory of this process is also accepted if the
// application gave another part of the peer's address. other reports that the peer has another
// certificate than the sender; p is then nil.
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

// admit refuses requests of peers that the application does not trust, if the worker is closed or
// the peers have not proved that they have the worker's address. The error drops the connection,
// so that the peer does not wait.
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

// staleRequest reports whether an endpoint check can come from a worker to which the application
// had an endpoint: the message came through memory of this process, with a uuid that is
// remembered. Such a check is answered, whichever peers the worker is open to now. On a
// connection a refusal says as much, as the connection ends. In memory nothing else would, and
// the peer would wait for as long as this process lives. The message needs no proof of the token,
// as C UCX has no tokens. Any other process that has seen the uuid is a process of the same user,
// and learns only that there is no such endpoint.
func (ad *admission) staleRequest(from *source, m *proto.Wireup) bool {
	w := ad.w
	k := w.peers.byUUID[m.Address.UUID]
	return from.uct == nil && k != nil && k.nextSN != 0
}

// keepLocalEntries removes from an address all entries that lead out of the machine.
func (ad *admission) keepLocalEntries(addr *proto.WorkerAddress) {
	w := ad.w
	for k := range addr.Devices {
		d := &addr.Devices[k]
		d.Ifaces = slices.DeleteFunc(d.Ifaces, func(f proto.AddressIface) bool {
			return !slices.ContainsFunc(w.ifaces, func(i *iface) bool { return i.id == f.Transport && i.inside() })
		})
	}
}

// certificate identifies the holder of a TLS certificate. If the certificate was verified and has
// names, it is the SHA-256 of the subject with the alternative names, so that a certificate may
// be renewed. Otherwise it is the SHA-256 of the public key.
type certificate [sha256.Size]byte

// extensionSAN are the alternative names of a certificate's subject (RFC 5280, 4.2.1.6).
var extensionSAN = asn1.ObjectIdentifier{2, 5, 29, 17}

// certificateOf returns the certificate of the peer of a connection; nil without TLS, and for
// peers without a certificate.
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

// namesIn returns the subject and the alternative names of a certificate, nil if it has none.
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

// certificate returns the certificate of the connection's peer, nil if there is none. It is
// determined once.
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

// provenBy reports whether a connection can be the peer's. A peer that first connected with a
// certificate does not come without that certificate. Messages through memory of this process
// need no certificate.
func (p *peer) provenBy(from *source) bool {
	if p.certificate() == nil || from.locator() == nil {
		return true
	}
	q := from.certificate()
	return q != nil && *q == *p.certificate()
}
