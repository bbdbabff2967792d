package ucpnet

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
)

// failure is an error of ucp with the errno that programs expect for it; it matches both. Its
// text is that of the errno alone where the cause says the same in other words; errors.As
// finds the cause.
type failure struct {
	errno syscall.Errno
	cause error
}

func (f *failure) Error() string {
	switch f.errno {
	case syscall.EHOSTUNREACH, syscall.EOPNOTSUPP: // of many reasons
		return f.cause.Error()
	}
	return f.errno.Error()
}

func (f *failure) Unwrap() []error { return []error{f.errno, f.cause} }

// Cause returns the error of ucp, which names the endpoint, the transport and the step.
func (f *failure) Cause() error { return f.cause }

// Timeout reports whether it was one, for net.Error.
func (f *failure) Timeout() bool { return f.errno.Timeout() }

// numbers are the errnos for the statuses of UCX.
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

// named adds the errno that stands for an error's status, if there is one.
func named(err error) error {
	for _, n := range numbers {
		if errors.Is(err, n.status) {
			return &failure{n.errno, err}
		}
	}
	return err
}

// orderly reports whether an endpoint has failed because the peer has closed the connection
// or its process has ended, and not by an error of the network: everything that the peer sent
// was received. Only peers of this package tell more (noteEnd).
func orderly(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, ucs.ErrConnectionReset) && !errors.As(err, &errno)
}

// ended is the error of a call whose context has ended, as of those of package net.
func ended(ctx context.Context) error {
	if err := context.Cause(ctx); err != context.DeadlineExceeded {
		return err
	}
	return os.ErrDeadlineExceeded
}

// opError wraps an error as those of package net are; nil stays nil.
func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}
