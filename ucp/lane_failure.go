package ucp

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// What becomes of an endpoint when a lane of it fails.

// endpointError is told by a transport that a lane failed.
func endpointError(ue uct.Endpoint, userData any, err error) {
	ep := userData.(*Endpoint)
	switch c := ep.conn(); {
	case ep.auxLost(ue), ep.tryAnotherWay(ue, err):
	case c != nil && c.stage == connOpen && errors.Is(err, ucs.ErrConnectionReset):
		c.broken = true
		ep.failQuietly(err)
	default:
		ep.laneFailed(err)
	}
}

// laneFailed ends the endpoint because a lane has failed. If the endpoint is one that the
// peer has opened, the peer hears of it on the connection that it has asked on: its end may
// have no other lane to this one, and would wait for answers. Where it was given up here
// that connection is given up as well. Where the peer has closed the lane it may have left
// messages on the other one before, which are still to be received.
func (ep *Endpoint) laneFailed(err error) {
	opener := ep.openedBy()
	ep.fail(err)
	if opener == nil || opener.uct == nil {
		return
	}
	if errors.Is(err, ucs.ErrConnectionReset) && !errors.Is(err, ucs.ErrNoResource) && !errors.Is(err, ucs.ErrExceedsLimit) {
		opener.uct.End()
		return
	}
	var why *unanswered // already, where each connection carries the answers of the one before
	if !errors.As(err, &why) {
		why = &unanswered{err}
	}
	opener.uct.Drop(why)
}

// unanswered is why a connection is of no use any more: that of the answers has failed.
type unanswered struct{ cause error }

func (u *unanswered) Error() string {
	return fmt.Sprintf("ucp: the connection for answers was given up: %v", u.cause)
}

func (u *unanswered) Unwrap() error { return u.cause }
