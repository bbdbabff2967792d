//go:build !linux

package event

import (
	"fmt"
	"runtime"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// Set does not exist here: NewSet fails, so that no method is ever called.
type Set struct{}

// NewSet returns an error that matches ucs.ErrUnsupported.
func NewSet() (*Set, error) {
	return nil, fmt.Errorf("event: no epoll on %s: %w", runtime.GOOS, ucs.ErrUnsupported)
}

func (*Set) FD() int                        { return -1 }
func (*Set) Len() int                       { return 0 }
func (*Set) Add(int, Events, Handler) error { return ucs.ErrUnsupported }
func (*Set) Modify(int, Events) error       { return ucs.ErrUnsupported }
func (*Set) Remove(int) error               { return ucs.ErrUnsupported }
func (*Set) Poll() int                      { return 0 }
func (*Set) Close() error                   { return nil }

type alarm struct{}

func (*alarm) open(*Set, Handler) error { return ucs.ErrUnsupported }
func (*alarm) set(time.Duration) error  { return ucs.ErrUnsupported }
func (*alarm) clear()                   {}
func (*alarm) close(*Set) error         { return nil }
