//go:build linux

package ud

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var _ interface {
	uct.SourceOwner
	uct.Connection
} = (*conn)(nil)

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

// SourceShared implements uct.SourceOwner.
func (c *conn) SourceShared() bool { return c.ep != nil }

// SourceError implements uct.SourceOwner. It returns the error that the application's endpoint
// has failed with.
func (c *conn) SourceError() error {
	if c.ep == nil || c.ep.failed == ucs.ErrCanceled {
		return nil
	}
	return c.ep.failed
}

// CheckSource implements uct.SourceOwner. A connection that the peer has made ends if the peer does
// not acknowledge the keepalive.
func (c *conn) CheckSource() {
	c.iface.enter()
	defer c.iface.leave()
	c.flow.Check()
}

// SourceInfo implements uct.Connection. The source addresses of the packets have been checked
// against this address, unless that check is turned off.
func (c *conn) SourceInfo() uct.SourceInfo { return c.iface.SourceInfo(&c.device) }
