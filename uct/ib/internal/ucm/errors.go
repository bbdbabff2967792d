//go:build linux

package ucm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
)

// Error is a failed command. errors.Is finds its Errno and the corresponding ucs.Status.
type Error struct {
	Call  string // name of the command, as RESOLVE_ADDR
	Errno syscall.Errno
	Hint  string // what the errno means in this case
}

// Error names the command, the errno and the hint.
func (e *Error) Error() string {
	s := fmt.Sprintf("rdma_cm: %s: %v", e.Call, e.Errno)
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap returns the errno and its status.
func (e *Error) Unwrap() []error { return []error{e.Errno, Status(e.Errno)} }

// Status returns the status that corresponds to an errno of the connection manager.
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
		return ucs.ErrCanceled // closed during the call
	}
	return ucs.ErrIO
}

// Errno returns the errno in the chain of an error, 0 if there is none.
func Errno(err error) syscall.Errno {
	var e *Error
	if errors.As(err, &e) {
		return e.Errno
	}
	return 0
}
