//go:build linux

package flow

import (
	"time"

	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// Config has the parameters of an Iface. Times and windows that are zero have the defaults of C UCX
// (uct_ud_iface_config_table of src/uct/ib/ud/base/ud_iface.c); limits that are zero have defaults
// of this package.
type Config struct {
	QPN     uint32      // number of the queue pair
	DevAddr []byte      // own device address, for CREQs; up to MaxDevAddr bytes
	Origin  wire.Origin // host and process of this side, for CREQs and CREPs

	MaxWindow int           // limit of the window: packets in flight plus one, 2 to 1025
	Tick      time.Duration // time without an answer before a probe; 3 ticks before retransmission
	Backoff   float64       // factor of the time between checks while no answer comes, at least 1
	Timeout   time.Duration // time without an acknowledgement until a peer is declared dead
	Linger    time.Duration // how long a closed endpoint answers
	Poke      time.Duration // probes wake the peer once the time between them reaches Poke

	// Limits on the state that peers can make this side keep.
	MaxEndpoints int // limit on all endpoints of the interface
	MaxPassive   int // limit on endpoints made by peers and not taken by the application
	MaxEmbryos   int // limit on endpoints whose peer has sent nothing but a CREQ (embryos)
	MaxLinger    int // limit on closed endpoints

	first wire.PSN // number of first packets, for tests; wire.FirstPSN
}

const (
	// MinWindow and MaxWindow bound the window. As in C they are one more than the number of
	// packets in flight: with 2 one packet is in flight (UCT_UD_CA_* of ud_def.h).
	MinWindow = 2
	MaxWindow = 1025

	// MaxDevAddr is the length of the longest device address.
	MaxDevAddr = 64

	// embryoGrace is how long an embryo, a half-open endpoint, is safe from eviction by age.
	embryoGrace = 2 * time.Second

	// heavyPart is the part of MaxPassive, as 1/heavyPart, from which on an address may have its
	// endpoints evicted in favor of other addresses.
	heavyPart = 16

	// resendsPerAck is how often a retransmitted packet asks for an acknowledgement: each packet
	// whose number is a multiple of it does (UCT_UD_RESENDS_PER_ACK).
	resendsPerAck = 4
)

// or returns v, or the default d if v is zero.
func or[T int | float64 | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// fill sets the defaults and limits the given values to their bounds.
func (c *Config) fill() {
	c.MaxWindow = min(max(or(c.MaxWindow, MaxWindow), MinWindow), MaxWindow)
	c.Tick = max(or(c.Tick, 10*time.Millisecond), time.Microsecond)
	c.Backoff = max(or(c.Backoff, 2), 1)
	c.Timeout = max(or(c.Timeout, 30*time.Second), 4*c.Tick)
	c.Linger = or(c.Linger, 5*time.Minute)
	c.Poke = or(c.Poke, 250*time.Millisecond)
	c.MaxEndpoints = min(or(c.MaxEndpoints, maxIndex), maxIndex)
	c.MaxPassive = or(c.MaxPassive, 1<<15)
	c.MaxEmbryos = or(c.MaxEmbryos, 1<<10)
	c.MaxLinger = or(c.MaxLinger, 1<<12)
	if c.first == 0 {
		c.first = wire.FirstPSN
	}
}

// Counters count events of an Iface since it was made.
type Counters struct {
	// Packets sent.
	Acks, Nacks, Probes  uint64 // packets that use no number
	Keepalives           uint64
	CREQs, CREPs         uint64 // including retransmissions
	Resent               uint64 // packets of all kinds
	NackLosses, Timeouts uint64 // retransmissions begun, by cause
	Ends, Refusals       uint64 // notices that an endpoint is closed, or does not exist any more

	// Packets received and used.
	Delivered, GotAcks, GotNacks uint64
	Passive                      uint64 // endpoints made by peers
	Restarts                     uint64 // peers that came back as another process
	GotEnds, GotRefusals         uint64

	// Packets received and dropped.
	Short, Malformed uint64 // shorter than a header; not a packet of the protocol
	Elsewhere        uint64 // not for an address of the port; counted by the layer above
	Unknown          uint64 // for an endpoint that does not exist
	WrongSource      uint64 // not from the endpoint's peer
	WrongAck         uint64 // acknowledges packets that were never sent
	WrongNumber      uint64 // packet number further ahead than a window
	WrongControl     uint64 // CREQ or CREP that does not match the endpoint's state
	Unconnected      uint64 // before the endpoint was connected
	Duplicate, Ahead uint64 // out of order: received already, or after a gap
	Puts             uint64 // puts with data, which this side never offers memory for
	Closed           uint64 // new packets for an endpoint that takes no more
	Halted           uint64 // new packets for an endpoint that takes none at present
	Refused          uint64 // CREQs, for lack of room or of a path to their sender

	// Endpoints given up.
	Dead    uint64 // endpoints whose peer does not answer
	Evicted uint64 // passive endpoints, to make room for others
}
