//go:build linux

package tcp

import (
	"crypto/tls"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Connections inside TLS differ from those of tcp in one thing: an endpoint sends only on the
// connection that it has made itself, whose other end has proved to be the peer that the endpoint
// means. A peer that connects to this side has proved only that it may connect, and even that
// only if the application asks for it; this side only receives on such a connection. So two peers
// that send to each other have two connections, and endpoints are not connected by keys.
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

// TLS returns the component of the transport "tls": the transport of this package inside
// TLS 1.3, with cfg for both ends of its connections. It has the devices and settings of
// tcp. cfg is copied; ucp.ContextParams.TLS lists its requirements.
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
