//go:build linux

package uverbs

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
)

// Error is a call that failed. errors.Is finds its Errno and the ucs.Status that
// stands for it.
type Error struct {
	Device string // uverbs0
	Call   string // OBJECT.METHOD, or the command of INVOKE_WRITE
	Attr   string // the attribute in question, where the errno tells which
	Errno  syscall.Errno
	Status ucs.Status // that stands for it, OK for the one Errno has of most calls
	Since  string     // the kernel that has the call first, if this one lacks it
	Hint   string     // what may help
}

// Error names the device, the call, what went wrong and what may help.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Device, e.Call)
	if e.Attr != "" {
		fmt.Fprintf(&b, " (%s)", e.Attr)
	}
	fmt.Fprintf(&b, ": %v", e.Errno)
	if e.Since != "" {
		fmt.Fprintf(&b, ": needs Linux %s", e.Since)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, ": %s", e.Hint)
	}
	return b.String()
}

// Unwrap returns the errno and its status.
func (e *Error) Unwrap() []error {
	s := e.Status
	if s == ucs.OK {
		s = status(e.Errno)
	}
	return []error{e.Errno, s}
}

// status is what an errno of a verbs call stands for. ENOENT is an object that is
// closed.
func status(e syscall.Errno) ucs.Status {
	switch e {
	case syscall.EINVAL, syscall.EFAULT, syscall.E2BIG, syscall.EBADF, syscall.ENOENT:
		return ucs.ErrInvalidParam
	case syscall.ENOMEM:
		return ucs.ErrNoMemory
	case syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT, syscall.ENOTTY, syscall.ENOSYS,
		syscall.EACCES, syscall.EPERM:
		return ucs.ErrUnsupported
	case syscall.EBUSY:
		return ucs.ErrBusy
	case syscall.ENODEV, syscall.ENXIO:
		return ucs.ErrNoDevice
	case syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE: // channels are open files
		return ucs.ErrNoResource
	case syscall.ENOSPC:
		return ucs.ErrBufferTooSmall
	case syscall.ENODATA:
		return ucs.ErrNoElem
	case syscall.ETIMEDOUT:
		return ucs.ErrTimedOut
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH:
		return ucs.ErrUnreachable
	}
	return ucs.ErrIO
}

// openError says why a node cannot be opened, and what may help.
func openError(name, path string, errno syscall.Errno) error {
	e := &Error{Device: name, Call: "open " + path, Errno: errno}
	switch errno {
	case syscall.EACCES:
		e.Hint = "needs permission to read and write it: udev rules of rdma-core, or a group that has it"
	case syscall.EPERM:
		e.Hint = "a container has to be given it (--device)"
	case syscall.ENOENT:
		e.Hint = "a container has to be given it (--device), a machine needs udev"
	default:
		return e
	}
	e.Status = ucs.ErrNoDevice
	return e
}
