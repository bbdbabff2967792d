//go:build linux

package rc

import (
	"crypto/tls"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var (
	_ uct.SourceLocator   = (*endpoint)(nil)
	_ uct.SourceSharer    = (*endpoint)(nil)
	_ uct.SourceExplainer = (*endpoint)(nil)
)

// Source implements uct.SourceHolder.
func (e *endpoint) Source() *uct.Source {
	if !e.connected || e.qp == nil || e.discards {
		return nil
	}
	return &e.source
}

// DropSource implements uct.SourceOwner. The connection is the endpoint, which fails.
func (e *endpoint) DropSource(err error) { e.drop(err) }

// SourceShared implements uct.SourceSharer.
func (e *endpoint) SourceShared() bool { return !e.closed }

// SourceError implements uct.SourceExplainer. It returns no error for an endpoint that was
// closed without one.
func (e *endpoint) SourceError() error {
	if e.failed == ucs.ErrCanceled {
		return e.silent
	}
	return e.failed
}

// drop ends the connection because of what arrived on it.
func (e *endpoint) drop(err error) {
	if e.discards {
		return
	}
	e.discards = true
	e.forget()
	e.fail(fmt.Errorf("rc: dropped the connection to %v: %w", &e.device, err))
	e.source.Gone()
}

// SourceInfo implements uct.SourceLocator.
func (e *endpoint) SourceInfo() uct.SourceInfo {
	return uct.SourceInfo{
		Addr:  netip.AddrPortFrom(e.iface.AddrOf(&e.device), 0),
		Local: e.iface.Here(&e.device),
		User:  uct.PeerUser{UID: -1, GID: -1, PID: -1},
	}
}

// SourceTLS implements uct.SourceLocator.
func (e *endpoint) SourceTLS() *tls.ConnectionState { return nil }

// HeldBy implements uct.SourceLocator. It is always false, since there is no way to find out.
func (e *endpoint) HeldBy(uct.Process) bool { return false }
