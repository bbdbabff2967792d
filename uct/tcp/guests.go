//go:build linux

package tcp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
)

// guest is who has connections here that the application did not ask for: those on
// which it has no endpoint. The ledger counts them for the process; the list is of
// one worker. Those that were silent for the longest come first, about: who was heard
// since the last look goes to the end when somebody has to leave.
//
// Within the machine guests are users, elsewhere addresses. Asking the kernel whose
// a connection is takes longer than accepting it, so a few from one address count for
// that; when there are more, each goes to the account of its user (sort), and so do those
// that come as long as users have more than a few.
type guest struct {
	account *ledger.Account
	conns   queue
	fresh   int // those whose user was not looked for
	half    int // those without a request
	held    int // bytes of buffers with the beginnings of frames
	hoods   []*hood
}

// hood is a network as one worker sees it.
type hood struct {
	guests int
	half   int // connections without a request
}

// guestList is all guests of a worker.
type guestList struct {
	of    map[ledger.Source]*guest
	hoods map[netip.Prefix]*hood
	users int // connections in the accounts of users of this machine
	most  int // guests since the maps were made

	// The connections of all, those that were silent for the longest first, about: the
	// ones that have never carried anything, and the others.
	mute, heard queue
	net         netip.Prefix // of which silentOf was asked last
}

// visit is a connection's place in the lists.
type visit struct {
	guest  *guest // nil: the application has an endpoint on it
	own    links  // in the guest's list
	all    links
	heard  bool // in the list of those that were
	looked bool // its user was looked for

	told uint64 // written, when somebody looked, or of what is no message
}

func (l *guestList) init() {
	all := func(c *conn) *links { return &c.visit.all }
	l.mute.links, l.heard.links = all, all
}

// n is the number of guests' connections.
func (l *guestList) n() int { return l.mute.n + l.heard.n }

// guest returns who has connections from a source, from now on if need be.
func (l *guestList) guest(source ledger.Source) *guest {
	g := l.of[source]
	if g != nil {
		return g
	}
	g = &guest{account: ledger.Open(source), conns: queue{links: func(c *conn) *links { return &c.visit.own }}}
	if l.of == nil {
		l.of, l.hoods = make(map[ledger.Source]*guest), make(map[netip.Prefix]*hood)
	}
	l.of[source] = g
	l.most = max(l.most, len(l.of))
	if nets, ok := source.Nets(); ok {
		for _, p := range nets {
			h := l.hoods[p]
			if h == nil {
				h = new(hood)
				l.hoods[p] = h
			}
			h.guests++
			g.hoods = append(g.hoods, h)
		}
	}
	return g
}

// fewGuests are as many as may come and go without the maps being made anew.
const fewGuests = 64

// forget is told that a guest has no connections any more.
func (l *guestList) forget(g *guest) {
	source := g.account.Source()
	delete(l.of, source)
	nets, _ := source.Nets()
	for i, h := range g.hoods {
		if h.guests--; h.guests == 0 {
			delete(l.hoods, nets[i])
		}
	}
	if len(l.of) == 0 && l.most > fewGuests {
		l.of, l.hoods, l.most = nil, nil, 0 // maps do not shrink
	}
	g.account.Close()
}

// enter gives a guest a connection with all that it has made us keep; exit ends that.
func (g *guest) enter(c *conn) {
	c.visit.guest = g
	g.conns.append(c)
	g.account.Add(ledger.Conns, 1)
	g.account.Add(ledger.Files, 1)
	g.held += c.slow.bytes
	if c.half.listed {
		g.halve(1)
	}
}

func (g *guest) exit(c *conn) {
	c.visit.guest = nil
	g.conns.remove(c)
	g.account.Add(ledger.Conns, -1)
	g.account.Add(ledger.Files, -1)
	g.held -= c.slow.bytes
	if c.half.listed {
		g.halve(-1)
	}
}

// halve counts connections without a request.
func (g *guest) halve(n int) {
	g.half += n
	for _, h := range g.hoods {
		h.half += n
	}
}

// enroll counts a connection as one that a peer has made necessary.
func (s *service) enroll(c *conn) {
	l := &s.guests
	g := l.guest(ledger.SourceOf(c.from.addr.Addr(), -1))
	g.enter(c)
	g.fresh++
	l.mute.append(c)
	if g.conns.n+l.users > c.iface.bounds.few {
		s.sort(g)
	}
}

// leave ends that: the connection is closed, or the application has an endpoint on it.
func (s *service) leave(c *conn) {
	g := c.visit.guest
	if g == nil {
		return
	}
	s.slow.remove(c)
	s.guests.list(c).remove(c)
	g.exit(c)
	if !c.visit.looked {
		g.fresh--
	}
	if g.account.Source().UID >= 0 {
		s.guests.users--
	}
	c.visit = visit{}
	if g.conns.n == 0 {
		s.guests.forget(g)
	}
}

// list is the one of the two lists of all in which a connection is.
func (l *guestList) list(c *conn) *queue {
	if c.visit.heard {
		return &l.heard
	}
	return &l.mute
}

// active reports whether the connection has carried something since somebody looked.
// What we answer a peer counts as what he says: he may be asking on another connection.
func (c *conn) active() bool {
	return c.spoke || c.ep != nil && c.state == stateConnected && c.written > c.visit.told
}

// notice puts a connection that has carried something behind those that have not.
func (l *guestList) notice(c *conn) {
	c.spoke, c.visit.told = false, c.written
	l.list(c).remove(c)
	c.visit.heard = true
	l.heard.append(c)
	g := c.visit.guest
	g.conns.remove(c)
	g.conns.append(c)
}

// sort gives the connections of an address of this machine to the accounts of their
// users. Those whose user the kernel does not tell stay, and those it could not tell just
// now are asked about again. It reports whether any has gone.
func (s *service) sort(g *guest) (moved bool) {
	for c := g.conns.tail; c != nil && g.fresh > 0; {
		before := c.visit.own.prev
		if v := &c.visit; !v.looked {
			uid, sure := c.localUser()
			if !sure {
				break
			}
			v.looked = true
			g.fresh--
			if uid >= 0 {
				g.exit(c)
				s.guests.guest(ledger.SourceOf(c.from.addr.Addr(), uid)).enter(c)
				s.guests.users++
				moved = true
			}
		}
		c = before
	}
	if g.conns.n == 0 {
		s.guests.forget(g)
	}
	return moved
}

// taken is told that an endpoint has got the connection.
func (c *conn) taken(ep *endpoint) {
	if !ep.forPeer {
		c.iface.svc.leave(c)
	}
}

// count is the number of the source's connections in the process.
func (g *guest) count() int { return int(g.account.Of(ledger.Conns)) }

// silent returns the guest's connection that was silent for the longest.
func (l *guestList) silent(g *guest) *conn {
	for range g.conns.n {
		c := g.conns.head
		if !c.active() {
			break
		}
		l.notice(c)
	}
	return g.conns.head
}

// silentOf returns the connection, but one, that was silent for the longest among those
// from a network, or all where that is not valid. Those that have never carried anything
// come first.
func (l *guestList) silentOf(net netip.Prefix, but *conn) *conn {
	if net.IsValid() && net != l.net {
		l.net, l.mute.past, l.heard.past = net, nil, nil
	}
	if c, _ := l.look(&l.mute, net, but); c != nil {
		return c
	}
	c, _ := l.look(&l.heard, net, but)
	return c
}

// look is silentOf for one of the two lists, and tells how many connections it has looked
// at. Who was heard since the last look is passed over once. Those of other networks stay
// where they are and are passed over once, too, as long as it is about the same network.
func (l *guestList) look(q *queue, net netip.Prefix, but *conn) (c *conn, steps int) {
	var behind *conn // all up to this one are passed over
	others := net.IsValid()
	if others {
		behind = q.past
	}
	for c = q.after(behind); c != nil; c = q.after(behind) {
		steps++
		switch {
		case c == but:
			behind, others = c, false
		case net.IsValid() && !net.Contains(c.visit.guest.account.Source().Addr):
			behind = c
			if others {
				q.past = c
			}
		case c.active():
			l.notice(c)
		default:
			return c, steps
		}
	}
	return nil, steps
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
