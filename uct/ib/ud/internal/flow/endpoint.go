//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Endpoint is one side of a connection.
type Endpoint struct {
	// User belongs to the layer above.
	User any

	it    *Iface
	state state
	owed  owed

	id   uint32 // id of this endpoint, which is the destination id of the peer's packets
	dest uint32 // the peer's id, once connected
	qpn  uint32 // number of the peer's queue pair, 0 if not known yet
	path uint8
	gid  [16]byte // GID of the peer's port, 0 if it is not checked

	// Sending (window.go, resend.go). The packets acked+1 to psn-1 are in flight.
	psn, max, acked wire.PSN
	cwnd            wire.PSN
	first, last     int32    // nodes of the packets in flight, none if there are none
	pos             int32    // the node to retransmit next
	re, reMax       wire.PSN // lowest and highest number still to be retransmitted
	nackAt          wire.PSN // value of acked when a NACK or a timeout last began a retransmission

	// Receiving (receive.go).
	got        wire.PSN // number of the last packet received in order
	nackedFrom wire.PSN // value of got when a NACK was last sent
	early      uint8    // position, from 1 on, of the lowest message that overtook the CREP; 0: none

	connSN  uint32
	peer    *peer           // nil if connected by id
	account *account        // account of the peer's address, while the endpoint is passive
	ranks   [rankings]int32 // positions in the rankings, while the endpoint is passive

	// Times, as Iface.now.
	sent         int64 // start of the wait for an acknowledgement
	resent       int64 // time of the last retransmission
	every        int64 // time between timer checks
	due          int64 // time of the next timer check
	nackedAt     int64 // time when the last NACK was sent
	lastReceived int64 // time of the last packet of the peer
	since        int64 // when the peer made the endpoint; once closed, when the linger time began
	took         int64 // when Halt was called, or a message was last taken after that

	slot      int32 // index in the heap of timers, none if the timer does not run
	fresh     bool
	nextFresh *Endpoint

	links [links]link
}

// state is the state of an endpoint, as bits.
type state uint16

const (
	connected state = 1 << iota // the peer's id is known
	passive                     // made by a CREQ; the application has not asked for it
	halfOpen                    // half-open: passive, and the peer has acknowledged nothing yet
	pairwise                    // connected by ids, without CREQ
	asked                       // has sent a CREQ
	closed                      // closed by the application
	failed
	gone
	blocked // has refused a message since it last reported room
	lively  // the peer has acknowledged or sent a NACK since the last timeout
	halted  // takes messages only now and then, see Halt
	parted  // owes or has sent the notice of its close to the peer
)

func (e *Endpoint) is(s state) bool { return e.state&s != 0 }

// newEndpoint makes an endpoint with an id. It returns nil if there is no room.
func (it *Iface) newEndpoint() *Endpoint {
	e := &Endpoint{it: it, dest: wire.NullID, first: none, last: none, pos: none, slot: none}
	if !it.table.add(e, it.cfg.MaxEndpoints) {
		return nil
	}
	e.reset()
	e.lastReceived = it.now
	return e
}

// reset sets the packet numbers of both directions to their start (uct_ud_ep_reset of ud_ep.c).
func (e *Endpoint) reset() {
	f := e.it.cfg.first
	e.psn, e.acked, e.cwnd = f, f-1, MinWindow
	e.max = f + MinWindow
	e.re, e.reMax = f, f-1
	e.nackAt = e.acked - 1
	e.got, e.nackedFrom, e.early = f-1, f-2, 0
	e.every = e.it.tick
}

// ID returns the endpoint's own id, which is part of its address.
func (e *Endpoint) ID() uint32 { return e.id }

// PeerID returns the peer's id, once connected.
func (e *Endpoint) PeerID() uint32 { return e.dest }

// PeerQPN returns the number of the peer's queue pair, 0 while it is not known.
func (e *Endpoint) PeerQPN() uint32 { return e.qpn }

// Path returns the index of the path to the peer.
func (e *Endpoint) Path() uint8 { return e.path }

// Connected reports whether the peer's id is known, so that messages can be sent.
func (e *Endpoint) Connected() bool { return e.is(connected) }

// Passive reports whether a peer has made the endpoint and the application has not
// taken it.
func (e *Endpoint) Passive() bool { return e.is(passive) }

// SetGID sets the GID of the peer's port. Packets with another source GID are dropped.
func (e *Endpoint) SetGID(gid [16]byte) { e.gid = gid }

// Idle reports whether the peer has received everything.
func (e *Endpoint) Idle() bool { return e.first == none }

// InFlight returns the number of packets that the peer has not acknowledged.
func (e *Endpoint) InFlight() int { return int(e.psn - e.acked - 1) }

// CanSend reports whether Send would take a message. No message overtakes a CREP, which tells the
// peer where numbers begin, nor packets that are being retransmitted.
func (e *Endpoint) CanSend() bool {
	return e.state&(connected|closed|failed|gone) == connected && e.owed&oweFirst == 0 && e.psn.Before(e.max)
}

// settle reports to the port that a message that was refused would be taken now, if that is so. It
// is called after a change that may have made room.
func (e *Endpoint) settle() {
	if e.is(blocked) && e.CanSend() {
		e.state &^= blocked
		e.it.port.Room(e)
	}
}
