package ucp

import (
	"net/netip"

	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/uct"
)

// Connections by socket address. The client knows where the server listens; a connection
// manager (uct.ConnManager) carries what the two say to each other first (proto.CMData),
// and afterwards nothing but the end. The lanes that they agree on that way are of the
// device that the connection goes over. By them the server then names all that it has,
// and they agree on better ones, as C does with UCX_CM_USE_ALL_DEVICES=y:
//
//	client                              server
//	   data: ends of its lanes ──►         the application accepts
//	   connects its ends    ◄── data: the other ends, connected
//	   notification ──►
//	                        ◄── PRE_REQUEST: all of its resources
//	   REQUEST: lanes, their ends ──►
//	                        ◄── REPLY: the other ends
//	   ACK ──►
//
// Operations wait until that is over. Lanes that are chosen again are kept; the first one
// for messages carries the wireup messages. In the other mode there are no messages behind
// the notification. Closing ends the connection of the manager when all is flushed, and
// is over when the peer has ended its side.

// connection is what an endpoint has that a manager has made.
type connection struct {
	uct    uct.ConnEndpoint // nil before there is one, and after the end
	client bool
	all    bool // lanes of all devices are agreed on behind the notification (conn_devices.go)
	stage  connStage

	remote, local netip.AddrPort // of the client as the application said, and of both after the end
	id            uint64         // that is told to the peer
	sendID        bool           // it is
	serverID      uint64         // that a server has told
	manager       int            // which one is being tried
	device        string         // of ours that a server is reached by

	gone bool // the peer has ended the manager's connection
}

// connStage is how far a connection is.
type connStage uint8

const (
	connCalling  connStage = iota // the client waits for the server's data, the server for the notification
	connShared                    // both have the first lanes: the client waits for PRE_REQUEST, the server for REQUEST
	connAgreeing                  // the client waits for REPLY, the server for ACK
	connOpen
)

// connState is what a worker keeps for connections.
type connState struct {
	managers  []manager // in the order in which they are tried
	opened    bool      // managers is filled in
	listeners []*Listener
	parting   []parting // endpoints whose peers have gone, and that may have messages left
}

// parting is an endpoint whose peer has closed the connection, or a lane. What it has sent
// before may still be in memory that we share, and comes first.
type parting struct {
	ep     *Endpoint
	event  life.Event
	err    error
	rounds int // that are waited for a quiet one at most
}

// mostRounds is enough to receive what a ring holds. Others may keep a worker busy for ever.
const mostRounds = 1000

// manager is a connection manager of a worker.
type manager struct {
	name string
	uct  uct.ConnManager // nil if it could not be opened
	err  error           // why
}

// hangUp ends the connection at once.
func (ep *Endpoint) hangUp() {
	c := ep.conn()
	if c == nil {
		return
	}
	if u := c.uct; u != nil {
		c.uct, c.local, c.remote = nil, u.LocalAddr(), u.RemoteAddr()
		u.Close()
	}
}

// onDisconnected is told that the peer has ended the connection.
func (ep *Endpoint) onDisconnected(_ uct.ConnEndpoint, err error) {
	c := ep.conn()
	if c == nil || c.gone {
		return
	}
	c.gone = true
	if ep.life.Stage == life.Leaving {
		ep.report(life.Left, nil)
		return
	}
	if err == nil {
		err = errDisconnected
	}
	ep.reportQuietly(life.Left, err)
}

// reportQuietly reports an event when nothing arrives any more.
func (ep *Endpoint) reportQuietly(ev life.Event, err error) {
	if n := ep.note(); n.ending == nil {
		n.ending = err
	}
	ep.w.conns.parting = append(ep.w.conns.parting, parting{ep, ev, err, mostRounds})
}
