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

// DropSource implements uct.SourceOwner. A connection that the peer has made is forgotten; the
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

// SourceError implements uct.SourceExplainer. It returns the error that the application's endpoint
// has failed with.
func (c *conn) SourceError() error {
	if c.ep == nil || c.ep.failed == ucs.ErrCanceled {
		return nil
	}
	return c.ep.failed
}

// SourceInfo implements uct.SourceLocator. The source addresses of the packets have been checked
// against this address, unless that check is turned off.
func (c *conn) SourceInfo() uct.SourceInfo {
	return uct.SourceInfo{
		Addr:  netip.AddrPortFrom(c.iface.AddrOf(&c.device), 0),
		Local: c.iface.Here(&c.device),
		User:  uct.PeerUser{UID: -1, GID: -1, PID: -1},
	}
}

// SourceTLS implements uct.SourceLocator.
func (c *conn) SourceTLS() *tls.ConnectionState { return nil }

// HeldBy implements uct.SourceLocator. It returns false: the holder cannot be determined.
func (c *conn) HeldBy(uct.Process) bool { return false }
