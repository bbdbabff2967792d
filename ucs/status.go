package ucs

import (
	"context"
	"errors"
	"os"
	"strconv"
)

// Status is a UCX status code. It has the numbers of ucs_status_t (openucx/ucx
// src/ucs/type/status.h) and is one signed byte on the wire. A Status is an error: every
// error of this module matches one through errors.Is, however deeply it is wrapped. OK is
// never returned as an error; success is nil.
type Status int8

// Status codes. The numbers are part of the wire protocol.
const (
	OK         Status = 0
	InProgress Status = 1 // not an error: the operation completes later

	ErrNoMessage            Status = -1
	ErrNoResource           Status = -2 // nothing was started; retry after progress
	ErrIO                   Status = -3
	ErrNoMemory             Status = -4
	ErrInvalidParam         Status = -5
	ErrUnreachable          Status = -6
	ErrInvalidAddr          Status = -7
	ErrNotImplemented       Status = -8
	ErrMessageTruncated     Status = -9
	ErrNoProgress           Status = -10
	ErrBufferTooSmall       Status = -11
	ErrNoElem               Status = -12
	ErrSomeConnectsFailed   Status = -13
	ErrNoDevice             Status = -14
	ErrBusy                 Status = -15
	ErrCanceled             Status = -16
	ErrShmemSegment         Status = -17
	ErrAlreadyExists        Status = -18
	ErrOutOfRange           Status = -19
	ErrTimedOut             Status = -20
	ErrExceedsLimit         Status = -21
	ErrUnsupported          Status = -22
	ErrRejected             Status = -23
	ErrNotConnected         Status = -24
	ErrConnectionReset      Status = -25
	ErrFirstLinkFailure     Status = -40
	ErrLastLinkFailure      Status = -59
	ErrFirstEndpointFailure Status = -60
	ErrEndpointTimeout      Status = -80
	ErrLastEndpointFailure  Status = -89
)

// statusText is indexed by the negated code; 0 is OK.
var statusText = [...]string{
	0:  "success",
	1:  "no pending message",
	2:  "no resources are available to initiate the operation",
	3:  "input/output error",
	4:  "out of memory",
	5:  "invalid parameter",
	6:  "destination is unreachable",
	7:  "address not valid",
	8:  "function not implemented",
	9:  "message truncated",
	10: "no progress",
	11: "provided buffer is too small",
	12: "no such element",
	13: "failed to connect some of the requested endpoints",
	14: "no such device",
	15: "device is busy",
	16: "request canceled",
	17: "shared memory error",
	18: "element already exists",
	19: "index out of range",
	20: "operation timed out",
	21: "user-defined limit was reached",
	22: "unsupported operation",
	23: "operation rejected by remote peer",
	24: "endpoint is not connected",
	25: "connection reset by remote peer",
	80: "endpoint timeout",
}

// ErrPeerClosed is the error of an endpoint whose peer has closed its endpoint. It matches
// ErrConnectionReset (errors.Is), which is the error of an endpoint whose peer has gone without a
// close.
var ErrPeerClosed error = peerClosed{}

type peerClosed struct{}

// Error implements error.
func (peerClosed) Error() string { return "the peer has closed the endpoint" }

// Is reports whether target is ErrConnectionReset, which ErrPeerClosed matches.
func (peerClosed) Is(target error) bool { return target == ErrConnectionReset }

// As stores ErrConnectionReset in a *Status.
func (peerClosed) As(target any) bool {
	s, ok := target.(*Status)
	if ok {
		*s = ErrConnectionReset
	}
	return ok
}

// Error returns the text of the code. For a code without text it contains the number.
func (s Status) Error() string {
	if s == InProgress {
		return "operation in progress"
	}
	if i := -int(s); i >= 0 && i < len(statusText) && statusText[i] != "" {
		return statusText[i]
	}
	switch {
	case s.IsLinkError():
		return "link failure " + strconv.Itoa(int(s))
	case s.IsEndpointError():
		return "endpoint failure " + strconv.Itoa(int(s))
	}
	return "unknown error " + strconv.Itoa(int(s))
}

// String returns the same text as Error.
func (s Status) String() string { return s.Error() }

// IsError reports whether s is a failure: a negative code.
func (s Status) IsError() bool { return s < 0 }

// IsLinkError reports whether s lies in the range of link failures.
func (s Status) IsLinkError() bool { return s <= ErrFirstLinkFailure && s >= ErrLastLinkFailure }

// IsEndpointError reports whether s lies in the range of endpoint failures.
func (s Status) IsEndpointError() bool {
	return s <= ErrFirstEndpointFailure && s >= ErrLastEndpointFailure
}

// Err returns s as an error: nil for OK, s itself otherwise. It does not
// allocate.
func (s Status) Err() error {
	if s == OK {
		return nil
	}
	return s
}

// StatusOf returns the status of an error: OK for nil, the first Status in the chain of
// wrapped errors, ErrTimedOut for context.DeadlineExceeded and os.ErrDeadlineExceeded,
// ErrCanceled for context.Canceled, and ErrIO for any other error.
func StatusOf(err error) Status {
	if err == nil {
		return OK
	}
	if s, ok := err.(Status); ok {
		return s
	}
	var s Status
	switch {
	case errors.As(err, &s):
		return s
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ErrTimedOut
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	}
	return ErrIO
}
