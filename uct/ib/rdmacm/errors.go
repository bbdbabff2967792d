//go:build linux

package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/ucm"
)

// Error is a failed command: its name, errno, and possibly a hint.
type Error = ucm.Error

// File is an open connection manager, as NewChannel takes it: /dev/infiniband/rdma_cm, or
// its substitute in tests (package rdmacmtest). Other packages can only wrap one.
type File = ucm.File

// RejectReason is the reason for which a connection was refused.
type RejectReason int

// Reasons for a refusal that a program may see; enum ib_cm_rej_reason, rdma/ib_cm.h.
const (
	RejectTimeout          RejectReason = 4
	RejectInvalidServiceID RejectReason = 8 // no listener
	RejectStaleConn        RejectReason = 10
	RejectConsumerDefined  RejectReason = 28 // by the peer's program
	RejectVendorOption     RejectReason = 35 // an option was refused
)

var rejectNames = map[RejectReason]string{
	1: "no queue pair", 2: "no end-to-end context", 3: "no resources", RejectTimeout: "timeout", 5: "unsupported request",
	6: "invalid communication ID", 7: "invalid communication instance", RejectInvalidServiceID: "no listener at the address",
	9: "invalid transport type", RejectStaleConn: "stale connection", 11: "RDC does not exist", 12: "invalid GID",
	13: "invalid LID", 14: "invalid SL", 15: "invalid traffic class", 16: "invalid hop limit", 17: "invalid packet rate",
	24: "port and CM redirection", 25: "port redirection", 26: "invalid path MTU", 27: "insufficient responder resources",
	RejectConsumerDefined: "by the peer's application", 29: "invalid RNR retry count", 30: "duplicate communication ID",
	31: "invalid class version", 32: "invalid flow label", 33: "invalid alternate flow label",
	RejectVendorOption: "vendor option not supported",
}

// String describes the reason.
func (r RejectReason) String() string {
	if s := rejectNames[r]; s != "" {
		return s
	}
	return fmt.Sprintf("reason %d", int(r))
}

// RejectedError is a handshake that the other side refused. It is ucs.ErrRejected.
type RejectedError struct {
	Reason      RejectReason // 0 in PortSpaceUDP
	SIDR        int          // in PortSpaceUDP: the status, 1 without a listener, 2 if the program refused
	PrivateData []byte       // of the peer's Reject, padded with zeros
}

// Error describes the reason.
func (e *RejectedError) Error() string {
	if e.SIDR == 0 {
		return fmt.Sprintf("rdmacm: rejected: %v", e.Reason)
	}
	why := fmt.Sprintf("status %d", e.SIDR)
	switch e.SIDR {
	case sidrUnsupported:
		why = RejectInvalidServiceID.String()
	case sidrReject:
		why = RejectConsumerDefined.String()
	}
	return "rdmacm: rejected: " + why
}

// Unwrap returns ucs.ErrRejected.
func (e *RejectedError) Unwrap() error { return ucs.ErrRejected }

// Statuses of SIDR_REP; enum ib_cm_sidr_status, rdma/ib_cm.h.
const (
	sidrUnsupported = 1
	sidrReject      = 2
)

// EventError is an event that reports a failure, or an unexpected end.
type EventError struct {
	Type  EventType
	Errno syscall.Errno // 0 if the kernel gives none
}

// Error names the event.
func (e *EventError) Error() string {
	if e.Errno == 0 {
		return fmt.Sprintf("rdmacm: %v", e.Type)
	}
	return fmt.Sprintf("rdmacm: %v: %v", e.Type, e.Errno)
}

// Unwrap returns the status of the event, and errno with its status.
func (e *EventError) Unwrap() []error {
	status := ucs.ErrIO
	switch e.Type {
	case EventAddrError, EventRouteError, EventUnreachable, EventMulticastError:
		status = ucs.ErrUnreachable
	case EventRejected: // with an errno, by iWARP
		status = ucs.ErrRejected
	case EventDisconnected, EventTimewaitExit:
		status = ucs.ErrConnectionReset
	case EventDeviceRemoval:
		status = ucs.ErrNoDevice
	}
	if e.Errno == 0 {
		return []error{status}
	}
	return []error{status, e.Errno, ucm.Status(e.Errno)}
}

// canceled returns the error of a call that ended with ctx.
func canceled(ctx context.Context) error {
	status := ucs.ErrCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		status = ucs.ErrTimedOut
	}
	return fmt.Errorf("rdmacm: waiting for an event: %w: %w", ctx.Err(), status)
}

var (
	errClosed = fmt.Errorf("rdmacm: closed: %w", ucs.ErrCanceled)
	errNone   = fmt.Errorf("rdmacm: no event: %w", ucs.ErrNoMessage)
)
