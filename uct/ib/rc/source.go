//go:build linux

package rc

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Source implements uct.NetworkEndpoint.
func (e *endpoint) Source() *uct.Source {
	if !e.connected || e.qp == nil || e.discards {
		return nil
	}
	return &e.source
}

// DropSource implements uct.SourceOwner. The connection is the endpoint, which fails.
func (e *endpoint) DropSource(err error) { e.drop(err) }

// SourceShared implements uct.SourceOwner.
func (e *endpoint) SourceShared() bool { return !e.closed }

// SourceError implements uct.SourceOwner. It returns no error for an endpoint that was
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

// SourceInfo implements uct.Connection.
func (e *endpoint) SourceInfo() uct.SourceInfo { return e.iface.SourceInfo(&e.device) }
