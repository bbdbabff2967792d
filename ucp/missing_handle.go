package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Calls of handles that were not made by this package give an error. A look at the pointer
// takes the place of the one that the processor would do, so it costs nothing on short paths.

func (ep *Endpoint) missing() bool { return ep == nil || ep.w == nil }
func (w *Worker) missing() bool    { return w == nil || w.ctx == nil }
func (c *Context) missing() bool   { return c == nil || c.set == nil }
func (m *Memory) missing() bool    { return m == nil || m.ctx == nil }
func (k *Rkey) missing() bool      { return k == nil || k.ep == nil }
func (l *Listener) missing() bool  { return l == nil || l.w == nil }

// errMissing is the error of a call of a handle that is nil, or a zero value.
//
//go:noinline
func errMissing(call string, isNil bool) error {
	if isNil {
		return fmt.Errorf("ucp: %s of nil: %w", call, ucs.ErrInvalidParam)
	}
	return fmt.Errorf("ucp: %s of a zero value, which the package has not made: %w", call, ucs.ErrInvalidParam)
}
