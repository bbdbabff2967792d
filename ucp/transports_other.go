//go:build !linux

package ucp

import (
	"crypto/tls"
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// absent lists the transports that this system does not have, with the reasons.
var absent = []skippedResource{
	{"cma", "not on " + runtime.GOOS + ": process_vm_readv is Linux's"},
	{"posix", "not on " + runtime.GOOS + ": it finds and wakes its peers by Linux's /proc and epoll"},
	{"sysv", "not on " + runtime.GOOS + ": it finds and wakes its peers by Linux's /proc and epoll"},
	{"tcp", "not on " + runtime.GOOS + ": its sockets are in Linux's epoll"},
}

// encrypted returns ucs.ErrUnsupported: the transport encrypting needs tcp, which this system does
// not have.
func encrypted(*tls.Config) (uct.Component, error) {
	return nil, fmt.Errorf("no tcp on %s: %w", runtime.GOOS, ucs.ErrUnsupported)
}
