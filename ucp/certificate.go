package ucp

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
)

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
	if !s.looked {
		s.looked, s.named = true, certificateOf(l.SourceTLS())
	}
	return s.named
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
