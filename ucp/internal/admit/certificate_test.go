package admit

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
)

// TestCertificateOf: a verified certificate is known by its names and may be renewed; any other is
// known by its key.
func TestCertificateOf(t *testing.T) {
	of := func(subject, names, key string, verified bool) *Certificate {
		c := &x509.Certificate{RawSubject: []byte(subject), RawSubjectPublicKeyInfo: []byte(key)}
		if names != "" {
			c.Extensions = []pkix.Extension{{Id: extensionSAN, Value: []byte(names)}}
		}
		s := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
		if verified {
			s.VerifiedChains = [][]*x509.Certificate{{c}}
		}
		return CertificateOf(s)
	}
	const none = "\x30\x00" // an empty subject
	for _, c := range []struct {
		name string
		a, b *Certificate
		same bool
	}{
		{"renewed", of("s", "a", "1", true), of("s", "a", "2", true), true},
		{"renewed, without a subject", of(none, "a", "1", true), of(none, "a", "2", true), true},
		{"another subject", of("s", "a", "1", true), of("r", "a", "1", true), false},
		{"other names", of("s", "a", "1", true), of("s", "b", "1", true), false},
		{"not verified", of("s", "a", "1", false), of("s", "a", "2", false), false},
		{"not verified, the same key", of("s", "a", "1", false), of("s", "b", "1", false), true},
		{"nameless", of(none, "", "1", true), of(none, "", "2", true), false},
		{"nameless, the same key", of(none, "", "1", true), of(none, "", "1", false), true},
	} {
		if same := *c.a == *c.b; same != c.same {
			t.Errorf("%s: the same is %v", c.name, same)
		}
	}
	if CertificateOf(nil) != nil || CertificateOf(new(tls.ConnectionState)) != nil {
		t.Error("a peer without a certificate has one")
	}
}
