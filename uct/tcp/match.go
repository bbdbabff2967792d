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

// match is an entry of the match table: the endpoint of this side, or a connection of the peer that
// has no endpoint.
type match struct {
	ep   *endpoint
	conn *conn
}

// matchTable finds connections by their keys. Connections of an iface to itself are not in the
// table, because each of their two sides is a separate connection of that iface. Connections inside
// TLS are not in the table either, because an endpoint sends only on its own connection (tls.go).
type matchTable struct {
	numbers numberBook
	entries map[matchKey]match // by key; none for connections of the iface to itself
	aside   map[matchKey]*conn // connections without endpoint, listener not verified (origin.go)

	returning map[matchKey]int // number of endpoints that only answer (connect.go)
}

func newMatchTable() matchTable {
	return matchTable{
		entries: make(map[matchKey]match),
		aside:   make(map[matchKey]*conn),
	}
}

// matchEndpoint adds an endpoint to the match table.
func (i *iface) matchEndpoint(ep *endpoint) {
	if !ep.toEP && !ep.answersOnly && ep.peer != i.addr && i.md.tls == nil {
		i.match.entries[matchKey{ep.peer, ep.sn}] = match{ep: ep}
	}
}

// unmatchEndpoint removes an endpoint from the match table.
func (i *iface) unmatchEndpoint(ep *endpoint) {
	k := matchKey{ep.peer, ep.sn}
	if i.match.entries[k].ep == ep {
		delete(i.match.entries, k)
	}
}

// matchConn adds a connection that has no endpoint to the match table, or to the connections kept
// aside if the parameter aside is set.
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

// unmatch removes a connection that has no endpoint from the match table.
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

// keepAside moves a connection whose claimed listener is not verified to the list of connections
// kept aside. Such a connection is only received from.
func (i *iface) keepAside(c *conn) {
	k := matchKey{c.peer, c.sn}
	if i.match.entries[k].conn == c {
		delete(i.match.entries, k)
	}
	c.nextAside = i.match.aside[k]
	i.match.aside[k] = c
	c.aside = true
	if (*ledger.Account)(nil).Refuse(ledger.Claim) {
		i.svc.w.Log().Diag("a connection does not come from the address of the listener that it claims, and is not matched with that listener's connections",
			zap.Stringer("listener", c.peer), zap.Stringer("from", c.from.addr))
	}
}

// leaveAside removes a connection from the list of connections kept aside.
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

// returned is called when an endpoint that only answers (connect.go) is closed.
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

// returns reports whether an answering endpoint (connect.go) has the number sn toward the listener
// of peer.
func (i *iface) returns(peer sockaddr, sn uint64) bool {
	return i.match.returning[matchKey{peer, sn}] > 0
}

// spokenOf reports whether there is a connection with the endpoint's number whose claim of the
// endpoint's listener is not verified, but whose peer may be that listener's owner.
func (i *iface) spokenOf(ep *endpoint) bool {
	return i.match.aside[matchKey{ep.peer, ep.sn}] != nil || i.returns(ep.peer, ep.sn)
}

// numbers assigns numbers to the endpoints that this side makes toward a listener. After both sides
// have closed all their connections, either side may count from 0 again. The count is nevertheless
// kept as long as there is room, because the other side may continue its count.
type numbers struct {
	peer            sockaddr
	next            uint64 // number of the next endpoint
	users           int    // users: endpoints, and connections that claim the listener
	prev, following *numbers
	listed          bool // without users, and in the book's list
}

// numberBook has the numbers of all listeners. Of the idle listeners, those without endpoints and
// connections, it keeps the maxIdleNumbers that became idle last.
type numberBook struct {
	byPeer      map[sockaddr]*numbers
	first, last *numbers // list of idle listeners, the longest idle first
	idle        int      // length of that list
}

// maxIdleNumbers is the largest number of idle listeners whose numbers are kept. They take some
// hundred KiB.
const maxIdleNumbers = 4096

// hold returns the numbers toward a listener, for a new user: an endpoint or a connection. drop
// must follow when the user has ended.
func (b *numberBook) hold(peer sockaddr) *numbers {
	n := b.byPeer[peer]
	if n == nil {
		n = &numbers{peer: peer}
		if b.byPeer == nil {
			b.byPeer = make(map[sockaddr]*numbers)
		}
		b.byPeer[peer] = n
	}
	b.unlist(n)
	n.users++
	return n
}

// drop releases the numbers after one of their users has ended.
func (b *numberBook) drop(n *numbers) {
	if n.users--; n.users > 0 {
		return
	}
	if n.next == 0 {
		delete(b.byPeer, n.peer)
		return
	}
	n.listed = true
	if n.prev = b.last; n.prev != nil {
		n.prev.following = n
	} else {
		b.first = n
	}
	b.last = n
	if b.idle++; b.idle > maxIdleNumbers {
		n := b.first
		b.unlist(n)
		delete(b.byPeer, n.peer)
	}
}

func (b *numberBook) unlist(n *numbers) {
	if !n.listed {
		return
	}
	if n.prev != nil {
		n.prev.following = n.following
	} else {
		b.first = n.following
	}
	if n.following != nil {
		n.following.prev = n.prev
	} else {
		b.last = n.prev
	}
	n.prev, n.following, n.listed = nil, nil, false
	b.idle--
}

// take returns the number for a new endpoint.
func (n *numbers) take() uint64 {
	n.next++
	return n.next - 1
}
