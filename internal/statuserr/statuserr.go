// Package statuserr combines a cause and its status into one error whose text says each fact once:
// after "connection reset by peer" it omits the text of ErrConnectionReset.
package statuserr

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
)

// New returns an error that matches both a cause and a status. Its text is the text of the cause,
// followed by the text of the status unless the cause says the same.
func New(cause error, status ucs.Status) error { return &both{cause, status, Says(cause, status)} }

// Matching returns an error with the text of a cause that also matches a status. It is for causes
// whose text says what the status means.
func Matching(cause error, status ucs.Status) error { return &both{cause, status, true} }

// Errorf returns an error with a formatted text that also matches a status. It is for texts that
// say what the status means.
func Errorf(status ucs.Status, format string, args ...any) error {
	return Matching(fmt.Errorf(format, args...), status)
}

// both is a cause and its status.
type both struct {
	cause  error
	status ucs.Status
	said   bool // the text of the cause includes the status
}

// Error implements error.
func (e *both) Error() string {
	if e.said {
		return e.cause.Error()
	}
	return e.cause.Error() + ": " + e.status.Error()
}

// Unwrap makes the error match both.
func (e *both) Unwrap() []error { return []error{e.status, e.cause} }

// Says reports whether the text of a cause includes the meaning of a status: the cause wraps that
// status or an errno of the same meaning. Any errno includes the meaning of ErrIO.
func Says(cause error, status ucs.Status) bool {
	if errors.Is(cause, status) {
		return true
	}
	var errno syscall.Errno
	if !errors.As(cause, &errno) {
		return false
	}
	switch status {
	case ucs.ErrIO:
		return true
	case ucs.ErrConnectionReset:
		return errno == syscall.ECONNRESET || errno == syscall.EPIPE || errno == syscall.ECONNABORTED || errno == syscall.ECONNREFUSED
	case ucs.ErrUnreachable:
		return errno == syscall.EHOSTUNREACH || errno == syscall.ENETUNREACH || errno == syscall.EHOSTDOWN || errno == syscall.ENETDOWN
	case ucs.ErrTimedOut, ucs.ErrEndpointTimeout:
		return errno == syscall.ETIMEDOUT
	case ucs.ErrNotConnected:
		return errno == syscall.ECONNREFUSED || errno == syscall.ENOTCONN
	case ucs.ErrBusy:
		return errno == syscall.EADDRINUSE || errno == syscall.EBUSY
	case ucs.ErrInvalidAddr:
		return errno == syscall.EADDRNOTAVAIL
	case ucs.ErrNoDevice:
		return errno == syscall.ENODEV || errno == syscall.ENXIO
	case ucs.ErrNoMemory:
		return errno == syscall.ENOMEM || errno == syscall.ENOBUFS
	}
	return false
}
