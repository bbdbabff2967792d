//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Iface is the endpoints of a queue pair. It belongs to one goroutine.
type Iface struct {
	Counters Counters

	// Taking is which endpoints take messages. It can be set at any time.
	Taking Taking

	cfg  Config
	port Port

	table table
	nodes pool
	peers peers

	// Time, in ns: what is given to Clock less what nobody called in.
	now     int64
	skipped int64
	timers  heap
	fresh   *Endpoint // sent something, and their timers do not run yet

	ready list // endpoints that owe control packets
	buf   [wire.HeaderLen + wire.ControlLen + MaxDevAddr]byte

	tick, timeout, linger, poke int64 // of cfg
	maxTick                     int64
	short                       int // length of a CREQ
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

// Large reports whether a packet of n bytes is too large to be repeated to a peer that
// shows no life.
func (it *Iface) Large(n int) bool { return n > it.short }

// Endpoints is how many there are, closed ones and those of peers among them.
func (it *Iface) Endpoints() int { return it.table.n }

// Taking is which endpoints of an interface take messages.
type Taking uint8

// Endpoints that take messages. The others' peers keep theirs, and give us up after
// their timeout if that does not change.
const (
	TakeAll     Taking = iota // all, though those that are halted but few
	TakeRunning               // those that are not halted
	TakeNone
)
