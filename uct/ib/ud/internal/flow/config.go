//go:build linux

package flow

import (
	"time"

	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// Config is what an Iface is made of. Times and windows that are zero have C's
// defaults (uct_ud_iface_config_table of src/uct/ib/ud/base/ud_iface.c), limits ours.
type Config struct {
	QPN     uint32      // of the queue pair
	DevAddr []byte      // own device address, for CREQs; up to MaxDevAddr bytes
	Origin  wire.Origin // who we are, for CREQs and CREPs

	MaxWindow int           // packets in flight and one, 2 to 1025
	Tick      time.Duration // before the first question; 3 of them before the first repetition
	Backoff   float64       // by which the time is multiplied while no answer comes, at least 1
	Timeout   time.Duration // without an answer until a peer is taken for dead
	Linger    time.Duration // how long a closed endpoint answers
	Poke      time.Duration // from this time between questions on they wake the peer

	// Bounds of what others can make us keep.
	MaxEndpoints int // of the interface, all together
	MaxPassive   int // made by peers and not taken by the application
	MaxEmbryos   int // of which nothing was heard but a CREQ
	MaxLinger    int // closed ones

	first wire.PSN // number of first packets, for tests; wire.FirstPSN
}

const (
	// MinWindow and MaxWindow bound the window. As in C they count the packet behind
	// the last: with 2 there is one in flight (UCT_UD_CA_* of ud_def.h).
	MinWindow = 2
	MaxWindow = 1025

	// MaxDevAddr is the length of the longest device address.
	MaxDevAddr = 64

	// embryoTime is how long an embryo is safe from newcomers.
	embryoTime = 2 * time.Second

	// heavyPart: an address that has so manieth part of all passive endpoints there can
	// be is one that may give way to others.
	heavyPart = 16

	// resendsPerAck: each so manieth packet that is repeated asks for an answer
	// (UCT_UD_RESENDS_PER_ACK).
	resendsPerAck = 4
)

func or[T int | float64 | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// fill puts in the defaults and keeps what is given in its bounds.
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

// Counters are what happened on an Iface, since it was made.
type Counters struct {
	// Sent.
	Acks, Nacks, Probes  uint64 // packets without a number of their own
	Keepalives           uint64
	CREQs, CREPs         uint64 // with repetitions
	Resent               uint64 // packets, all kinds
	NackLosses, Timeouts uint64 // times that a repetition began, by what
	Ends, Refusals       uint64 // words of farewell

	// Received and used.
	Delivered, GotAcks, GotNacks uint64
	Passive                      uint64 // endpoints made by peers
	Restarts                     uint64 // peers that came back as somebody else
	GotEnds, GotRefusals         uint64

	// Received and dropped.
	Short, Malformed uint64 // less than a header; nothing that a peer sends
	Elsewhere        uint64 // not for an address of the port, which the layer above knows
	Unknown          uint64 // for an endpoint that is not there
	WrongSource      uint64 // not from the endpoint's peer
	WrongAck         uint64 // of what was never sent
	WrongNumber      uint64 // further ahead than a window
	WrongControl     uint64 // CREQ or CREP that does not fit
	Unconnected      uint64 // before the endpoint was connected
	Duplicate, Ahead uint64 // out of order
	Puts             uint64 // with data; nobody asked for them
	Closed           uint64 // new, for an endpoint that takes no more
	Halted           uint64 // new, for an endpoint that takes none just now
	Refused          uint64 // CREQs, for lack of room or of a way to their sender

	// Given up.
	Dead    uint64 // endpoints whose peer does not answer
	Evicted uint64 // passive ones, for others
}
