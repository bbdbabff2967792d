//go:build linux

package tcp

import (
	"crypto/tls"
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// tlsComponent returns a component with a TLS configuration.
func tlsComponent(t testing.TB, cfg *tls.Config) uct.Component {
	t.Helper()
	c, err := TLS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tlsHost is newHost with TLS.
func tlsHost(t testing.TB, cfg *tls.Config, vars ...string) *host {
	t.Helper()
	return newHostOf(t, tlsComponent(t, cfg), "", vars...)
}
