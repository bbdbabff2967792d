//go:build !linux || simulate

package transports

import (
	"crypto/tls"
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Absent lists the transports that this system does not have.
var Absent = []Absence{
	{"cma", "not on " + runtime.GOOS + ": needs process_vm_readv of Linux"},
	{"posix", "not on " + runtime.GOOS + ": needs /proc and epoll of Linux to find and wake peers"},
	{"sysv", "not on " + runtime.GOOS + ": needs /proc and epoll of Linux to find and wake peers"},
	{"tcp", "not on " + runtime.GOOS + ": needs epoll of Linux"},
}

// Encrypted returns ucs.ErrUnsupported, because encryption with TLS needs tcp, which this system
// does not have.
func Encrypted(*tls.Config) (uct.Component, error) {
	return nil, fmt.Errorf("no tcp on %s: %w", runtime.GOOS, ucs.ErrUnsupported)
}
