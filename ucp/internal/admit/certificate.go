package admit

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
)

// Certificate identifies the holder of a TLS certificate. If the certificate was verified and has
// names, it is the SHA-256 of the subject with the alternative names, so that a certificate may
// be renewed. Otherwise it is the SHA-256 of the public key.
type Certificate [sha256.Size]byte

// extensionSAN are the alternative names of a certificate's subject (RFC 5280, 4.2.1.6).
var extensionSAN = asn1.ObjectIdentifier{2, 5, 29, 17}

// CertificateOf returns the identity in the certificate of a connection's peer; nil without TLS,
// and for peers without a certificate.
func CertificateOf(t *tls.ConnectionState) *Certificate {
	if t == nil || len(t.PeerCertificates) == 0 {
		return nil
	}
	c := t.PeerCertificates[0]
	named := c.RawSubjectPublicKeyInfo
	if names := namesIn(c); len(t.VerifiedChains) > 0 && len(names) > 0 {
		named = names
	}
	p := Certificate(sha256.Sum256(named))
	return &p
}

// namesIn returns the encoded subject and alternative names of a certificate, nil if it has none.
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
