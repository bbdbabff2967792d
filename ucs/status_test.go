package ucs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// statusTable holds the numbers of ucs/type/status.h and the texts of
// ucs_status_string, the same in 1.13.1 and 1.22.0 but for capitals.
var statusTable = []struct {
	status Status
	number int8
	text   string
}{
	{OK, 0, "success"},
	{InProgress, 1, "operation in progress"},
	{ErrNoMessage, -1, "no pending message"},
	{ErrNoResource, -2, "no resources are available to initiate the operation"},
	{ErrIO, -3, "input/output error"},
	{ErrNoMemory, -4, "out of memory"},
	{ErrInvalidParam, -5, "invalid parameter"},
	{ErrUnreachable, -6, "destination is unreachable"},
	{ErrInvalidAddr, -7, "address not valid"},
	{ErrNotImplemented, -8, "function not implemented"},
	{ErrMessageTruncated, -9, "message truncated"},
	{ErrNoProgress, -10, "no progress"},
	{ErrBufferTooSmall, -11, "provided buffer is too small"},
	{ErrNoElem, -12, "no such element"},
	{ErrSomeConnectsFailed, -13, "failed to connect some of the requested endpoints"},
	{ErrNoDevice, -14, "no such device"},
	{ErrBusy, -15, "device is busy"},
	{ErrCanceled, -16, "request canceled"},
	{ErrShmemSegment, -17, "shared memory error"},
	{ErrAlreadyExists, -18, "element already exists"},
	{ErrOutOfRange, -19, "index out of range"},
	{ErrTimedOut, -20, "operation timed out"},
	{ErrExceedsLimit, -21, "user-defined limit was reached"},
	{ErrUnsupported, -22, "unsupported operation"},
	{ErrRejected, -23, "operation rejected by remote peer"},
	{ErrNotConnected, -24, "endpoint is not connected"},
	{ErrConnectionReset, -25, "connection reset by remote peer"},
	{ErrFirstLinkFailure, -40, "link failure -40"}, // C: "Unknown error -40"
	{ErrLastLinkFailure, -59, "link failure -59"},
	{ErrFirstEndpointFailure, -60, "endpoint failure -60"},
	{ErrEndpointTimeout, -80, "endpoint timeout"},
	{ErrLastEndpointFailure, -89, "endpoint failure -89"},
	{-26, -26, "unknown error -26"},
	{-90, -90, "unknown error -90"},
	{-128, -128, "unknown error -128"},
	{2, 2, "unknown error 2"},
	{127, 127, "unknown error 127"},
}

func TestStatus(t *testing.T) {
	for _, tc := range statusTable {
		if int8(tc.status) != tc.number || tc.status.Error() != tc.text || tc.status.String() != tc.text {
			t.Errorf("status %d %q, want %d %q", int8(tc.status), tc.status, tc.number, tc.text)
		}
		if tc.status.IsError() != (tc.number < 0) {
			t.Errorf("IsError of %d = %v", tc.number, tc.status.IsError())
		}
		if link := tc.number <= -40 && tc.number >= -59; tc.status.IsLinkError() != link {
			t.Errorf("IsLinkError of %d = %v", tc.number, !link)
		}
		if ep := tc.number <= -60 && tc.number >= -89; tc.status.IsEndpointError() != ep {
			t.Errorf("IsEndpointError of %d = %v", tc.number, !ep)
		}
	}
}

// TestEveryStatusHasAText checks the status codes that a peer may send.
func TestEveryStatusHasAText(t *testing.T) {
	for n := -128; n <= 127; n++ {
		if Status(n).Error() == "" {
			t.Errorf("status %d has no text", n)
		}
	}
}

func TestStatusAsError(t *testing.T) {
	if OK.Err() != nil {
		t.Error("OK is an error")
	}
	wrapped := fmt.Errorf("send: %w", fmt.Errorf("lane 2: %w", ErrConnectionReset))
	if !errors.Is(wrapped, ErrConnectionReset) || errors.Is(wrapped, ErrIO) {
		t.Error("errors.Is does not see through wrapping")
	}
	for _, tc := range []struct {
		err  error
		want Status
	}{
		{nil, OK},
		{ErrBusy, ErrBusy},
		{ErrBusy.Err(), ErrBusy},
		{wrapped, ErrConnectionReset},
		{io.EOF, ErrIO},
		{fmt.Errorf("%w and %w", io.EOF, ErrTimedOut), ErrTimedOut},
		{InProgress, InProgress},
		{context.DeadlineExceeded, ErrTimedOut},
		{fmt.Errorf("waiting: %w", os.ErrDeadlineExceeded), ErrTimedOut},
		{context.Canceled, ErrCanceled},
		{errors.Join(context.Canceled, ErrIO), ErrIO},
	} {
		if got := StatusOf(tc.err); got != tc.want {
			t.Errorf("StatusOf(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
	var err error = ErrNoResource // as hot paths return it, without an allocation
	if n := testing.AllocsPerRun(100, func() {
		if StatusOf(err) != ErrNoResource || !errors.Is(err, ErrNoResource) {
			t.Fatal("a status is not itself")
		}
		err = ErrNoResource.Err()
	}); n != 0 {
		t.Errorf("%v allocations for a status as an error", n)
	}
}
