//go:build linux

package uverbs

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
)

// Error is a failed call. errors.Is finds its Errno and the corresponding ucs.Status.
type Error struct {
	Device string // name of the device, as uverbs0
	Call   string // OBJECT.METHOD, or the command of INVOKE_WRITE
	Attr   string // the attribute in question, where the errno identifies one
	Errno  syscall.Errno
	Status ucs.Status // the corresponding status; OK: the usual one of Errno
	Since  string     // the first kernel version that has the call, if this kernel lacks it
	Hint   string     // a possible remedy
}

// Error names the device, the call, the errno and the possible remedy.
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

// status returns the status that corresponds to an errno of a verbs call. ENOENT means an object
// that is closed.
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

// openError returns the error of a node that cannot be opened, with a possible remedy.
func openError(name, path string, errno syscall.Errno) error {
	e := &Error{Device: name, Call: "open " + path, Errno: errno}
	switch errno {
	case syscall.EACCES:
		e.Hint = "needs read and write permission on the device node; check rdma-core's udev rules or group membership"
	case syscall.EPERM:
		e.Hint = "pass the device to the container (--device)"
	case syscall.ENOENT:
		e.Hint = "pass the device to the container (--device); on a host, check that udev runs"
	default:
		return e
	}
	e.Status = ucs.ErrNoDevice
	return e
}
