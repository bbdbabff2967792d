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
	Attr   string // the attribute in question, if it is known which
	Errno  syscall.Errno
	Since  string // the kernel that has the call first, if this one lacks it
	Hint   string // what may help
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
func (e *Error) Unwrap() []error { return []error{e.Errno, status(e.Errno)} }

// status is what an errno of a verbs call stands for.
func status(e syscall.Errno) ucs.Status {
	switch e {
	case syscall.EINVAL, syscall.EFAULT, syscall.E2BIG, syscall.EBADF:
		return ucs.ErrInvalidParam
	case syscall.ENOMEM:
		return ucs.ErrNoMemory
	case syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT, syscall.ENOTTY, syscall.ENOSYS:
		return ucs.ErrUnsupported
	case syscall.EBUSY:
		return ucs.ErrBusy
	case syscall.ENODEV, syscall.ENXIO, syscall.ENOENT, syscall.EACCES, syscall.EPERM:
		return ucs.ErrNoDevice
	case syscall.EAGAIN:
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

// openHint is what may help where a node cannot be opened.
func openHint(e syscall.Errno) string {
	switch e {
	case syscall.EACCES:
		return "needs permission to read and write it: udev rules of rdma-core, or a group that has it"
	case syscall.EPERM:
		return "a container has to be given it (--device)"
	case syscall.ENOENT:
		return "a container has to be given it (--device), a machine needs udev"
	}
	return ""
}
