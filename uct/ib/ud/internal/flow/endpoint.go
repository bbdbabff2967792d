//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Endpoint is one end of a connection.
type Endpoint struct {
	// User belongs to the layer above.
	User any

	it    *Iface
	state state
	owed  owed

	id   uint32 // ours, which the peer's packets name
	dest uint32 // the peer's, once connected
	qpn  uint32 // of the peer's queue pair, 0 if not known yet
	path uint8
	gid  [16]byte // of the peer's port, 0 if it does not matter

	// Sending (window.go, resend.go). In flight are acked+1 to psn-1.
	psn, max, acked wire.PSN
	cwnd            wire.PSN
	first, last     int32    // nodes of what is in flight, none if nothing is
	pos             int32    // the node to repeat next,
	re, reMax       wire.PSN // its number or more, and the last one to be repeated
	nackAt          wire.PSN // acked, when a NACK last made us repeat

	// Receiving (receive.go).
	got   wire.PSN // the last one received in order
	told  wire.PSN // got, when a NACK was last sent
	early uint8    // which one the first message was that came before the CREP, 0 without

	connSN uint32
	peer   *peer           // nil if connected by id
	burden *burden         // that it is part of, while it is passive
	ranks  [rankings]int32 // places in rankings, likewise

	// Times, as Iface.now.
	sent   int64 // begin of the wait for an answer
	resent int64 // last repetition
	every  int64 // time between looks
	due    int64 // next look
	toldAt int64 // last NACK of ours
	heard  int64 // last packet of the peer
	since  int64 // made by the peer, or closed
	took   int64 // last message while halted

	slot      int32 // in the heap of timers, none if it does not run
	fresh     bool
	nextFresh *Endpoint

	links [links]link
}

// state is what an endpoint is and was, as bits.
type state uint16

const (
	connected state = 1 << iota // the peer's id is known
	passive                     // made by a CREQ; the application has not asked for it
	embryo                      // passive, and the peer has answered nothing yet
	pairwise                    // connected by ids, without CREQ
	asked                       // a CREQ of ours was sent
	closed                      // by the application
	failed
	gone
	blocked // has refused a message since it last told of room
	lively  // the peer has shown life since messages last seemed lost
	halted  // takes messages only now and then
	parted  // has said that it is closed
)

func (e *Endpoint) is(s state) bool { return e.state&s != 0 }

// newEndpoint makes an endpoint with an id, nil if there is no room.
func (it *Iface) newEndpoint() *Endpoint {
	e := &Endpoint{it: it, dest: wire.NullID, first: none, last: none, pos: none, slot: none}
	if !it.table.add(e, it.cfg.MaxEndpoints) {
		return nil
	}
	e.reset()
	e.heard = it.now
	return e
}

// reset begins the numbers of both directions (uct_ud_ep_reset of ud_ep.c).
func (e *Endpoint) reset() {
	f := e.it.cfg.first
	e.psn, e.acked, e.cwnd = f, f-1, MinWindow
	e.max = f + MinWindow
	e.re, e.reMax = f, f-1
	e.nackAt = e.acked - 1
	e.got, e.told, e.early = f-1, f-2, 0
	e.every = e.it.tick
}

// ID is the endpoint's own id, which its address tells.
func (e *Endpoint) ID() uint32 { return e.id }

// PeerID is the peer's id, once connected.
func (e *Endpoint) PeerID() uint32 { return e.dest }

// PeerQPN is the peer's queue pair, 0 while it is not known.
func (e *Endpoint) PeerQPN() uint32 { return e.qpn }

// Path is the index of the path to the peer.
func (e *Endpoint) Path() uint8 { return e.path }

// Connected reports whether the peer's id is known, and so messages can be sent.
func (e *Endpoint) Connected() bool { return e.is(connected) }

// Passive reports whether a peer has made the endpoint and the application has not
// taken it.
func (e *Endpoint) Passive() bool { return e.is(passive) }

// SetGID has packets refused that do not come from a port of the peer's GID.
func (e *Endpoint) SetGID(gid [16]byte) { e.gid = gid }

// Idle reports whether the peer has received everything.
func (e *Endpoint) Idle() bool { return e.first == none }

// InFlight is how many packets the peer has not acknowledged.
func (e *Endpoint) InFlight() int { return int(e.psn - e.acked - 1) }

// CanSend reports whether Send would take a message. Nothing overtakes a CREP, which
// tells the peer where numbers begin, nor what is being repeated.
func (e *Endpoint) CanSend() bool {
	return e.state&(connected|closed|failed|gone) == connected && e.owed&oweFirst == 0 && e.psn.Before(e.max)
}

// settle tells of room after anything that may have made some.
func (e *Endpoint) settle() {
	if e.is(blocked) && e.CanSend() {
		e.state &^= blocked
		e.it.port.Room(e)
	}
}
