//go:build linux

package sockcm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// errResting is the error of Listen at an address that has no listener, but still has connections
// of a closed listener.
var errResting = fmt.Errorf("%w: connections of a closed listener still use it; "+
	"set ReuseAddr in the listener's parameters, or UCX_TCP_CM_REUSEADDR=y", unix.EADDRINUSE)

// Causes for the end of a connection, besides system errors and protocol violations.
var (
	errEnd  = errors.New("closed by the peer")
	errSelf = fmt.Errorf("no listener: %w", ucs.ErrNotConnected)
)

// remarkable reports whether an error is logged: protocol violations and network errors are,
// but not refused, closed or reset connections.
func remarkable(err error) bool {
	var b violation
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return errors.As(err, &b)
	}
	return errno != unix.ECONNREFUSED && errno != unix.ECONNRESET && errno != unix.EPIPE
}
