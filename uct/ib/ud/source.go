//go:build linux

package ud

import (
	"crypto/tls"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var (
	_ uct.SourceLocator   = (*conn)(nil)
	_ uct.SourceSharer    = (*conn)(nil)
	_ uct.SourceExplainer = (*conn)(nil)
)

// DropSource implements uct.SourceOwner: what the peer has made goes, and the
// application's endpoint fails.
func (c *conn) DropSource(err error) {
	c.iface.enter()
	defer c.iface.leave()
	c.dropped = true
	c.flow.Drop(fmt.Errorf("dropped the connection: %w", err))
	if c.over {
		c.finish()
	}
}

// SourceShared implements uct.SourceSharer.
func (c *conn) SourceShared() bool { return c.ep != nil }

// SourceError implements uct.SourceExplainer: with the application's endpoint, if that has failed.
func (c *conn) SourceError() error {
	if c.ep == nil || c.ep.failed == ucs.ErrCanceled {
		return nil
	}
	return c.ep.failed
}

// SourceInfo implements uct.SourceLocator. That packets come from this address has been
// looked at, unless that is turned off.
func (c *conn) SourceInfo() uct.SourceInfo {
	return uct.SourceInfo{
		Addr:  netip.AddrPortFrom(c.iface.AddrOf(&c.device), 0),
		Local: c.iface.Here(&c.device),
		User:  uct.PeerUser{UID: -1, GID: -1, PID: -1},
	}
}

// SourceTLS implements uct.SourceLocator.
func (c *conn) SourceTLS() *tls.ConnectionState { return nil }

// HeldBy implements uct.SourceLocator: nothing tells.
func (c *conn) HeldBy(uct.Process) bool { return false }
