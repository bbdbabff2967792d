//go:build linux

package tcp

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
)

// matchKey identifies a connection between two ifaces: the peer's listener and
// the number of the endpoint among those either side made toward the other. Both
// sides count alike, so the endpoints they make in the same order meet
// (ucs_conn_match in src/ucs/datastruct/conn_match.c).
type matchKey struct {
	peer sockaddr
	sn   uint64
}

// match is what is known of a connection: an endpoint of ours, or a connection
// of the peer's that has none.
type match struct {
	ep   *endpoint
	conn *conn
}

// matchTable finds connections by their key. A connection of an iface to itself
// cannot be found: its other half is a connection of its own. Nor can those inside of
// TLS, where an endpoint sends on no connection but its own (tls.go).
type matchTable struct {
	numbers numberBook
	entries map[matchKey]match // none toward the own listener
	aside   map[matchKey]*conn // connections without endpoint whose claim does not fit

	returning map[matchKey]int // endpoints that only answer (return.go)
}

func newMatchTable() matchTable {
	return matchTable{
		entries: make(map[matchKey]match),
		aside:   make(map[matchKey]*conn),
	}
}

// matchEndpoint adds an endpoint.
func (i *iface) matchEndpoint(ep *endpoint) {
	if !ep.toEP && !ep.returns && ep.peer != i.addr && i.md.tls == nil {
		i.match.entries[matchKey{ep.peer, ep.sn}] = match{ep: ep}
	}
}

// unmatchEndpoint removes an endpoint.
func (i *iface) unmatchEndpoint(ep *endpoint) {
	k := matchKey{ep.peer, ep.sn}
	if i.match.entries[k].ep == ep {
		delete(i.match.entries, k)
	}
}

// matchConn adds a connection that has no endpoint, perhaps to those kept aside.
func (i *iface) matchConn(c *conn, aside bool) {
	t := &i.match
	switch {
	case aside:
		i.keepAside(c)
	case c.peer != i.addr && i.md.tls == nil:
		t.entries[matchKey{c.peer, c.sn}] = match{conn: c}
	}
	c.matched = true
	c.numbers = t.numbers.hold(c.peer)
}

// unmatch removes a connection that has no endpoint.
func (i *iface) unmatch(c *conn) {
	if !c.matched {
		return
	}
	t := &i.match
	c.matched = false
	t.numbers.drop(c.numbers)
	c.numbers = nil
	if c.aside {
		i.leaveAside(c)
	} else if k := (matchKey{c.peer, c.sn}); t.entries[k].conn == c {
		delete(t.entries, k)
	}
}

// keepAside serves a connection whose claim does not fit in one direction.
func (i *iface) keepAside(c *conn) {
	k := matchKey{c.peer, c.sn}
	if i.match.entries[k].conn == c {
		delete(i.match.entries, k)
	}
	c.nextAside = i.match.aside[k]
	i.match.aside[k] = c
	c.aside = true
	if (*ledger.Account)(nil).Refuse(ledger.Claim) {
		i.svc.w.Log().Diag("a connection does not come from the listener that it claims, and is not matched with it",
			zap.Stringer("listener", c.peer), zap.Stringer("from", c.from.addr))
	}
}

// leaveAside takes a connection out of those kept aside.
func (i *iface) leaveAside(c *conn) {
	k := matchKey{c.peer, c.sn}
	first := i.match.aside[k]
	for p := &first; *p != nil; p = &(*p).nextAside {
		if *p == c {
			*p = c.nextAside
			break
		}
	}
	c.aside, c.nextAside = false, nil
	if first == nil {
		delete(i.match.aside, k)
	} else {
		i.match.aside[k] = first
	}
}

// returned is told that such an endpoint is closed.
func (i *iface) returned(ep *endpoint) {
	k := matchKey{ep.peer, ep.sn}
	if i.match.returning[k]--; i.match.returning[k] <= 0 {
		delete(i.match.returning, k)
	}
	if len(i.match.returning) == 0 {
		i.match.returning = nil // a map does not shrink
	}
}

// takeNumber is the number of a new endpoint toward a listener. One that an answering
// endpoint has is left out: its peer may be who listens there, and take a second
// connection with that number for the first.
func (i *iface) takeNumber(n *numbers) uint64 {
	for {
		sn := n.take()
		if !i.returns(n.peer, sn) {
			return sn
		}
	}
}

// returns reports whether an answering endpoint has a number toward a listener.
func (i *iface) returns(peer sockaddr, sn uint64) bool {
	return i.match.returning[matchKey{peer, sn}] > 0
}

// spokenOf reports whether somebody who may be the endpoint's listener has a connection
// with its number, which is not to be believed.
func (i *iface) spokenOf(ep *endpoint) bool {
	return i.match.aside[matchKey{ep.peer, ep.sn}] != nil || i.returns(ep.peer, ep.sn)
}
