// Package certtest makes certificates for tests. Its functions panic on errors.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"time"
)

// Day is the validity of certificates, long enough for a test.
const Day = 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	Pool *x509.CertPool // holds the authority's own certificate

	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	serial int64
}

// New makes a self-signed authority.
func New() *Authority {
	a := &Authority{Pool: x509.NewCertPool()}
	a.key, a.cert = a.sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "authority"},
		NotAfter:              time.Now().Add(Day),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
	a.Pool.AddCert(a.cert)
	return a
}

// sign completes and signs a certificate. Without an authority's key the certificate signs itself.
func (a *Authority) sign(template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore = time.Now().Add(-2 * Day)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return key, cert
}

// Issue makes a certificate for a name and the loopback addresses. It is valid for the given time
// from now on; with a negative time it has expired.
func (a *Authority) Issue(name string, valid time.Duration) tls.Certificate {
	key, cert := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotAfter:    time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature,
	})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// Mutual returns the configuration of a peer with that name, which presents a certificate and
// requires a certificate of the authority from the other side.
func (a *Authority) Mutual(name string) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{a.Issue(name, Day)},
		RootCAs:      a.Pool,
		ClientCAs:    a.Pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}
}
