//go:build linux

package tcp

import (
	"errors"
	"time"

	"github.com/ucx-go/ucx/internal/sockdiag"
)

// Validation of claimed listeners. The listener in a request is only claimed by the peer;
// any peer can claim any listener. A claim is verified if the connection comes from the
// listener's address and, within the machine, from a process of the user that listens there.
// A claim that is not verified may still be true: a peer with several addresses need not
// connect from the one that it listens at. A connection with an unverified claim is served in
// one direction and kept aside: it has no entry in the match table, closes no other
// connection, and gets no endpoint.
//
// An endpoint of this process then makes a connection of its own to the listener, and the
// process that really listens there decides. C UCX, and this library, close that connection
// without an answer if they already have a connected endpoint with the same number. That
// endpoint is then connected over a connection that is kept aside here. Within the machine,
// the connection kept aside is taken over if the kernel says which one it is. Otherwise the
// endpoint connects with another number. When this library refuses a peer before it has read
// the peer's request, the peer gets a reset, which says nothing about numbers.

// fits reports whether the connection's claim is verified. It is called only when something
// depends on the answer. Each call asks the kernel again, except within one read, because
// listeners come and go.
func (c *conn) fits() bool {
	if c.outgoing {
		return true
	}
	return c.peer.addrPort().Addr() == c.from.addr.Addr() && (!c.mayBeHere() || c.ask() == ownerSame)
}

// owner says whether the user of a connection listens at the address that the connection claims.
type owner uint8

const (
	ownerUnasked owner = iota
	ownerSame
	ownerOther   // another user listens there, or none
	ownerUnknown // the kernel does not say whose sockets are whose
	ownerUnsure  // the kernel could not answer just now
)

// ownerFor is how long listens reuses an answer of the kernel.
const ownerFor = time.Second

// listens returns, for a connection within the machine, whether its user listens at the
// address that the connection claims, or did so within the last ownerFor.
func (c *conn) listens() owner {
	if c.owner == ownerUnasked || c.owner == ownerUnsure || c.iface.svc.w.Now()-c.ownerAt > ownerFor {
		c.ask()
	}
	return c.owner
}

// ask is listens without the reuse of earlier answers. ownerUnsure does not replace an earlier
// answer.
func (c *conn) ask() owner {
	o := c.findOwner()
	if o != ownerUnsure || c.owner == ownerUnasked {
		c.owner, c.ownerAt = o, c.iface.svc.w.Now()
	}
	return o
}

func (c *conn) findOwner() owner {
	end, err := c.otherEnd()
	if err == nil {
		var l sockdiag.Socket
		if l, err = c.listenerOf(c.peer.addrPort()); err == nil && l.UID == end.UID {
			return ownerSame
		}
	}
	switch {
	case err == nil || errors.Is(err, sockdiag.ErrNotFound) || errors.Is(err, sockdiag.ErrForeign):
		return ownerOther
	case sockdiag.Transient(err):
		return ownerUnsure
	}
	return ownerUnknown
}

// confirmed searches the connections kept aside for the one because of which the listener's
// owner closed this endpoint's connection. c is not nil if the kernel says that exactly one of
// them belongs to the user that listens there. For peers on other machines there is no kernel
// to ask: any of the connections kept aside may be spoofed. maybe reports whether the
// connection can be one of them.
func (ep *endpoint) confirmed() (c *conn, maybe bool) {
	var of *conn
	for c := ep.iface.match.aside[matchKey{ep.peer, ep.sn}]; c != nil; c = c.nextAside {
		who := ownerUnknown
		if c.here() {
			who = c.listens()
		}
		if who == ownerOther || c.dead() {
			continue
		}
		maybe = true
		if who == ownerSame {
			if of != nil {
				return nil, true // ambiguous
			}
			of = c
		}
	}
	return of, maybe
}

// closedUnanswered reports whether the listener's owner has read the request that was sent on
// this connection, and has closed the connection instead of answering. A reset does not count:
// only an orderly close says that the request was read.
func (c *conn) closedUnanswered(operation string, cause error) bool {
	return c.outgoing && c.state == stateWaitingAck && operation == "read" && cause == nil
}
