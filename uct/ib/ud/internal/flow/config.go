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
	QPN     uint32      // of the queue pair
	DevAddr []byte      // own device address, for CREQs; up to MaxDevAddr bytes
	Origin  wire.Origin // host and process of this side, for CREQs and CREPs

	MaxWindow int           // packets in flight plus one, 2 to 1025
	Tick      time.Duration // without an acknowledgement before the first probe; 3 ticks before the first repetition
	Backoff   float64       // factor of the time between checks while no answer comes, at least 1
	Timeout   time.Duration // without an acknowledgement until a peer is declared dead
	Linger    time.Duration // how long a closed endpoint answers
	Poke      time.Duration // probes wake the peer once the time between them reaches Poke

	// Limits on the state that peers can make this side keep.
	MaxEndpoints int // all endpoints of the interface
	MaxPassive   int // endpoints made by peers and not taken by the application
	MaxEmbryos   int // endpoints whose peer has sent nothing but a CREQ
	MaxLinger    int // closed endpoints

	first wire.PSN // number of first packets, for tests; wire.FirstPSN
}

const (
	// MinWindow and MaxWindow bound the window. As in C they are one more than the number of
	// packets in flight: with 2 one packet is in flight (UCT_UD_CA_* of ud_def.h).
	MinWindow = 2
	MaxWindow = 1025

	// MaxDevAddr is the length of the longest device address.
	MaxDevAddr = 64

	// embryoTime is how long an embryo is safe from eviction by age.
	embryoTime = 2 * time.Second

	// heavyPart: endpoints of an address may be evicted in favor of other addresses once the
	// address has 1/heavyPart of MaxPassive.
	heavyPart = 16

	// resendsPerAck: each resendsPerAck-th repeated packet asks for an acknowledgement
	// (UCT_UD_RESENDS_PER_ACK).
	resendsPerAck = 4
)

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
	// Sent.
	Acks, Nacks, Probes  uint64 // packets without a number of their own
	Keepalives           uint64
	CREQs, CREPs         uint64 // including repetitions
	Resent               uint64 // packets of all kinds
	NackLosses, Timeouts uint64 // repetitions begun, by cause
	Ends, Refusals       uint64 // notices that an endpoint is closed, or does not exist any more

	// Received and used.
	Delivered, GotAcks, GotNacks uint64
	Passive                      uint64 // endpoints made by peers
	Restarts                     uint64 // peers that came back as another process
	GotEnds, GotRefusals         uint64

	// Received and dropped.
	Short, Malformed uint64 // shorter than a header; not a packet of the protocol
	Elsewhere        uint64 // not for an address of the port; counted by the layer above
	Unknown          uint64 // for an endpoint that does not exist
	WrongSource      uint64 // not from the endpoint's peer
	WrongAck         uint64 // acknowledges packets that were never sent
	WrongNumber      uint64 // further ahead than a window
	WrongControl     uint64 // CREQ or CREP that does not match the endpoint's state
	Unconnected      uint64 // before the endpoint was connected
	Duplicate, Ahead uint64 // out of order
	Puts             uint64 // puts with data, which this side never offers memory for
	Closed           uint64 // new packets for an endpoint that takes no more
	Halted           uint64 // new packets for an endpoint that takes none at present
	Refused          uint64 // CREQs, for lack of room or of a path to their sender

	// Given up.
	Dead    uint64 // endpoints whose peer does not answer
	Evicted uint64 // passive endpoints, to make room for others
}
