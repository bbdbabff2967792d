package ucp

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// What becomes of an endpoint when a lane of it fails.

// endpointError is told by a transport that a lane failed.
func endpointError(ue uct.Endpoint, userData any, err error) {
	ep := userData.(*Endpoint)
	switch c := ep.conn(); {
	case ep.auxLost(ue), ep.tryAnotherWay(ue, err):
	case (c != nil && c.stage == connOpen || ep.life.Closing()) && errors.Is(err, ucs.ErrConnectionReset):
		ep.reportQuietly(life.Lost, err)
	default:
		ep.laneFailed(err)
	}
}

// laneFailed ends the endpoint because a lane has failed. If the endpoint is one that the
// peer has opened, the peer hears of it on the connection that it has asked on: its end may
// have no other lane to this one, and would wait for answers. Where it was given up here
// that connection is given up as well. Where the peer has closed the lane it may have left
// messages on the other one before, which are still to be received.
//
// On a connection that carries another endpoint the peer hears nothing, for that one would
// end with it. Transports pair the two directions in the order in which endpoints are
// made at each side, so the connection that an endpoint was asked for on is soon the lane of
// another: requests overtake each other, and an answer to the keepalive that there is no such
// end takes an endpoint at one side only. There it is left to the peer's own keepalive, as
// in C UCX always (ucp_ep_set_failed in src/ucp/core/ucp_ep.c).
func (ep *Endpoint) laneFailed(err error) {
	opener := ep.openedBy()
	ep.fail(err)
	switch {
	case opener == nil || opener.uct == nil || opener.opened > 0 || opener.uct.Shared():
	case errors.Is(err, ucs.ErrConnectionReset) && !errors.Is(err, ucs.ErrNoResource) && !errors.Is(err, ucs.ErrExceedsLimit):
		opener.uct.End()
	default:
		opener.uct.Drop(fmt.Errorf("ucp: the connection for replies was closed: %w", err))
	}
}
