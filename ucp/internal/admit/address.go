package admit

import (
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// Entry is one interface of the peer in a worker address: the transport and the addresses of device
// and interface.
type Entry struct {
	Transport proto.TransportID
	uct.ReachableParams
}

func entryOf(d *proto.AddressDevice, f *proto.AddressIface) Entry {
	return Entry{f.Transport, uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr}}
}

// DestinationKind is the kind of destination that an entry of an address names.
type DestinationKind uint8

// Kinds of destinations.
const (
	DestinationNone      DestinationKind = iota // none: the worker has no interface of the entry's transport
	DestinationMalformed                        // none: the transport uses IP, and the entry is malformed
	DestinationProcess                          // a process of this machine
	DestinationNetwork                          // a host on a network whose transport does not use IP addresses
	DestinationIP                               // an IP address
)

// Destination is the destination that an entry of an address names, as the worker's interfaces interpret
// the entry.
type Destination struct {
	Kind DestinationKind

	// At is the IP address of a DestinationIP. It is not valid if the entry has none.
	At netip.AddrPort

	// OnThisMachine means that a DestinationIP is an address of this machine.
	OnThisMachine bool

	// Pairwise means that an endpoint to a DestinationIP must be connected with one endpoint of the
	// peer.
	Pairwise bool
}

// Host is the worker of a Validator, for one message and its connection.
type Host interface {
	// Source returns the source that is charged with the time of look-ups for the connection.
	Source() ledger.Source

	// Destination returns the destination of an entry. It makes no look-up that a peer can make slow.
	Place(e Entry) Destination

	// FindProcess reports whether an entry names a process of this machine that the worker can
	// reach. The parameter may is called as by uct.ProcessIface.FindProcess, before any object
	// that the entry names is opened.
	FindProcess(e Entry, may func(uct.Process) bool) bool

	// Given returns the addresses of trusted peers that contain the entry e and have the uuid of
	// the address that is being validated.
	Given(e Entry) []*proto.WorkerAddress
}

// Validator checks an address in a message against the connection of the message. It is used for
// one address.
type Validator struct {
	Host  Host
	Conn  uct.Connection
	Rates *Rates

	// CheckIP says that IP addresses are checked (UCX_CHECK_SOURCE). Without it, the only check is
	// that a peer on another machine does not name an IP address of this machine.
	CheckIP bool

	// Accepted says that the application has accepted the peer's connection, from any address.
	// Then IP addresses of other machines are kept: a peer with several devices has made an
	// endpoint on each device that it names, but only one device has the connection. An IP address
	// of this machine still counts as the peer's only if the peer's user listens there.
	Accepted bool

	info           uct.SourceInfo
	looked         []processLookup  // processes that the kernel was asked about
	listeners      []listenerLookup // listeners that the kernel was asked about
	exhausted      bool             // earlier look-ups for the source have used up its time
	lookups        int              // number of entries for which FindProcess was called
	heldByProcess  bool             // an entry names a process that holds the connection
	processUnknown bool             // the last entry does not say which process it belongs to

	otherProcess bool // an entry names a process that does not hold the connection
	ipMatches    bool // an entry has an IP address that can belong to the peer
	ipDiffers    bool // an entry has an IP address that cannot belong to the peer
}

// Bounds of the look-ups of a Validator. The address of an honest peer has one entry for each
// transport within the machine, one listener for each device, and one process.
const (
	maxFound     = 8 // most entries that name a process of this machine, and most listeners
	maxProcesses = 4 // most processes
)

// listenerLookup is the result of a look-up: whether the peer may own the listener at an address of
// this machine.
type listenerLookup struct {
	at  netip.AddrPort
	may bool
}

// processLookup is the result of a look-up: whether a process holds the other end of the
// connection.
type processLookup struct {
	process uct.Process
	holds   bool
}

// Finding is what a Validator has found out about an address.
type Finding struct {
	// Claimed is the address with the entries for IP addresses at which the peer can be, verified
	// or not. It is nil if the address has no entry that contradicts the connection.
	Claimed *proto.WorkerAddress

	// Contradicts means that the address cannot come from an honest peer: it names a process that
	// does not hold the connection, or it names IP addresses but none that can belong to the peer.
	// One IP address that cannot belong to the peer is not enough: a peer with several devices
	// names all of them, and on a device that is not connected to this machine it may have the
	// same address as this machine.
	Contradicts bool
}

// Validate removes from an address what the connection does not verify:
//
//   - entries that name a process of this machine, unless the kernel says that this process holds
//     the other end of the connection. An entry that does not tell its process before it is opened,
//     such as a named file, is removed unless another entry names a process that holds the
//     connection, and the first entry turns out to belong to that process.
//   - entries that name an IP address, unless the connection comes from that address, or from
//     another address of a trusted peer that has both. A peer on this machine may claim any address
//     of this machine at which its user listens. Pairwise entries may name other addresses, but a
//     peer on another machine may not name addresses of this machine.
//   - entries that no interface of the worker reaches.
//
// The package comment gives the reasons.
func (v *Validator) Validate(addr *proto.WorkerAddress) (f Finding) {
	v.info, v.exhausted = v.Conn.SourceInfo(), v.Rates.exhausted(v.Host.Source())
	verdicts := make([]entryVerdict, 0, addr.NumIfaces())
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		verdicts = append(verdicts, v.checkEntry(entryOf(d, f)))
		return true
	})
	if v.otherProcess || v.ipDiffers {
		f.Claimed = addr.Clone()
		keep(f.Claimed, v.possible)
	}
	n := 0
	keep(addr, func(e Entry) bool {
		now := verdicts[n]
		if now == entryUnknown && v.heldByProcess {
			now = v.checkEntry(e)
		}
		n++
		return now == entryValid
	})
	f.Contradicts = v.otherProcess && v.info.User.Known || v.ipDiffers && !v.ipMatches
	return f
}

// ComesFrom reports whether the connection can belong to the peer with an address: the process, if
// it is not 0, holds the connection, or the connection comes from the IP address of an entry.
func (v *Validator) ComesFrom(addr *proto.WorkerAddress, process uct.Process) (found bool) {
	v.info = v.Conn.SourceInfo()
	if process != 0 && v.info.Local && v.timed(func() bool { return v.Conn.HeldBy(process) }) {
		return true
	}
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		p := v.Host.Place(entryOf(d, f))
		found = p.Kind == DestinationIP && v.matches(p)
		return !found
	})
	return found
}

// keep removes from an address all entries for which kept returns false.
func keep(addr *proto.WorkerAddress, kept func(Entry) bool) {
	for k := range addr.Devices {
		d := &addr.Devices[k]
		d.Ifaces = slices.DeleteFunc(d.Ifaces, func(f proto.AddressIface) bool { return !kept(entryOf(d, &f)) })
	}
}

// entryVerdict is the result of the check of an entry.
type entryVerdict uint8

const (
	entryUnreachable entryVerdict = iota // not reachable, or does not belong to the peer
	entryUnknown                         // names an object that any process could own
	entryValid
)

// checkEntry checks an entry.
func (v *Validator) checkEntry(e Entry) entryVerdict {
	switch p := v.Host.Place(e); {
	case p.Kind == DestinationNone:
		return entryUnreachable
	case p.Kind == DestinationProcess:
		return v.checkProcessEntry(e)
	case p.Kind == DestinationNetwork, !v.info.Addr.IsValid():
		return entryValid
	case p.Kind == DestinationMalformed:
		return entryUnreachable
	case !p.At.Addr().IsValid():
		return entryValid
	case v.matches(p), v.given(e, p):
		v.ipMatches = true
		return entryValid
	case p.Pairwise && v.canBe(p):
		return entryValid
	}
	v.ipDiffers = true
	return entryUnreachable
}

// checkProcessEntry checks an entry that names a process of this machine.
func (v *Validator) checkProcessEntry(e Entry) entryVerdict {
	if !v.mayFind() {
		return entryUnreachable
	}
	v.processUnknown = false
	switch found := v.timed(func() bool { return v.Host.FindProcess(e, v.mayHold) }); {
	case found:
		return entryValid
	case v.processUnknown && !v.heldByProcess:
		return entryUnknown
	}
	return entryUnreachable
}

// mayFind reports whether to call FindProcess for one more entry: only for peers on this machine,
// for at most maxFound entries, and not for sources whose look-ups have taken too long.
func (v *Validator) mayFind() bool {
	if !v.info.Local || v.exhausted {
		return false
	}
	v.lookups++
	return v.lookups <= maxFound
}

// mayHold is passed to Host.FindProcess. It reports whether to open the objects that an entry of
// process p names: only if p holds the connection. For p = 0, an entry that does not tell its
// process yet, it returns true if another entry names a process that holds the connection.
func (v *Validator) mayHold(p uct.Process) bool {
	if p == 0 {
		v.processUnknown = true
		return v.heldByProcess
	}
	holds := v.holds(p)
	v.heldByProcess = v.heldByProcess || holds
	v.otherProcess = v.otherProcess || !holds
	return holds
}

// holds reports whether a process holds the other end of the connection. The kernel is asked once
// for each process, for at most maxProcesses.
func (v *Validator) holds(p uct.Process) bool {
	for _, l := range v.looked {
		if l.process == p {
			return l.holds
		}
	}
	l := processLookup{process: p, holds: v.info.Local && len(v.looked) < maxProcesses && v.Conn.HeldBy(p)}
	v.looked = append(v.looked, l)
	return l.holds
}

// possible reports whether an entry names an IP address at which the peer can be (canBe).
func (v *Validator) possible(e Entry) bool {
	p := v.Host.Place(e)
	return p.Kind == DestinationIP && v.canBe(p)
}

// canBe returns false if p is on this machine and the peer is on another machine.
func (v *Validator) canBe(p Destination) bool { return !p.OnThisMachine || v.info.Local }

// given reports whether the application has given an address that contains both this entry and the
// IP address that the connection comes from. Peers with several devices need not connect from the
// device that they name: C UCX 1.13 leaves the choice to the routes of its machine.
func (v *Validator) given(e Entry, p Destination) bool {
	// For an address of this machine the kernel is asked instead (mayListen).
	return !p.OnThisMachine && slices.ContainsFunc(v.Host.Given(e), v.comesFromOneOf)
}

// comesFromOneOf reports whether the connection comes from the IP address of an entry of the
// address.
func (v *Validator) comesFromOneOf(addr *proto.WorkerAddress) (found bool) {
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		p := v.Host.Place(entryOf(d, f))
		found = p.Kind == DestinationIP && v.canBe(p) && v.sameIP(p)
		return !found
	})
	return found
}

// matches reports whether the peer can be the listener at the IP address of p.
func (v *Validator) matches(p Destination) bool {
	switch {
	case !v.canBe(p):
		return false
	case p.OnThisMachine:
		return !v.CheckIP || v.mayListen(p.At)
	case !v.CheckIP || v.Accepted:
		return true
	}
	return v.sameIP(p)
}

// sameIP reports whether the connection comes from the IP address of p.
func (v *Validator) sameIP(p Destination) bool {
	return p.At.Addr().Unmap() == v.info.Addr.Addr().Unmap()
}

// mayListen reports whether the peer can be the listener at an address of this machine. The
// kernel is asked once for each address, for at most maxFound addresses, and not for sources
// whose look-ups have taken too long. An address that was not asked about is not accepted.
func (v *Validator) mayListen(at netip.AddrPort) bool {
	if at.Port() == 0 { // for port 0 MayListen does not ask the kernel
		return v.Conn.MayListen(at)
	}
	for _, l := range v.listeners {
		if l.at == at {
			return l.may
		}
	}
	if v.exhausted || len(v.listeners) >= maxFound {
		return false
	}
	l := listenerLookup{at: at, may: v.timed(func() bool { return v.Conn.MayListen(at) })}
	v.listeners = append(v.listeners, l)
	return l.may
}

// timed runs a look-up and charges it to the source of the connection.
func (v *Validator) timed(look func() bool) bool { return v.Rates.timed(v.Host.Source(), look) }
