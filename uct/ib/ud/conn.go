//go:build linux

package ud

import (
	"time"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// conn is a connection as the machine has it: made by the application with its endpoint,
// or by a peer. It outlives the endpoint, to answer a peer that has not heard of the
// last acknowledgements.
type conn struct {
	uct.Source
	iface    *iface
	flow     *flow.Endpoint
	ah       *ib.AH // nil of an endpoint that is not connected yet
	qpn      verbs.QPN
	device   ib.Address // of the peer's port
	most     int        // bytes of a packet on the way to it
	ep       *endpoint  // of the application; nil if the peer has made the connection, or if it is closed
	reposted uint32     // request that has repeated a message last
	waits    int        // those who wait in limbo

	ended   bool // the peer sends no more, which is to be told behind what waits
	over    bool // the machine has forgotten the connection, likewise
	dropped bool // for what has come on it

	paused bool
	late   []late          // messages that came while it was
	turn   kit.Node[*conn] // in iface.resumed
}

// lookupLimit limits what strangers cost. To find the way to the sender of a CREQ the system may
// ask the network, and waits long if nobody answers, as nobody does for an address that
// was made up. After such a wait the ways to strangers are sought in the background for a
// thousand times as long (ib.Domain.Seek): until they are known they have to ask again.
type lookupLimit struct {
	clock event.Clock // beside that of the rounds, which stands still
	until time.Duration
}

// now is the time at this very moment.
func (w *lookupLimit) now() time.Duration { return w.clock.Again(0) }

// failed is told that no way was found to a stranger, after a search that began then. It is that
// wait alone that counts: what else a program does before it looks again is not the strangers'.
func (w *lookupLimit) failed(began time.Duration) {
	now := w.now()
	w.until = now + 1024*(now-began)
}

// stranger reports whether the way to the sender of a CREQ may be looked for now.
func (i *iface) stranger() bool { return i.now() >= i.lookups.until }

// What tells address handles to a port of Ethernet apart: peers decide how many connections
// there are, and of how many paths they speak.
const (
	ahLabels = 64
	ahPaths  = 8 // or as many as the interface has
)

// way is that to a peer's interface. One address handle does for all connections between
// two interfaces.
func (i *iface) way(a *ib.Address, qpn verbs.QPN, path int) ib.Path {
	if a.Ethernet {
		path %= max(i.NumPaths(), ahPaths)
	}
	return i.PathTo(a, path, ib.Seed(i.qp.QPN(), qpn)>>16%ahLabels)
}

// newConn makes the connection of a machine's endpoint to a port.
func (i *iface) newConn(f *flow.Endpoint, a *ib.Address, qpn verbs.QPN) (*conn, error) {
	c := &conn{iface: i, flow: f, reposted: i.sq.done}
	c.Owner = c
	if err := c.aim(a, qpn, int(f.Path())); err != nil {
		return nil, err
	}
	f.User = c
	f.SetGID(i.guard(a))
	return c, nil
}

// aim finds the way to the peer. On Ethernet the system may have to ask the network for its
// address, and the call waits for the answer.
func (c *conn) aim(a *ib.Address, qpn verbs.QPN, path int) error {
	i := c.iface
	way := i.way(a, qpn, path)
	ah, err := i.Domain.AddressHandle(way.AH)
	if err != nil {
		return err
	}
	c.ah, c.qpn, c.device = ah, qpn, *a
	c.most = min(i.segment(), way.MTU.Bytes())
	return nil
}

// guard is the GID that packets of a peer have to come from, 0 if it does not matter.
func (i *iface) guard(a *ib.Address) (gid [16]byte) {
	if i.gids.check && a.Ethernet {
		gid = a.GID
	}
	return gid
}

// gone is told that the machine has forgotten the connection.
func (c *conn) gone() {
	c.over = true
	c.settle()
	if c.ah != nil {
		c.iface.retired.add(retiredItem{seq: c.iface.sq.posted, slot: -1, ah: c.ah})
		c.ah = nil
	}
}

// settle tells that nothing more will come, behind what waits.
func (c *conn) settle() {
	switch {
	case c.iface.offline:
		c.putOff()
	case len(c.late) == 0 || c.dropped:
		c.finish()
	}
}

// putOff has progress look after the connection.
func (c *conn) putOff() {
	if !c.paused && !c.turn.Listed() {
		c.iface.resumed.Add(&c.turn, c)
	}
}

// finish tells that nothing more will come.
func (c *conn) finish() {
	c.forget()
	c.Source.Gone()
	if c.flow.Passive() {
		c.flow.Forget()
	}
}

// forget drops what waits.
func (c *conn) forget() {
	c.iface.resumed.Remove(&c.turn)
	for k := range c.late {
		c.iface.weigh(-c.late[k].weight())
	}
	c.late = nil
}

// peerOf is the peer at an address as the machine tells peers apart: as C does, which
// goes by what its address handles are made of.
func peerOf(a *ib.Address, qpn uint32, path uint8) flow.Peer {
	p := flow.Peer{QPN: qpn, Path: path}
	copy(p.Addr[:], a.GID[:])
	p.Addr[16], p.Addr[17] = byte(a.LID), byte(a.LID>>8)
	if a.Ethernet {
		p.Addr[18] = 1
	}
	return p
}
