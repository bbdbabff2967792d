//go:build linux

package tcp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
)

// guest is a source of connections on which the application has no endpoint. Package ledger counts
// these connections for the process; the guest lists those of one worker. The list is ordered
// approximately, the connections that were silent for the longest first: a connection that was
// active since the last check moves to the end only when a connection has to be evicted.
//
// Guests on this machine are told apart by user, all others by address. Asking the kernel for the
// user of a connection takes longer than accepting it. So the connections from an address of this
// machine are charged to the address while they, together with those already charged to users, are
// no more than bounds.few. Beyond that number each is charged to the account of its user (sort).
type guest struct {
	account  *ledger.Account
	conns    queue
	fresh    int             // connections whose user has not been determined
	half     int             // connections whose request has not arrived
	held     int             // bytes of buffers that hold incomplete frames
	networks []*guestNetwork // counts of the networks that contain the guest
}

// guestNetwork has the counts of one worker for a network, an address prefix that contains guests.
type guestNetwork struct {
	guests int // guests with an address in the network
	half   int // connections whose request has not arrived
}

// guestList holds all guests of a worker.
type guestList struct {
	of       map[ledger.Source]*guest
	networks map[netip.Prefix]*guestNetwork
	users    int // connections charged to users of this machine
	most     int // largest number of guests since the maps were made

	// The connections of all guests, approximately those that were silent for the longest
	// first: mute has those that have never carried anything, heard has the others.
	neverActive, onceActive queue
	net                     netip.Prefix // the last network that silentOf was called with
}

// guestEntry is a connection's entry in the lists of guests.
type guestEntry struct {
	guest       *guest // nil: the application has an endpoint on it
	own         links  // in the guest's list
	all         links  // in guestList.neverActive or guestList.onceActive
	onceActive  bool   // the connection is in guestList.onceActive, otherwise in guestList.neverActive
	userChecked bool   // the peer's user has been determined, or the kernel does not report it

	// counted is the value of conn.written up to which output does not count as activity: output
	// from before the last check, and output that is no message.
	counted uint64
}

func (l *guestList) init() {
	all := func(c *conn) *links { return &c.guestEntry.all }
	l.neverActive.links, l.onceActive.links = all, all
}

// n returns the number of guests' connections.
func (l *guestList) n() int { return l.neverActive.n + l.onceActive.n }

// guest returns the guest of a source, and makes one if there is none.
func (l *guestList) guest(source ledger.Source) *guest {
	g := l.of[source]
	if g != nil {
		return g
	}
	g = &guest{account: ledger.Open(source), conns: queue{links: func(c *conn) *links { return &c.guestEntry.own }}}
	if l.of == nil {
		l.of, l.networks = make(map[ledger.Source]*guest), make(map[netip.Prefix]*guestNetwork)
	}
	l.of[source] = g
	l.most = max(l.most, len(l.of))
	if nets, ok := source.Nets(); ok {
		for _, p := range nets {
			h := l.networks[p]
			if h == nil {
				h = new(guestNetwork)
				l.networks[p] = h
			}
			h.guests++
			g.networks = append(g.networks, h)
		}
	}
	return g
}

// fewGuests is the largest number of guests after which the maps are reused when they are empty.
// Larger maps are dropped, because maps do not shrink.
const fewGuests = 64

// forget removes a guest that has no connections any more, and closes its account.
func (l *guestList) forget(g *guest) {
	source := g.account.Source()
	delete(l.of, source)
	nets, _ := source.Nets()
	for i, h := range g.networks {
		if h.guests--; h.guests == 0 {
			delete(l.networks, nets[i])
		}
	}
	if len(l.of) == 0 && l.most > fewGuests {
		l.of, l.networks, l.most = nil, nil, 0 // maps do not shrink
	}
	g.account.Close()
}

// enter adds a connection to a guest and charges the guest for the connection, its file descriptor
// and its buffered bytes, and counts it as half open if its request has not arrived. exit reverses
// that.
func (g *guest) enter(c *conn) {
	c.guestEntry.guest = g
	g.conns.append(c)
	g.account.Add(ledger.Conns, 1)
	g.account.Add(ledger.Files, 1)
	g.held += c.slow.bytes
	if c.half.listed {
		g.addHalfOpen(1)
	}
}

func (g *guest) exit(c *conn) {
	c.guestEntry.guest = nil
	g.conns.remove(c)
	g.account.Add(ledger.Conns, -1)
	g.account.Add(ledger.Files, -1)
	g.held -= c.slow.bytes
	if c.half.listed {
		g.addHalfOpen(-1)
	}
}

// addHalfOpen adds n to the number of connections whose request has not arrived, of the guest and of its
// networks.
func (g *guest) addHalfOpen(n int) {
	g.half += n
	for _, h := range g.networks {
		h.half += n
	}
}

// enroll counts a connection as one of the guest with the connection's remote address. If the guest
// and the users of this machine together have more than bounds.few connections, the guest's
// connections are charged to their users (sort).
func (s *service) enroll(c *conn) {
	l := &s.guests
	g := l.guest(ledger.SourceOf(c.from.addr.Addr(), -1))
	g.enter(c)
	g.fresh++
	l.neverActive.append(c)
	if g.conns.n+l.users > c.iface.bounds.few {
		s.sort(g)
	}
}

// leave reverses enroll, if the connection is enrolled: the connection is closed, or the
// application has an endpoint on it.
func (s *service) leave(c *conn) {
	g := c.guestEntry.guest
	if g == nil {
		return
	}
	s.slow.remove(c)
	s.guests.list(c).remove(c)
	g.exit(c)
	if !c.guestEntry.userChecked {
		g.fresh--
	}
	if g.account.Source().UID >= 0 {
		s.guests.users--
	}
	c.guestEntry = guestEntry{}
	if g.conns.n == 0 {
		s.guests.forget(g)
	}
}

// list returns the list, mute or heard, that a connection is in.
func (l *guestList) list(c *conn) *queue {
	if c.guestEntry.onceActive {
		return &l.onceActive
	}
	return &l.neverActive
}

// active reports whether the connection has carried messages since the last check (notice).
// Messages sent to the peer count as well, because they may answer requests that arrive on another
// connection.
func (c *conn) active() bool {
	return c.spoke || c.ep != nil && c.state == stateConnected && c.written > c.guestEntry.counted
}

// notice moves an active connection to the end of guestList.onceActive and of its guest's list, and
// starts a new interval for the method active.
func (l *guestList) notice(c *conn) {
	c.spoke, c.guestEntry.counted = false, c.written
	l.list(c).remove(c)
	c.guestEntry.onceActive = true
	l.onceActive.append(c)
	g := c.guestEntry.guest
	g.conns.remove(c)
	g.conns.append(c)
}

// sort moves the connections of an address of this machine to the accounts of their users. A
// connection whose user the kernel does not report stays with the address. If the kernel cannot
// answer just now, sort stops, and its next call asks again. sort reports whether any connection
// was moved.
func (s *service) sort(g *guest) (moved bool) {
	for c := g.conns.tail; c != nil && g.fresh > 0; {
		before := c.guestEntry.own.prev
		if v := &c.guestEntry; !v.userChecked {
			uid, sure := c.localUser()
			if !sure {
				break
			}
			v.userChecked = true
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

// taken is called when an endpoint takes over the connection. The connection is no longer
// a guest's, unless a peer made the endpoint necessary (forPeer).
func (c *conn) taken(ep *endpoint) {
	if !ep.forPeer {
		c.iface.svc.leave(c)
	}
}

// count returns the number of the source's connections in the process.
func (g *guest) count() int { return int(g.account.Of(ledger.Conns)) }

// silent returns the guest's connection that was silent for the longest. It moves the active
// connections at the head of the list to the end.
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

// silentOf returns the connection that was silent for the longest among those from net, or among
// all if net is not valid. It never returns the connection in the parameter but. Connections that
// have never carried a message come first.
func (l *guestList) silentOf(net netip.Prefix, but *conn) *conn {
	if net.IsValid() && net != l.net {
		l.net, l.neverActive.past, l.onceActive.past = net, nil, nil
	}
	if c, _ := l.look(&l.neverActive, net, but); c != nil {
		return c
	}
	c, _ := l.look(&l.onceActive, net, but)
	return c
}

// look does the search of silentOf in one list, mute or heard. It also returns the number of
// connections that it examined. Connections that were active since the last check move to the end
// of guestList.onceActive. Connections of other networks keep their places; while consecutive calls are
// for the same network, each of them is examined once (queue.past).
func (l *guestList) look(q *queue, net netip.Prefix, but *conn) (c *conn, steps int) {
	var behind *conn // connections up to this one are skipped
	others := net.IsValid()
	if others {
		behind = q.past
	}
	for c = q.after(behind); c != nil; c = q.after(behind) {
		steps++
		switch {
		case c == but:
			behind, others = c, false
		case net.IsValid() && !net.Contains(c.guestEntry.guest.account.Source().Addr):
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

// enrollOwn enrolls a connection that this process makes because of a peer. No other
// connection is evicted for it: at a limit enrollOwn returns EMFILE, and the attempt is
// repeated later.
func (c *conn) enrollOwn() error {
	s := c.iface.svc
	s.enroll(c)
	g := c.guestEntry.guest
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
