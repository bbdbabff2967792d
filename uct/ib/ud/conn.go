//go:build linux

package ud

import (
	"time"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/handles"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

// conn is a connection of the state machine. It is made by the application, with its endpoint, or by
// a peer. A conn outlives its endpoint, to answer a peer that has not received the last
// acknowledgements.
type conn struct {
	uct.BasicSource
	uct.BasicConnection
	uct.Source
	iface    *iface
	flow     *flow.Endpoint
	ah       *handles.Handle // address handle of the path to the peer; nil while not connected
	qpn      verbs.QPN
	device   ib.Address // device address of the peer's port
	most     int        // largest packet on the path to the peer, in bytes
	ep       *endpoint  // application's endpoint; nil if the peer made the connection, or if closed
	reposted uint32     // number of the last request that retransmitted a message
	waits    int        // number of items in iface.retired with a completion of this connection

	ended   bool // the peer sends no more messages; reported after the late messages
	over    bool // the state machine has forgotten the connection; reported after the late messages
	dropped bool // dropped by DropSource

	paused      bool
	late        []late          // messages that are not delivered yet
	resumedNode kit.Node[*conn] // node in iface.resumed
}

// lookupLimit limits the cost of address lookups for unknown peers. To find the path to the sender
// of a CREQ the system may resolve an address on the network, and blocks for long if no host
// answers, as for a forged address. After a lookup that failed, paths to unknown peers are resolved
// in the background (handles.Cache.Resolve) for 1024 times the duration of that lookup. Meanwhile a
// CREQ is refused until the path to its sender is known; the peer has to repeat the CREQ.
type lookupLimit struct {
	clock event.Clock // not the worker's clock, which stands still during a round of progress
	until time.Duration
}

// now returns the current time.
func (w *lookupLimit) now() time.Duration { return w.clock.Again(0) }

// failed records that the lookup of a path to an unknown peer has failed. began is the time when
// the lookup started. Only the duration of the lookup counts, not the time that the application
// spends before the next call.
func (w *lookupLimit) failed(began time.Duration) {
	now := w.now()
	w.until = now + 1024*(now-began)
}

// mayBlockLookup reports whether a blocking lookup of the path to the sender of a CREQ is allowed now.
func (i *iface) mayBlockLookup() bool { return i.now() >= i.lookups.until }

// Limits on the variants of address handles to one Ethernet port. Without limits, peers would decide
// the number of address handles, by the number of their connections and of the paths they name.
const (
	ahLabels = 64
	ahPaths  = 8 // or the number of paths of the interface, if that is larger
)

// peerPath returns the path to a peer's interface. One address handle serves all connections between
// two interfaces.
func (i *iface) peerPath(a *ib.Address, qpn verbs.QPN, path int) ib.Path {
	if a.Ethernet {
		path %= max(i.NumPaths(), ahPaths)
	}
	return i.PathTo(a, path, ib.Seed(i.qp.QPN(), qpn)>>16%ahLabels)
}

// newConn makes the conn of a state machine's endpoint. a and qpn are the address of the peer.
func (i *iface) newConn(f *flow.Endpoint, a *ib.Address, qpn verbs.QPN) (*conn, error) {
	c := &conn{iface: i, flow: f, reposted: i.sq.done}
	c.Owner = c
	if err := c.resolvePath(a, qpn, int(f.Path())); err != nil {
		return nil, err
	}
	f.User = c
	f.SetGID(i.expectedGID(a))
	return c, nil
}

// resolvePath finds the path to the peer. On Ethernet the system may have to resolve the peer's address on
// the network; the call blocks meanwhile.
func (c *conn) resolvePath(a *ib.Address, qpn verbs.QPN, path int) error {
	i := c.iface
	way := i.peerPath(a, qpn, path)
	ah, err := i.Domain.Handles().Get(way.AH)
	if err != nil {
		return err
	}
	c.ah, c.qpn, c.device = ah, qpn, *a
	c.most = min(i.segment(), way.MTU.Bytes())
	return nil
}

// expectedGID returns the GID that a peer's packets have to come from, 0 if source GIDs are not checked.
func (i *iface) expectedGID(a *ib.Address) (gid [16]byte) {
	if i.gids.check && a.Ethernet {
		gid = a.GID
	}
	return gid
}

// gone is called when the state machine has forgotten the connection. It hands the address handle
// to iface.retired, because the device may still use it.
func (c *conn) gone() {
	c.over = true
	c.settle()
	if c.ah != nil {
		c.iface.retired.add(retiredItem{seq: c.iface.sq.posted, slot: -1, ah: c.ah})
		c.ah = nil
	}
}

// settle reports the end of the connection, at once or after the late messages.
func (c *conn) settle() {
	switch {
	case c.iface.offline:
		c.putOff()
	case len(c.late) == 0 || c.dropped:
		c.finish()
	}
}

// putOff queues the connection in iface.resumed, where progress handles it, unless it is paused.
func (c *conn) putOff() {
	if !c.paused && !c.resumedNode.Listed() {
		c.iface.resumed.Add(&c.resumedNode, c)
	}
}

// finish reports the end of the connection, without the late messages.
func (c *conn) finish() {
	c.forget()
	c.Source.Gone()
	if c.flow.Passive() {
		c.flow.Forget()
	}
}

// forget drops the late messages.
func (c *conn) forget() {
	c.iface.resumed.Remove(&c.resumedNode)
	for k := range c.late {
		c.iface.addLateBytes(-c.late[k].weight())
	}
	c.late = nil
}

// peerOf returns the key by which the state machine distinguishes peers. As in C, the key consists
// of the parts of an address from which address handles are made.
func peerOf(a *ib.Address, qpn uint32, path uint8) flow.Peer {
	p := flow.Peer{QPN: qpn, Path: path}
	copy(p.Addr[:], a.GID[:])
	p.Addr[16], p.Addr[17] = byte(a.LID), byte(a.LID>>8)
	if a.Ethernet {
		p.Addr[18] = 1
	}
	return p
}
