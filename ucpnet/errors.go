package ucpnet

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
)

// failure is an error of package ucp together with the errno that programs expect for it. errors.Is
// matches both. Its text is that of the errno alone, except for errnos that have many causes.
type failure struct {
	errno syscall.Errno
	cause error
}

func (f *failure) Error() string {
	switch f.errno {
	case syscall.EHOSTUNREACH, syscall.EOPNOTSUPP: // these have many causes
		return f.cause.Error()
	}
	return f.errno.Error()
}

func (f *failure) Unwrap() []error { return []error{f.errno, f.cause} }

// Cause returns the error of package ucp, which names the endpoint, the transport and the step that
// failed.
func (f *failure) Cause() error { return f.cause }

// Timeout implements net.Error.
func (f *failure) Timeout() bool { return f.errno.Timeout() }

// numbers maps the statuses of UCX to errnos.
var numbers = []struct {
	status ucs.Status
	errno  syscall.Errno
}{
	{ucs.ErrRejected, syscall.ECONNREFUSED},
	{ucs.ErrNotConnected, syscall.ECONNREFUSED},
	{ucs.ErrConnectionReset, syscall.ECONNRESET},
	{ucs.ErrUnreachable, syscall.EHOSTUNREACH},
	{ucs.ErrEndpointTimeout, syscall.ETIMEDOUT},
	{ucs.ErrBusy, syscall.EADDRINUSE},
	{ucs.ErrUnsupported, syscall.EOPNOTSUPP},
}

// withErrno wraps err in a failure with the errno for its status. It returns err if there is no such
// errno.
func withErrno(err error) error {
	for _, n := range numbers {
		if errors.Is(err, n.status) {
			return &failure{n.errno, err}
		}
	}
	return err
}

// orderly reports whether err, with which an endpoint has failed, means that the peer has closed
// the connection or that its process has ended, and not a network error. Then all bytes that the
// peer sent were received. Only peers of this package distinguish a close from the end of the
// process (noteEnd).
func orderly(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, ucs.ErrConnectionReset) && !errors.As(err, &errno)
}

// ended returns the error of a call whose context has ended: os.ErrDeadlineExceeded for a deadline,
// as in package net, else the cause.
func ended(ctx context.Context) error {
	if err := context.Cause(ctx); err != context.DeadlineExceeded {
		return err
	}
	return os.ErrDeadlineExceeded
}

// opError wraps an error as package net does; nil stays nil.
func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}
