package ucp

import (
	"errors"
	"strings"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// The errors by which the application is told of the end of an endpoint, and of operations
// that its lanes could not carry out: "ucp: endpoint NAME: what happened". They are made here
// alone, so that the text of one event is the same for the error handler, Endpoint.Err, the
// operations that end by it and those that are started afterwards.

// namedError is an error of an endpoint. It matches its cause.
type namedError struct {
	endpoint string
	cause    error
}

// Error names the endpoint, and the package once.
func (e *namedError) Error() string {
	return "ucp: endpoint " + e.endpoint + ": " + strings.TrimPrefix(e.cause.Error(), "ucp: ")
}

// Unwrap returns the cause.
func (e *namedError) Unwrap() error { return e.cause }

// What ends endpoints, beside the errors of lanes.
var (
	errEndGone      = statuserr.Errorf(ucs.ErrConnectionReset, "the peer's end is gone")
	errDisconnected = statuserr.Errorf(ucs.ErrConnectionReset, "the peer has closed the connection")
)

// endError is the error of an endpoint whose peer is lost for a cause. The first cause stays
// the one that is told, while messages that came before it are still being received, too. One of
// these may say that the peer has released its end: then the end of the connection, which was
// noticed first, was an orderly one.
func (ep *Endpoint) endError(cause error) error {
	if ep.err != nil {
		return ep.err
	}
	if n := ep.notes; n != nil && n.ending != nil {
		cause = n.ending
	}
	if ep.life.Peer == life.PeerReleased && errors.Is(cause, ucs.ErrConnectionReset) {
		cause = ucs.ErrPeerClosed
	}
	return ep.nameIn(cause)
}

// nameIn adds the name of the endpoint to an error.
func (ep *Endpoint) nameIn(cause error) error {
	if e, ok := cause.(*namedError); ok {
		return e
	}
	return &namedError{ep.describe(), cause}
}

// laneError is the error of an operation that a lane has refused or ended. A lane that fails
// ends its operations before it tells of the failure.
func (r *Request) laneError(err error) error {
	ep := r.ep
	switch {
	case ep == nil:
		return err
	case err == ucs.ErrCanceled:
		if ep.err != nil { // it was canceled because the endpoint has failed
			return ep.err
		}
		return err
	case ofOperation(err):
		return ep.nameIn(err)
	}
	return ep.endError(err)
}

// ofOperation reports whether an error of a lane is about one operation, and not the end of
// the lane.
func ofOperation(err error) bool {
	switch ucs.StatusOf(err) {
	case ucs.ErrCanceled, ucs.ErrInvalidParam, ucs.ErrInvalidAddr, ucs.ErrUnsupported, ucs.ErrOutOfRange,
		ucs.ErrMessageTruncated, ucs.ErrBufferTooSmall, ucs.ErrNoMemory, ucs.ErrNotImplemented, ucs.ErrBusy:
		return true
	}
	return false
}
