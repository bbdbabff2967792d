//go:build linux

package sockcm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// Errors of calls.
var (
	errBusy      = fmt.Errorf("tcp: connection manager: OnConnected or OnNotify has an error to report first: %w", ucs.ErrBusy)
	errClosed    = fmt.Errorf("tcp: the connection manager is closed: %w", ucs.ErrInvalidParam)
	errForeign   = fmt.Errorf("tcp: connection manager: the request does not belong to the component: %w", ucs.ErrInvalidParam)
	errConsumed  = fmt.Errorf("tcp: connection manager: the request is accepted or rejected already: %w", ucs.ErrInvalidParam)
	errDropped   = fmt.Errorf("tcp: connection manager: the request ended with its listener: %w", ucs.ErrCanceled)
	errCrowded   = fmt.Errorf("tcp: connection manager: the request was dropped to make room for another source: %w", ucs.ErrCanceled)
	errNotYet    = fmt.Errorf("tcp: connection manager: the endpoint is not connected yet: %w", ucs.ErrBusy)
	errNoLink    = fmt.Errorf("tcp: connection manager: the endpoint is not connected: %w", ucs.ErrNotConnected)
	errNotClient = fmt.Errorf("tcp: connection manager: only the client's endpoint notifies: %w", ucs.ErrUnsupported)
	errTwice     = fmt.Errorf("tcp: connection manager: the server is notified already: %w", ucs.ErrInvalidParam)
)

// errResting is why nobody can listen at an address that nobody listens at.
var errResting = fmt.Errorf("%w by connections of a server that has ended; "+
	"set ReuseAddr in the listener's parameters, or UCX_TCP_CM_REUSEADDR=y", unix.EADDRINUSE)

// What ends connections, beside the system and what peers do wrong.
var (
	errEnd  = errors.New("closed by the peer")
	errSelf = fmt.Errorf("no listener: %w", ucs.ErrNotConnected)
)

// remarkable reports whether an error is worth a line of the log: where a peer breaks the
// protocol, or the network is at fault, and not where somebody has just gone or says no.
func remarkable(err error) bool {
	var b breach
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return errors.As(err, &b)
	}
	return errno != unix.ECONNREFUSED && errno != unix.ECONNRESET && errno != unix.EPIPE
}

// tooLong is the error of private data that does not fit.
func tooLong(n, limit int) error {
	return fmt.Errorf("tcp: connection manager: %d bytes of private data, the limit is %d: %w", n, limit, ucs.ErrExceedsLimit)
}
