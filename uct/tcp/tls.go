//go:build linux

package tcp

import (
	"crypto/tls"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Connections inside of TLS are those of tcp but for this: an endpoint sends on none
// but its own, which it has made itself and whose other end has proved that it is
// whom the endpoint means. Who connects to us has proved no more than that it may
// connect, if the application asks for that much, and is only listened to. So two
// peers that send to each other have two connections, and endpoints are not connected
// by keys.
//
// Everything is encrypted here, not by the kernel. Kernel TLS wants the keys of a
// connection whose handshake is over, and crypto/tls has no way to give them away, but
// for a log that debuggers read. It would encrypt on the same CPU, and save one copy.

// tlsName is the name of the component that TLS makes, of its memory domain and of
// its transport.
const tlsName = "tls"

// secured is a component whose connections are encrypted and authenticated as an
// application wants it. It is not registered: each application has its own.
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
	// Every byte passes through a cipher: there is nothing to register for.
	m.attr.Flags, m.attr.RegTypes, m.attr.MaxReg = 0, nil, 0
	return m, nil
}
