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

// Errors of calls.
var (
	errBusy      = fmt.Errorf("rdmacm: connection manager: an event has to be reported first: %w", ucs.ErrBusy)
	errClosed    = fmt.Errorf("rdmacm: the connection manager is closed: %w", ucs.ErrInvalidParam)
	errForeign   = fmt.Errorf("rdmacm: connection manager: the request does not belong to the component: %w", ucs.ErrInvalidParam)
	errConsumed  = fmt.Errorf("rdmacm: connection manager: the request is accepted or rejected already: %w", ucs.ErrInvalidParam)
	errDropped   = fmt.Errorf("rdmacm: connection manager: the request ended with its listener: %w", ucs.ErrCanceled)
	errCrowded   = fmt.Errorf("rdmacm: connection manager: the request was dropped to make room for another source: %w", ucs.ErrCanceled)
	errNotYet    = fmt.Errorf("rdmacm: connection manager: the endpoint is not connected yet: %w", ucs.ErrBusy)
	errNoLink    = fmt.Errorf("rdmacm: connection manager: the endpoint is not connected: %w", ucs.ErrNotConnected)
	errNotClient = fmt.Errorf("rdmacm: connection manager: only the client's endpoint notifies: %w", ucs.ErrUnsupported)
	errTwice     = fmt.Errorf("rdmacm: connection manager: the server is notified already: %w", ucs.ErrInvalidParam)
)

// tooLong is the error of private data that does not fit.
func tooLong(n int) error {
	return fmt.Errorf("rdmacm: connection manager: %d bytes of private data, the limit is %d: %w", n, maxPrivate, ucs.ErrExceedsLimit)
}

// failure is an error of the kernel or a peer as a status of ours. Of its cause it passes
// on no status: what the kernel calls rejected may be that nobody listens.
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

// said reports whether the cause tells in other words what the status stands for: a refusal
// and its reason, the end of the connection, or an errno.
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

// broken is the error of an endpoint that ends for a cause.
func (ep *endpoint) broken(operation string, cause error, s ucs.Status) error {
	what := fmt.Sprintf("connection manager: %s %v to %v", operation, ep.local, ep.remote)
	if !ep.local.IsValid() { // it has not come that far
		what = fmt.Sprintf("connection manager: %s to %v", operation, ep.remote)
	}
	return &failure{what, cause, s}
}

// statusOf is the status of an event that ends an endpoint which is not connected yet. C
// has ucs.ErrConnectionReset where nobody listens (uct_rdmacm_cm_handle_error_event).
func (ep *endpoint) statusOf(e *rdmacm.Event) ucs.Status {
	switch e.Type {
	case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventUnreachable, rdmacm.EventConnectError:
		return ucs.ErrUnreachable
	case rdmacm.EventDeviceRemoval:
		if ep.client {
			return ucs.ErrUnreachable
		}
	case rdmacm.EventRejected:
		var r *rdmacm.RejectedError
		if !ep.client || !errors.As(e.Err(), &r) {
			break
		}
		switch r.Reason {
		case rdmacm.RejectInvalidServiceID:
			return ucs.ErrNotConnected
		case rdmacm.RejectConsumerDefined:
			if status, _, err := parseData(r.PrivateData); err == nil && status == ucs.ErrRejected {
				return ucs.ErrRejected
			}
			return ucs.ErrNotConnected // a server that is gone, or has no room
		}
	}
	return ucs.ErrConnectionReset
}

// remarkable reports whether an event is worth a line of the log: where the network is
// at fault, and not where somebody has just gone or says no.
func remarkable(t rdmacm.EventType) bool {
	switch t {
	case rdmacm.EventRejected, rdmacm.EventDisconnected:
		return false
	}
	return true
}
