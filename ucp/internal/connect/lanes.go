package connect

import (
	"bytes"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// Lanes is what an endpoint knows of its pairwise lanes. Bit k of a set stands for lane k.
type Lanes struct {
	Paired  uint64  // the pairwise lanes
	Joined  uint64  // subset of Paired that is connected with the other side's transport endpoints
	Kept    uint64  // subset of Joined that was connected before the current handshake
	Entries []uint8 // for each lane, index of the entry of the other side's address that it leads to
}

// Numbers maps a lane of this side to the other side's number of the lane.
type Numbers [proto.MaxLanes]uint8

// AuxLane is the number of the auxiliary lane on this side.
const AuxLane = proto.NullLane - 1

// LeadsTo reports whether a lane is connected with the transport endpoint that has these addresses:
// of its device, of its interface, and end, its own.
type LeadsTo func(lane int, dev *proto.AddressDevice, f *proto.AddressIface, end []byte) bool

// Choose begins a handshake for lanes that were just chosen toward an address: lane k, if it is in
// the set paired, is connected pairwise, and leads to the entry entries[k] of the address. The lanes
// in the set kept are connected already.
func (l *Lanes) Choose(paired, kept uint64, entries []uint8) {
	*l = Lanes{Paired: paired, Joined: paired & kept, Kept: paired & kept, Entries: entries}
}

// Agreed ends a handshake: from now on the lanes are used like any others.
func (l *Lanes) Agreed() { l.Kept = 0 }

// Unjoined yields the pairwise lanes that are not connected yet, in the order of their numbers.
func (l *Lanes) Unjoined() iter.Seq[int] { return members(l.Paired &^ l.Joined) }

// Join records that a lane is connected with the other side's transport endpoint.
func (l *Lanes) Join(lane int) { l.Joined |= 1 << lane }

// Has reports whether a lane is connected pairwise.
func (l *Lanes) Has(lane uint8) bool { return l.Paired&(1<<lane) != 0 }

// Match assigns a transport endpoint of the other side, from the address in its request, to each
// pairwise lane, and returns the numbers of these endpoints. The lanes were chosen toward that
// address. A lane that is connected already keeps the endpoint that it is connected with; the other
// lanes get the remaining endpoints of their entries in order. If a lane gets none, Match returns
// the lane and a LaneError.
func (l *Lanes) Match(addr *proto.WorkerAddress, leadsTo LeadsTo) (numbers Numbers, err error) {
	var taken uint64
	assign := func(lane int, joined bool) bool {
		dev, f := addr.Entry(int(l.Entries[lane]))
		if f == nil {
			return false
		}
		e := slices.IndexFunc(f.EpAddrs, func(e proto.AddressEp) bool {
			return e.Lane < proto.MaxLanes && taken&(1<<e.Lane) == 0 && (!joined || leadsTo(lane, dev, f, e.Addr))
		})
		if e < 0 {
			return false
		}
		numbers[lane] = f.EpAddrs[e].Lane
		taken |= 1 << numbers[lane]
		return true
	}
	for lane := range members(l.Joined) {
		if !assign(lane, true) {
			return numbers, errNoEndpoint(lane)
		}
	}
	for lane := range l.Unjoined() {
		if !assign(lane, false) {
			return numbers, errNoEndpoint(lane)
		}
	}
	return numbers, nil
}

// Target is a transport endpoint of the other side, as an address describes it.
type Target struct {
	Device *proto.AddressDevice
	Iface  *proto.AddressIface
	Addr   []byte // address of the transport endpoint; nil if there is none
}

// Find returns the first transport endpoint in addr that has a number.
func Find(addr *proto.WorkerAddress, number uint8) (t Target) {
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		if e := slices.IndexFunc(f.EpAddrs, func(e proto.AddressEp) bool { return e.Lane == number }); e >= 0 {
			t = Target{d, f, f.EpAddrs[e].Addr}
		}
		return t.Addr == nil
	})
	return t
}

// Target returns the transport endpoint in addr, under a number, that a lane is to be connected
// with. The endpoint must be at the entry toward which the lane was chosen, in the address chosen:
// the other side may not send this worker elsewhere, for example to another address on this machine.
// The parameter chosen is nil for the data of a connection manager. A manager knows the device, and
// the addresses of interfaces in its data may be meaningless (proto.FormCMBoth). The error is a
// LaneError.
func (l *Lanes) Target(lane int, addr *proto.WorkerAddress, number uint8, chosen *proto.WorkerAddress) (Target, error) {
	t := Find(addr, number)
	if t.Addr == nil {
		return t, errNotMade(lane)
	}
	if chosen == nil {
		return t, nil
	}
	d, f := chosen.Entry(int(l.Entries[lane]))
	if f == nil || f.Transport != t.Iface.Transport || !bytes.Equal(d.Addr, t.Device.Addr) || !bytes.Equal(f.Addr, t.Iface.Addr) {
		return t, errElsewhere(lane)
	}
	return t, nil
}

// EntryOf returns the index of the first entry of addr that has a transport endpoint with which a
// lane is connected, -1 if there is none.
func EntryOf(addr *proto.WorkerAddress, lane int, leadsTo LeadsTo) (entry int) {
	entry = -1
	addr.Ifaces(func(n int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		if slices.ContainsFunc(f.EpAddrs, func(e proto.AddressEp) bool { return leadsTo(lane, dev, f, e.Addr) }) {
			entry = n
		}
		return entry < 0
	})
	return entry
}

// Free returns the number of transport endpoints in an entry of addr with which none of the given
// lanes is connected.
func Free(addr *proto.WorkerAddress, entry int, lanes iter.Seq[int], leadsTo LeadsTo) (n int) {
	dev, f := addr.Entry(entry)
	if f == nil {
		return 0
	}
	for k := range f.EpAddrs {
		taken := false
		for lane := range lanes {
			taken = taken || leadsTo(lane, dev, f, f.EpAddrs[k].Addr)
		}
		if !taken {
			n++
		}
	}
	return n
}

// Carrier returns the lane for a wireup message, which otherwise goes over the lane usual. As long
// as the other side may not have connected that lane yet, Carrier returns a lane that was connected
// before the handshake, or AuxLane if there is an auxiliary lane (aux). Ack says that the message is
// ACK, which shows the other side that the lanes are connected. Managed says that a connection
// manager connects the endpoint: an auxiliary lane then carries all other messages, because it was
// the lane for messages before.
func (l *Lanes) Carrier(usual uint8, ack, aux, managed bool) uint8 {
	switch {
	case ack:
	case aux && (managed || l.Has(usual)):
		return AuxLane
	case l.Kept != 0 && l.Kept&(1<<usual) == 0:
		return uint8(bits.TrailingZeros64(l.Kept))
	}
	return usual
}

// LaneError says why a lane cannot be connected.
type LaneError struct {
	Lane int
	Name string // name of the lane for the text; its number if empty

	format string // of the text, with one %s for the name
	status ucs.Status
}

// Error returns the reason with the name of the lane.
func (e *LaneError) Error() string {
	name := e.Name
	if name == "" {
		name = strconv.Itoa(e.Lane)
	}
	return fmt.Sprintf(e.format, name) + ": " + e.status.Error()
}

// Unwrap returns the status.
func (e *LaneError) Unwrap() error { return e.status }

// errNoEndpoint returns the error for a lane for which a request has no transport endpoint.
func errNoEndpoint(lane int) error {
	return &LaneError{Lane: lane, format: "ucp: the peer has no endpoint for lane %s", status: ucs.ErrUnreachable}
}

// errNotMade returns the error for a lane for which a reply has no transport endpoint.
func errNotMade(lane int) error {
	return &LaneError{Lane: lane, format: "ucp: the peer has made no endpoint for lane %s", status: ucs.ErrUnreachable}
}

// errElsewhere returns the error for a lane whose transport endpoint is not where the lane leads.
func errElsewhere(lane int) error {
	return &LaneError{Lane: lane, format: "ucp: the peer's endpoint for lane %s is at another interface", status: ucs.ErrInvalidAddr}
}

// members yields the members of a bit set, lowest first.
func members(set uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros64(set)) {
				return
			}
		}
	}
}
