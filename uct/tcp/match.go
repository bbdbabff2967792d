//go:build linux

package tcp

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
)

// matchKey identifies a connection between two ifaces: the peer's listener, and the number of the
// endpoint among those that one side made toward the other. Both sides count from 0, so the
// endpoints with the same number share a connection (ucs_conn_match in
// src/ucs/datastruct/conn_match.c).
type matchKey struct {
	peer sockaddr
	sn   uint64
}

// match is the entry of a connection: the endpoint of this side, or a connection of the peer that
// has no endpoint.
type match struct {
	ep   *endpoint
	conn *conn
}

// matchTable finds connections by their keys. Connections of an iface to itself are not in the
// table, because each of their ends is a separate connection of that iface. Connections inside TLS
// are not in the table either, because an endpoint sends only on its own connection (tls.go).
type matchTable struct {
	numbers numberBook
	entries map[matchKey]match // none toward the iface's own listener
	aside   map[matchKey]*conn // connections without endpoint, listener not verified (claim.go)

	returning map[matchKey]int // number of endpoints that only answer (return.go)
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

// matchConn adds a connection that has no endpoint, to the ones kept aside if aside is set.
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

// keepAside moves a connection whose claimed listener is not verified to the ones kept aside. Such
// a connection is only received from.
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

// leaveAside removes a connection from the ones kept aside.
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

// returned handles the close of an endpoint that only answers.
func (i *iface) returned(ep *endpoint) {
	k := matchKey{ep.peer, ep.sn}
	if i.match.returning[k]--; i.match.returning[k] <= 0 {
		delete(i.match.returning, k)
	}
	if len(i.match.returning) == 0 {
		i.match.returning = nil // a map does not shrink
	}
}

// takeNumber returns the number of a new endpoint toward a listener. Numbers of answering
// endpoints are skipped: the peer of such an endpoint may be the owner of the listener, which would
// take a second connection with that number for the first one.
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

// spokenOf reports whether there is a connection with the endpoint's number whose claim of the
// endpoint's listener is not verified, but whose peer may be that listener's owner.
func (i *iface) spokenOf(ep *endpoint) bool {
	return i.match.aside[matchKey{ep.peer, ep.sn}] != nil || i.returns(ep.peer, ep.sn)
}
