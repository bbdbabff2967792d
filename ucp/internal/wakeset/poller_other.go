//go:build !linux || simulate

package wakeset

import (
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/ucs"
)

// poller is never made on this system, where an application has no descriptor to poll.
type poller struct {
	set  int
	rung bool
}

func newPoller(int) (*poller, error) { return nil, nil }

func (*poller) ring()    {}
func (*poller) answer()  {}
func (*poller) outlive() {}
func (*poller) close()   {}

// AddTo returns ucs.ErrUnsupported: this system has no epoll.
func AddTo(set, fd int, data uint64, edge bool) error {
	return fmt.Errorf("ucp: no epoll on %s: %w", runtime.GOOS, ucs.ErrUnsupported)
}
