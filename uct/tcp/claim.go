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
// answer where their own endpoint with its number is connected already: that is,
// over the connection kept aside, which the endpoint then takes over. Whom this library
// refuses before it has read who it is gets a reset, which confirms nothing.

// fits reports whether the connection's claim is to be believed. It is asked only
// when something depends on it, and each time: listeners come and go.
func (c *conn) fits() bool {
	if c.outgoing {
		return true
	}
	return c.peer.addrPort().Addr() == c.from.addr.Addr() && (!c.here() || c.ask() == ownerSame)
}

// owner says whether the user of a connection listens at the address that it claims.
type owner uint8

const (
	ownerUnasked owner = iota
	ownerSame
	ownerOther   // somebody else does, or nobody
	ownerUnknown // the kernel does not say whose sockets are whose
)

// ownerFor is how long the answer is believed where it is asked for often.
const ownerFor = time.Second

// listens finds out, for a connection within the machine, whether its user listens
// at the address that it claims, or did a moment ago.
func (c *conn) listens() owner {
	if c.owner == ownerUnasked || c.iface.svc.w.Now()-c.ownerAt > ownerFor {
		return c.ask()
	}
	return c.owner
}

// ask is listens of now.
func (c *conn) ask() owner {
	c.owner, c.ownerAt = c.findOwner(), c.iface.svc.w.Now()
	return c.owner
}

func (c *conn) findOwner() owner {
	end, err := c.otherEnd()
	if err == nil {
		var l sockdiag.Socket
		if l, err = c.iface.svc.diag.Listener(c.peer.addrPort()); err == nil && l.UID == end.UID {
			return ownerSame
		}
	}
	if err == nil || errors.Is(err, sockdiag.ErrNotFound) || errors.Is(err, sockdiag.ErrForeign) {
		return ownerOther
	}
	return ownerUnknown
}

// confirmed returns the connection kept aside that the owner of the listener has
// confirmed by closing ours. Among several it cannot be told, unless the kernel
// knows their users: nobody is taken for the peer then.
func (ep *endpoint) confirmed() *conn {
	i := ep.iface
	var found [2]*conn // of the listener's user, of who knows whom
	var n [2]int
	for c := i.match.aside[matchKey{ep.peer, ep.sn}]; c != nil; c = c.nextAside {
		k := 1
		if c.here() {
			switch c.listens() {
			case ownerSame:
				k = 0
			case ownerOther:
				continue
			}
		}
		if !c.dead() {
			found[k] = c
			n[k]++
		}
	}
	for k := range found {
		if n[k] > 0 {
			if n[k] == 1 {
				return found[k]
			}
			return nil
		}
	}
	return nil
}

// closedUnanswered reports whether the listener's owner has read our request and
// closed the connection instead of answering.
//
// A reset is something else: who closes in good order has read it.
func (c *conn) closedUnanswered(operation string, cause error) bool {
	return c.outgoing && c.state == stateWaitingAck && operation == "read" && cause == nil
}
