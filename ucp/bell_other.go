//go:build !linux

package ucp

import (
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/ucs"
)

// bell is never made on this system, where the application has no descriptor to poll.
type bell struct {
	set  int
	rung bool
}

func newBell(int) (*bell, error) { return nil, nil }

func (*bell) ring()    {}
func (*bell) answer()  {}
func (*bell) outlive() {}
func (*bell) close()   {}

func (*EpollTarget) add(int) error {
	return fmt.Errorf("ucp: no epoll on %s: %w", runtime.GOOS, ucs.ErrUnsupported)
}
