// Package statuserr makes one error of a cause and the status that it amounts to, with each
// fact in its text once: "connection reset by peer" is not followed by what ErrConnectionReset
// says in other words.
package statuserr

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
)

// New returns an error that matches a cause and a status. Its text is that of the cause, and of
// the status where the cause does not say the same.
func New(cause error, status ucs.Status) error { return &both{cause, status, Says(cause, status)} }

// Matching returns an error with the text of a cause alone that matches a status, too: for
// causes whose own words say what the status stands for.
func Matching(cause error, status ucs.Status) error { return &both{cause, status, true} }

// Errorf returns an error with the text of a format that matches a status, too: for what says
// in words of its own what the status stands for.
func Errorf(status ucs.Status, format string, args ...any) error {
	return Matching(fmt.Errorf(format, args...), status)
}

// both is a cause and its status.
type both struct {
	cause  error
	status ucs.Status
	said   bool // by the text of the cause
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

// Says reports whether the text of a cause tells what a status stands for: the cause is made of
// that status, or of an errno of the same meaning. To an errno ErrIO adds nothing.
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
