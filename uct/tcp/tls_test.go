//go:build linux

package tcp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestTLSConfig(t *testing.T) {
	good := certtest.New().Mutual("peer")
	for name, change := range map[string]func(*tls.Config){
		"no certificate": func(c *tls.Config) { c.Certificates = nil },
		"TLS 1.2":        func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
	} {
		bad := good.Clone()
		change(bad)
		if _, err := TLS(bad); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := TLS(nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("no configuration: %v", err)
	}
	good.MinVersion = tls.VersionTLS10
	good.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return new(tls.Config), nil }
	c := tlsComponent(t, good).(*secured).config
	other, _ := c.GetConfigForClient(nil)
	for _, c := range []*tls.Config{c, other} {
		if c.MinVersion != tls.VersionTLS13 || len(c.NextProtos) != 1 {
			t.Errorf("version %#x, protocols %v", c.MinVersion, c.NextProtos)
		}
	}
	if good.MinVersion != tls.VersionTLS10 || good.NextProtos != nil {
		t.Error("the application's configuration has changed")
	}
	if _, err := tlsComponent(t, good).OpenMD("tcp", nil); !errors.Is(err, ucs.ErrNoDevice) {
		t.Errorf("domain of another name: %v", err)
	}
}

// TestTLSIdentity: both sides know each other's certificate, also when a session is resumed.
func TestTLSIdentity(t *testing.T) {
	ca := certtest.New()
	alice := ca.Mutual("alice")
	alice.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	a, b := tlsHost(t, alice), tlsHost(t, ca.Mutual("bob"))
	var from []uct.SourceInfo
	b.iface.SetAMHandler(1, func(src *uct.Source, _ []byte, _ *uct.AMDesc) error {
		from = append(from, infoOf(src))
		return nil
	})
	who := func(s *tls.ConnectionState) string {
		if s == nil || len(s.PeerCertificates) == 0 || len(s.VerifiedChains) == 0 {
			return "nobody"
		}
		return fmt.Sprint(s.PeerCertificates[0].Subject.CommonName, " ", s.DidResume, " ", s.NegotiatedProtocol)
	}
	for k := range 2 {
		ep := a.connect(b)
		if info := infoOf(ep.Source()); info.TLS != nil {
			t.Error("it is known before it can be")
		}
		until(t, "connect", connected(ep), a, b)
		ep.AMShort(1, 0, nil, 0, nil)
		until(t, "message", func() bool { return len(from) == k+1 }, a, b)
		if got, want := who(infoOf(ep.Source()).TLS), fmt.Sprintf("bob %v ucx", k == 1); got != want {
			t.Errorf("connection %d leads to %s, want %s", k, got, want)
		}
		if got, want := who(from[k].TLS), fmt.Sprintf("alice %v ucx", k == 1); got != want || !from[k].Local {
			t.Errorf("connection %d comes from %s, local %v, want %s", k, got, from[k].Local, want)
		}
	}
}

// infoOf returns what a source's owner knows about the peer.
func infoOf(src *uct.Source) uct.SourceInfo { return src.Owner.(uct.Connection).SourceInfo() }

// TestTLSRefused: a peer without the required proof gets no message through, and the endpoint fails
// at once with the reason.
func TestTLSRefused(t *testing.T) {
	ca, other := certtest.New(), certtest.New()
	for _, c := range []struct {
		name           string
		client, server func(*tls.Config)
		why            string
	}{
		{"client without certificate", func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }
		}, nil, "certificate required"},
		{"client of another authority", func(c *tls.Config) {
			c.Certificates = []tls.Certificate{other.Issue("mallory", time.Hour)}
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.Certificates[0], nil }
		}, nil, "unknown certificate authority"},
		{"client expired", func(c *tls.Config) {
			c.Certificates = []tls.Certificate{ca.Issue("old", -time.Hour)}
		}, nil, "expired certificate"},
		{"server of another authority", nil, func(c *tls.Config) {
			c.Certificates = []tls.Certificate{other.Issue("mallory", time.Hour)}
		}, "unknown authority"},
		{"server expired", nil, func(c *tls.Config) {
			c.Certificates = []tls.Certificate{ca.Issue("old", -time.Hour)}
		}, "expired"},
		{"server of another name", func(c *tls.Config) { c.ServerName = "cluster" }, nil, "is valid for"},
		{"client that a callback refuses", nil, func(c *tls.Config) {
			c.VerifyConnection = func(tls.ConnectionState) error { return errors.New("not today") }
		}, "bad certificate"},
		{"server of another protocol", nil, func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, "no application protocol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			from, to := ca.Mutual("alice"), ca.Mutual("bob")
			if c.client != nil {
				c.client(from)
			}
			if c.server != nil {
				c.server(to)
			}
			a, b := tlsHost(t, from), tlsHost(t, to)
			ep := a.connect(b)
			until(t, "failure", func() bool { return len(a.errs) == 1 }, a, b)
			if err := a.errs[0]; !errors.Is(err, ucs.ErrRejected) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("failed with %v, want %q", err, c.why)
			}
			if ep.attempts != 1 {
				t.Errorf("tried %d times", ep.attempts)
			}
			until(t, "the end of the connection", func() bool { return b.iface.conns == nil }, a, b)
			if len(b.got) != 0 {
				t.Errorf("delivered %v", b.got)
			}
			a.close()
			b.close()
		})
	}
}

// TestTLSTrust: an endpoint never sends on a connection that another peer has made, whichever
// listener and number that peer claims.
func TestTLSTrust(t *testing.T) {
	ca := certtest.New()
	cfg := ca.Mutual("good")
	cfg.ClientAuth = tls.NoClientCert // any client may connect
	h, good := tlsHost(t, cfg), tlsHost(t, ca.Mutual("good"))
	p := dialTLS(t, h, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{alpn}})
	p.send(flight(good.iface.addr, 0))
	p.want(ack)
	ep := h.connect(good)
	until(t, "connect", connected(ep), h, good)
	if err := ep.AMShort(1, 0, []byte("secret"), 0, nil); err != nil && err != ucs.InProgress {
		t.Fatal(err)
	}
	until(t, "message", func() bool { return len(good.got) == 1 }, h, good)
	p.wantSilence()

	if _, err := h.iface.NewEndpoint(uct.EndpointParams{}); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("an endpoint for whoever knows its key: %v", err)
	}
}

// TestTLSMemory checks that puts are refused within TLS.
func TestTLSMemory(t *testing.T) {
	ca := certtest.New()
	h := tlsHost(t, ca.Mutual("good"))
	if _, err := h.md.Register(make([]byte, 8), uct.AccessRemotePut); !errors.Is(err, ucs.ErrUnsupported) {
		t.Fatal(err)
	}
	cfg := ca.Mutual("bad")
	cfg.NextProtos = []string{alpn}
	p := dialTLS(t, h, cfg)
	p.send(flight(addr("127.0.0.1:5"), 0))
	p.want(ack)
	p.send(putReq(0x1000, 8, 0))
	p.wantClosed()
}

// TestTLSNames: with one name for all peers, their addresses do not matter.
func TestTLSNames(t *testing.T) {
	ca := certtest.New()
	cfg := ca.Mutual("cluster")
	cfg.ServerName = "cluster"
	leaf, _ := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
	if leaf.VerifyHostname("cluster") != nil {
		t.Fatal("the certificate is for another name")
	}
	a, b := tlsHost(t, cfg), tlsHost(t, cfg)
	until(t, "connect", connected(a.connect(b)), a, b)
}

// TestTLSAccept: the application is asked before a byte is read, and again once the certificate is
// known.
func TestTLSAccept(t *testing.T) {
	ca := certtest.New()
	h := tlsHost(t, ca.Mutual("bob"))
	var asked []string
	h.iface.accept = func(info uct.SourceInfo) bool {
		if info.TLS == nil {
			asked = append(asked, "stranger")
			return true
		}
		name := info.TLS.PeerCertificates[0].Subject.CommonName
		asked = append(asked, name)
		return name == "alice"
	}
	alice, mallory := tlsHost(t, ca.Mutual("alice")), tlsHost(t, ca.Mutual("mallory"), "MAX_CONN_RETRIES=1")
	until(t, "connect", connected(alice.connect(h)), alice, h)
	mallory.connect(h)
	until(t, "refusal", func() bool { return len(mallory.errs) == 1 }, mallory, h)
	if got := strings.Join(asked, " "); got != "stranger alice stranger mallory" {
		t.Errorf("asked about %s", got)
	}
	left(t, h, 1)
}
