package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
)

// guest is who has connections here that the application did not ask for: those on
// which it has no endpoint. The ledger counts them for the process; the list is of
// one worker. Those that were silent for the longest come first, about: who was heard
// since the last look goes to the end when somebody has to leave.
type guest struct {
	account    *ledger.Account
	head, tail *conn
	n          int
	half       int // those without a request
	held       int // bytes of buffers with the beginnings of frames
}

// visit is a connection's place in the list.
type visit struct {
	guest      *guest // nil: the application has an endpoint on it
	prev, next *conn
}

// enroll counts a connection as one that a peer has made necessary.
func (s *service) enroll(c *conn) {
	source := ledger.SourceOf(c.from.addr.Addr(), -1)
	g := s.guests[source]
	if g == nil {
		g = &guest{account: ledger.Open(source)}
		if s.guests == nil {
			s.guests = make(map[ledger.Source]*guest)
		}
		s.guests[source] = g
	}
	c.visit.guest = g
	g.append(c)
	g.account.Add(ledger.Conns, 1)
	g.account.Add(ledger.Files, 1)
}

// leave ends that: the connection is closed, or the application has an endpoint on it.
func (s *service) leave(c *conn) {
	g := c.visit.guest
	if g == nil {
		return
	}
	s.slow.remove(c)
	g.unlink(c)
	c.visit.guest = nil
	g.account.Add(ledger.Conns, -1)
	g.account.Add(ledger.Files, -1)
	if g.n == 0 {
		delete(s.guests, g.account.Source())
		if len(s.guests) == 0 {
			s.guests = nil // a map does not shrink
		}
		g.account.Close()
	}
}

// taken is told that an endpoint has got the connection.
func (c *conn) taken(ep *endpoint) {
	if !ep.forPeer {
		c.iface.svc.leave(c)
	}
}

func (g *guest) append(c *conn) {
	v := &c.visit
	v.prev, v.next = g.tail, nil
	if g.tail != nil {
		g.tail.visit.next = c
	} else {
		g.head = c
	}
	g.tail = c
	g.n++
}

func (g *guest) unlink(c *conn) {
	v := &c.visit
	if v.prev != nil {
		v.prev.visit.next = v.next
	} else {
		g.head = v.next
	}
	if v.next != nil {
		v.next.visit.prev = v.prev
	} else {
		g.tail = v.prev
	}
	v.prev, v.next = nil, nil
	g.n--
}

// count is the number of the source's connections in the process.
func (g *guest) count() int { return int(g.account.Of(ledger.Conns)) }

// greediest returns who has most connections in the process, of those that are guests
// of this worker.
func (s *service) greediest() *guest {
	var most *guest
	for _, g := range s.guests {
		if most == nil || g.count() > most.count() {
			most = g
		}
	}
	return most
}

// crowdSample is the number of connections within the machine among which the user
// with the most is looked for.
const crowdSample = 128

// silent returns the connection that was silent for the longest. Within the machine
// it is one of the user who has most of those that were silent for long.
func (g *guest) silent() *conn {
	for range g.n {
		c := g.head
		if !c.spoke {
			break
		}
		c.spoke = false
		g.unlink(c)
		g.append(c)
	}
	if g.head == nil || !g.head.here() {
		return g.head
	}
	type user struct {
		uid   int
		known bool
	}
	of := func(c *conn) user {
		s, err := c.otherEnd()
		return user{s.UID, err == nil}
	}
	n := make(map[user]int)
	var most user
	for c, k := g.head, 0; c != nil && k < crowdSample; c, k = c.visit.next, k+1 {
		u := of(c)
		if n[u]++; n[u] > n[most] {
			most = u
		}
	}
	for c := g.head; c != nil; c = c.visit.next {
		if !c.spoke && of(c) == most {
			return c
		}
	}
	return g.head
}

// enrollOwn is enroll of a connection of ours that a peer has made necessary. Nobody
// has to leave for it: it is tried again later.
func (c *conn) enrollOwn() error {
	s := c.iface.svc
	s.enroll(c)
	g := c.visit.guest
	switch {
	case int(c.fd) >= fileCeiling():
		g.account.Refuse(ledger.Descriptors)
		return unix.EMFILE
	case g.count() > c.iface.bounds.guestsOfSource:
		g.account.Refuse(ledger.Connections)
		return unix.EMFILE
	}
	return nil
}
