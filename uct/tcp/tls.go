//go:build linux

package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Connections inside TLS differ from those of tcp in one thing: an endpoint sends only on the
// connection that it has made itself, on which the peer has proved its identity. A peer that
// connects to this side has proved only that it may connect, and even that only if the
// application's configuration requires it. This side only receives on such a connection. So two
// peers that send to each other have two connections, and endpoints are not connected by keys.
//
// This process encrypts, not the kernel. Kernel TLS needs the keys of a connection after its
// handshake, which crypto/tls reveals only in a log for debuggers. Kernel TLS would encrypt on
// the same CPU and save one copy.

// tlsName is the name of the component that TLS returns, of its memory domain and of its
// transport.
const tlsName = "tls"

// secured is a component whose connections are encrypted and authenticated as an application has
// configured. It is not registered: each application has a component of its own.
type secured struct {
	config *tls.Config
}

// TLS returns the component of the transport "tls": the transport of this package inside TLS 1.3,
// with cfg for its connections as client and as server. It has the devices and settings of tcp. cfg
// is copied; ucp.ContextParams.TLS lists its requirements.
func TLS(cfg *tls.Config) (uct.Component, error) {
	c, err := complete(cfg)
	if err != nil {
		return nil, err
	}
	return &secured{config: c}, nil
}

// Name implements uct.Component.
func (*secured) Name() string { return tlsName }

// Flags implements uct.Component.
func (*secured) Flags() uct.ComponentFlags { return 0 }

// Transports implements uct.Component.
func (*secured) Transports() []string { return []string{tlsName} }

// MemoryDomains implements uct.Component.
func (*secured) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: tlsName}}, nil
}

// OpenMD implements uct.Component.
func (s *secured) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	if name != tlsName {
		return nil, fmt.Errorf("tls: no memory domain %q: %w", name, ucs.ErrNoDevice)
	}
	opts, err := loadMDOptions(cfg)
	if err != nil {
		return nil, err
	}
	m := newDomain(opts)
	m.tls, m.secure = s.config, secure
	m.attr.Component, m.attr.Name = tlsName, tlsName
	// Every byte passes through a cipher, so registered memory has no use.
	m.attr.Flags, m.attr.RegTypes, m.attr.MaxReg = 0, nil, 0
	return m, nil
}

// alpn is the protocol that both sides negotiate if the application's configuration names none. A
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

// tlsSeg is the length in bytes to which the limit of copied messages is raised, but not above
// RX_SEG_SIZE, because there are no zero-copy messages.
const tlsSeg = 32 << 10

// sealed returns the options for connections inside TLS, where all messages are copied.
func (o options) sealed() options {
	o.maxIOV, o.maxHdr, o.putEnable = 0, 0, false
	o.sendv = math.MaxInt
	o.txSeg = max(o.txSeg, min(o.rxSeg, tlsSeg))
	return o
}

// The cost that encryption adds to the performance model of tcp. It is high enough that tls is
// chosen only if no other transport reaches the peer or is allowed.
const (
	tlsOverhead = 20e-6 // seconds for each message, on each side
	tlsLatency  = 5e-6  // seconds
	tlsRate     = 0.5   // factor by which the bandwidth is multiplied
)

// sealedPerf returns the performance model of connections inside TLS, given that of tcp.
func sealedPerf(p uct.Perf) uct.Perf {
	p.Overhead += tlsOverhead
	p.SendOverhead += tlsOverhead
	p.RecvOverhead += tlsOverhead
	p.BandwidthShared *= tlsRate
	p.Latency.C += tlsLatency
	return p
}
