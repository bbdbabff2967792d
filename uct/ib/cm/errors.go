//go:build linux

package cm

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// failure is an error of the kernel or of a peer with the UCS status that it is reported as. It
// does not unwrap to a status of its cause: a connection that the kernel reports as rejected may
// have found no listener.
type failure struct {
	what   string
	cause  error
	status ucs.Status
}

// Error implements error.
func (f *failure) Error() string {
	text := "rdmacm: " + f.what + ": " + strings.TrimPrefix(f.cause.Error(), "rdmacm: ")
	if f.said() {
		return text
	}
	return text + ": " + f.status.Error()
}

// said reports whether the text of the cause already expresses the status: a rejection with its
// reason, the end of the connection, or an errno.
func (f *failure) said() bool {
	var event *rdmacm.EventError
	var refused *rdmacm.RejectedError
	return statuserr.Says(f.cause, f.status) || errors.As(f.cause, &refused) ||
		errors.As(f.cause, &event) && f.status == ucs.ErrConnectionReset
}

// Unwrap returns the status, and the errno if there is one.
func (f *failure) Unwrap() []error {
	var errno syscall.Errno
	if errors.As(f.cause, &errno) {
		return []error{f.status, errno}
	}
	return []error{f.status}
}

// broken returns the error of an endpoint that ends because of cause.
func (ep *endpoint) broken(operation string, cause error, s ucs.Status) error {
	return &failure{fmt.Sprintf("connection manager: %s %v", operation, &ep.Route), cause, s}
}

// statusOf returns the status of an event that ends an endpoint which is not connected yet. For a
// peer without a listener it is ucs.ErrNotConnected, where C UCX has UCS_ERR_CONNECTION_RESET
// (uct_rdmacm_cm_handle_error_event).
func (ep *endpoint) statusOf(e *rdmacm.Event) ucs.Status {
	switch e.Type {
	case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventUnreachable, rdmacm.EventConnectError:
		return ucs.ErrUnreachable
	case rdmacm.EventDeviceRemoval:
		if ep.Client {
			return ucs.ErrUnreachable
		}
	case rdmacm.EventRejected:
		var r *rdmacm.RejectedError
		if !ep.Client || !errors.As(e.Err(), &r) {
			break
		}
		switch r.Reason {
		case rdmacm.RejectInvalidServiceID:
			return ucs.ErrNotConnected
		case rdmacm.RejectConsumerDefined:
			if status, _, err := parseData(r.PrivateData); err == nil && status == ucs.ErrRejected {
				return ucs.ErrRejected
			}
			return ucs.ErrNotConnected // the server is gone, or has no room
		}
	}
	return ucs.ErrConnectionReset
}

// worthLogging reports whether an event is to be logged: a fault of the network is, a disconnect
// or a rejection by the peer is not.
func worthLogging(t rdmacm.EventType) bool {
	switch t {
	case rdmacm.EventRejected, rdmacm.EventDisconnected:
		return false
	}
	return true
}
