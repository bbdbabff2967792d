//go:build !linux

package async

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// TestNoDescriptors: they cannot be watched on this system, and say so.
func TestNoDescriptors(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		if err := c.SetEventHandler(0, event.Read, nothing); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("SetEventHandler = %v", err)
		}
	})
}
