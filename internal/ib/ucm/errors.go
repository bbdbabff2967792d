//go:build linux

package ucm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
)

// Error is a command that failed. errors.Is finds its Errno and the ucs.Status that
// stands for it.
type Error struct {
	Call  string // RESOLVE_ADDR
	Errno syscall.Errno
	Hint  string // what it means here
}

// Error names the call and what went wrong.
func (e *Error) Error() string {
	s := fmt.Sprintf("rdma_cm: %s: %v", e.Call, e.Errno)
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap returns the errno and its status.
func (e *Error) Unwrap() []error { return []error{e.Errno, Status(e.Errno)} }

// Status is what an errno of the connection manager stands for.
func Status(e syscall.Errno) ucs.Status {
	switch e {
	case syscall.EINVAL, syscall.EFAULT, syscall.EAFNOSUPPORT, syscall.EISCONN:
		return ucs.ErrInvalidParam
	case syscall.ENOMEM:
		return ucs.ErrNoMemory
	case syscall.EMFILE, syscall.ENFILE: // each channel is an open file
		return ucs.ErrNoResource
	case syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT:
		return ucs.ErrUnsupported
	case syscall.EBUSY, syscall.EADDRINUSE:
		return ucs.ErrBusy
	case syscall.ENODEV, syscall.ENXIO, syscall.ENOENT, syscall.EACCES, syscall.EPERM:
		return ucs.ErrNoDevice
	case syscall.EADDRNOTAVAIL:
		return ucs.ErrInvalidAddr
	case syscall.EAGAIN:
		return ucs.ErrNoMessage
	case syscall.ETIMEDOUT:
		return ucs.ErrTimedOut
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN:
		return ucs.ErrUnreachable
	case syscall.ECONNREFUSED:
		return ucs.ErrRejected
	case syscall.ECONNRESET, syscall.ECONNABORTED:
		return ucs.ErrConnectionReset
	case syscall.ENOTCONN:
		return ucs.ErrNotConnected
	case syscall.EBADF:
		return ucs.ErrCanceled // closed meanwhile
	}
	return ucs.ErrIO
}

// Errno is the errno in the chain of an error, 0 if there is none.
func Errno(err error) syscall.Errno {
	var e *Error
	if errors.As(err, &e) {
		return e.Errno
	}
	return 0
}
