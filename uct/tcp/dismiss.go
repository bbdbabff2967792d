//go:build linux

package tcp

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// Reasons for which connections of guests are dropped.
var (
	errCrowded = errors.New("the peer's address has too many connections")
	errFiles   = errors.New("the remaining descriptors are reserved for the application, raise the limit (ulimit -n)")
	errStalled = errors.New("the rest of a frame did not arrive")
	errBegun   = errors.New("the connections of the peer's address hold too many bytes of unfinished frames")
)

// dismiss drops a connection because its source exceeds a limit: r names the limit, and why is
// the cause in the error and in the log.
func (c *conn) dismiss(r ledger.Reason, why error) {
	if g := c.visit.guest; g != nil && g.account.Refuse(r) {
		c.iface.svc.w.Log().Warn("dropping the connection of a peer", zap.Stringer("source", g.account.Source()),
			zap.Int("connections", g.count()), zap.Error(why))
	}
	c.refuse(fmt.Errorf("%w: %w", why, ucs.ErrNoResource))
}
