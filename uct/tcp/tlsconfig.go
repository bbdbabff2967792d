//go:build linux

package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
)

// alpn is the protocol that both ends agree on where the application names none. A
// server of something else that has the same certificates is no peer.
const alpn = "ucx"

// complete returns a copy of a configuration with what this transport insists on.
func complete(cfg *tls.Config) (*tls.Config, error) {
	invalid := func(why string) error { return fmt.Errorf("tls: %s: %w", why, ucs.ErrInvalidParam) }
	switch {
	case cfg == nil:
		return nil, invalid("no configuration")
	case len(cfg.Certificates) == 0 && cfg.GetCertificate == nil && cfg.GetConfigForClient == nil:
		// Every peer listens.
		return nil, invalid("the configuration has no certificate to show to peers that connect")
	case cfg.MaxVersion != 0 && cfg.MaxVersion < tls.VersionTLS13:
		return nil, invalid("the configuration does not allow TLS 1.3")
	}
	return hardened(cfg), nil
}

// hardened is the part of complete that holds for any configuration.
func hardened(cfg *tls.Config) *tls.Config {
	c := cfg.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS13)
	c.Renegotiation = tls.RenegotiateNever // there is none in TLS 1.3
	// Short records in the beginning help browsers to show something soon.
	c.DynamicRecordSizingDisabled = true
	if len(c.NextProtos) == 0 {
		c.NextProtos = []string{alpn}
	}
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			other, err := choose(h)
			if other == nil || err != nil {
				return nil, err
			}
			return hardened(other), nil
		}
	}
	return c
}

// forPeer returns the configuration with which to connect to a peer: unless the
// application has one name for all, its certificate is for its address.
func forPeer(cfg *tls.Config, peer netip.Addr) *tls.Config {
	if cfg.ServerName != "" {
		return cfg
	}
	c := cfg.Clone()
	c.ServerName = peer.String()
	return c
}

var errNoProtocol = errors.New("tls: the peer has negotiated no protocol (ALPN)")

// checkState looks at what a handshake has led to.
func checkState(s *tls.ConnectionState) error {
	// A peer that does not use ALPN is no peer of ours, and crypto/tls lets it pass.
	if s.NegotiatedProtocol == "" {
		return errNoProtocol
	}
	return nil
}
