//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Iface holds the endpoints of a queue pair. It belongs to one goroutine.
type Iface struct {
	Counters Counters

	// Taking selects the endpoints that take messages. It can be set at any time.
	Taking Taking

	cfg  Config
	port Port

	table table
	nodes pool
	peers peers

	// Times in ns. now is the argument of Clock less skipped.
	now     int64
	skipped int64 // total delay of calls that does not count
	timers  heap
	fresh   *Endpoint // list of endpoints that have sent, whose timers do not run yet

	ready list // endpoints that owe control packets
	buf   [wire.HeaderLen + wire.ControlLen + MaxDevAddr]byte

	tick, timeout, linger, poke int64 // the times of cfg, in ns
	maxTick                     int64 // longest time between timer checks
	short                       int   // length of a CREQ of this side
}

// NewIface makes an interface without endpoints.
func NewIface(cfg Config, port Port) (*Iface, error) {
	cfg.fill()
	if len(cfg.DevAddr) > MaxDevAddr {
		return nil, wire.ErrAddress
	}
	it := &Iface{
		cfg:     cfg,
		port:    port,
		tick:    int64(cfg.Tick),
		timeout: int64(cfg.Timeout),
		linger:  int64(cfg.Linger),
		poke:    int64(cfg.Poke),
		maxTick: max(int64(cfg.Timeout)/3, int64(cfg.Tick)),
		short:   wire.CREQLen(len(cfg.DevAddr)),
	}
	it.nodes.free = none
	it.peers.init(cfg.MaxPassive)
	return it, nil
}

// Large reports whether a packet of n bytes is too large to be retransmitted to a silent peer.
func (it *Iface) Large(n int) bool { return n > it.short }

// Endpoints returns the number of endpoints, including closed ones and those made by peers.
func (it *Iface) Endpoints() int { return it.table.n }

// Taking selects the endpoints of an interface that take messages.
type Taking uint8

// Values of Taking. The peer of an endpoint that takes no messages keeps them. If that does not
// change, the peer declares this side dead after the peer's timeout.
const (
	TakeAll     Taking = iota // all endpoints; halted ones take only few messages
	TakeRunning               // endpoints that are not halted
	TakeNone
)
