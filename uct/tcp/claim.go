//go:build linux

package tcp

import (
	"errors"
	"time"

	"github.com/ucx-go/ucx/internal/sockdiag"
)

// The listener in a request is what the peer says, and anybody can say it. It is
// believed where the connection comes from the listener's address and, within the
// machine, from a process of the user who listens there. A claim that does not fit
// is not wrong: a peer with several addresses need not connect from the one that it
// listens at. Such a connection is served in one direction, and kept aside: it
// takes no place, closes nothing and gets no endpoint.
//
// An endpoint of ours then connects to the listener by itself, and whoever really
// listens there decides. C UCX, and this library, close that connection without an
// answer where their own endpoint with its number is connected already: over a
// connection kept aside. Within the machine that one is taken over, if the kernel says
// which it is. Otherwise the endpoint connects with another number. Whom this library
// refuses before it has read who it is gets a reset, which says nothing of that.

// fits reports whether the connection's claim is to be believed. It is asked only
// when something depends on it, and each time but within one read: listeners come and go.
func (c *conn) fits() bool {
	if c.outgoing {
		return true
	}
	return c.peer.addrPort().Addr() == c.from.addr.Addr() && (!c.mayBeHere() || c.ask() == ownerSame)
}

// owner says whether the user of a connection listens at the address that it claims.
type owner uint8

const (
	ownerUnasked owner = iota
	ownerSame
	ownerOther   // somebody else does, or nobody
	ownerUnknown // the kernel does not say whose sockets are whose
	ownerUnsure  // it could not just now
)

// ownerFor is how long the answer is believed where it is asked for often.
const ownerFor = time.Second

// listens finds out, for a connection within the machine, whether its user listens
// at the address that it claims, or did a moment ago.
func (c *conn) listens() owner {
	if c.owner == ownerUnasked || c.owner == ownerUnsure || c.iface.svc.w.Now()-c.ownerAt > ownerFor {
		c.ask()
	}
	return c.owner
}

// ask is listens of now. What the kernel cannot say does not replace what it has said.
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

// confirmed looks among the connections kept aside for the one that the owner of the
// listener means, who has closed ours because of it: c is not nil if the kernel says
// that it is of that user. Elsewhere there is nobody to ask: whoever is quickest may
// have put his own aside. maybe says that it can be one of them.
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
				return nil, true // which of the two?
			}
			of = c
		}
	}
	return of, maybe
}

// closedUnanswered reports whether the listener's owner has read our request and
// closed the connection instead of answering.
//
// A reset is something else: who closes in good order has read it.
func (c *conn) closedUnanswered(operation string, cause error) bool {
	return c.outgoing && c.state == stateWaitingAck && operation == "read" && cause == nil
}
