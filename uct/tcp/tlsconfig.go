//go:build linux

package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
)

// alpn is the protocol that both ends negotiate if the application's configuration names none. A
// server of another protocol with the same certificates is thus not accepted as a peer.
const alpn = "ucx"

// complete validates a configuration, and returns a copy with the settings that this transport
// requires.
func complete(cfg *tls.Config) (*tls.Config, error) {
	invalid := func(why string) error { return fmt.Errorf("tls: %s: %w", why, ucs.ErrInvalidParam) }
	switch {
	case cfg == nil:
		return nil, invalid("no configuration")
	case len(cfg.Certificates) == 0 && cfg.GetCertificate == nil && cfg.GetConfigForClient == nil:
		// Every process listens, so it is a TLS server too.
		return nil, invalid("the configuration has no certificate to show to peers that connect")
	case cfg.MaxVersion != 0 && cfg.MaxVersion < tls.VersionTLS13:
		return nil, invalid("the configuration does not allow TLS 1.3")
	}
	return hardened(cfg), nil
}

// hardened returns a copy of a configuration with the settings that this transport requires, also
// for the configurations that GetConfigForClient returns.
func hardened(cfg *tls.Config) *tls.Config {
	c := cfg.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS13)
	c.Renegotiation = tls.RenegotiateNever // TLS 1.3 has no renegotiation
	// Short records at the beginning only help browsers to display content early.
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

// forPeer returns the configuration with which to connect to a peer. The peer's certificate must
// be for its IP address, unless the application's configuration has one ServerName for all peers.
func forPeer(cfg *tls.Config, peer netip.Addr) *tls.Config {
	if cfg.ServerName != "" {
		return cfg
	}
	c := cfg.Clone()
	c.ServerName = peer.String()
	return c
}

var errNoProtocol = errors.New("tls: the peer has negotiated no protocol (ALPN)")

// checkState validates the result of a handshake.
func checkState(s *tls.ConnectionState) error {
	// A peer that does not use ALPN does not speak this protocol, but crypto/tls accepts it.
	if s.NegotiatedProtocol == "" {
		return errNoProtocol
	}
	return nil
}
