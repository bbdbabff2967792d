package ucp

import (
	"net/netip"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// validateAddress removes from the address in a request what the connection of the request does
// not verify:
//
//   - entries that lead to a process of this machine, unless the kernel says that this process
//     holds the other end of the connection. The address could name any process, even this one:
//     transports that access memory of processes would read and write the memory where the peer
//     says.
//   - entries that lead to an IP address, unless the connection comes from that address, or from
//     another address of a peer that the application trusts with both addresses. Any other peer
//     could direct this worker to an address of its choice, or to a listener on this machine's
//     own loopback device. A peer on this machine may claim any address of this machine at which
//     its user listens.
//
// Lanes that are connected pairwise (uct.Paired) may lead to other IP addresses, except those of
// this machine: a peer with several devices has made an endpoint on each device, and nothing goes
// over such a lane unless the process at the other end has connected its endpoint with the
// endpoint here.
//
// The process is checked first: nothing that an entry names is opened before the kernel ties the
// process to the connection. Entries that do not say which process they belong to, such as files
// with names, are removed unless another entry has tied a process to the connection, and they
// turn out to belong to that process.
//
// A peer with several devices is answered over the device that it asks by, and may send over all
// of them. Nothing in its messages proves that it has the others: the owners of the other
// addresses would have to be asked, and C UCX has no message for that.
//
// Messages through memory of this process are trusted: only processes of the same user can write
// there, and they have other ways to this process's memory. So are messages over a transport that
// does not know its peers. An application that opens an endpoint decides itself which address to
// trust.
//
// validateAddress returns what the peer claims for transports with IP addresses, nil if all of
// the address is verified.
func (ad *admission) validateAddress(from *source, addr *proto.WorkerAddress) (said *proto.WorkerAddress) {
	return ad.validateAddressOf(from, addr, false)
}

// validateAddressOf is validateAddress. With accepted it keeps the IP addresses: the application
// has accepted the peer, shares one connection with it, and the peer may have several devices and
// has made endpoints on each that it names. IP addresses of this machine still count as the
// peer's only if the peer's user listens there.
func (ad *admission) validateAddressOf(from *source, addr *proto.WorkerAddress, accepted bool) (said *proto.WorkerAddress) {
	w := ad.w
	l := from.locator()
	if l == nil {
		return nil
	}
	d := addressValidator{accepted: accepted, w: w, from: from, connection: l, info: l.SourceInfo(), identity: w.peers.byUUID[addr.UUID], exhausted: ad.lookupsExhausted(from)}
	verdicts := make([]entryVerdict, 0, addr.NumIfaces())
	addr.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		verdicts = append(verdicts, d.judge(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}, f.Transport))
		return true
	})
	if d.otherProcess || d.addrDiffers {
		said = d.validEntries(addr.Clone())
	}
	n := 0
	for k := range addr.Devices {
		dev := &addr.Devices[k]
		dev.Ifaces = slices.DeleteFunc(dev.Ifaces, func(f proto.AddressIface) bool {
			v := verdicts[n]
			if v == entryUnknown && d.heldByProcess {
				v = d.judge(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}, f.Transport)
			}
			n++
			return v != entryValid
		})
	}
	if d.contradicts() && w.refused(from, ledger.Claim) {
		w.ctx.log.Diag("ignoring entries of a peer's address that are not the peer's",
			zap.String("worker", w.name), zap.Stringer("from", d.info.Addr))
	}
	return said
}

// validEntries removes from an address the entries of transports without IP addresses, and those
// at which the peer cannot be: entries of this machine, if the peer is elsewhere.
func (d *addressValidator) validEntries(addr *proto.WorkerAddress) *proto.WorkerAddress {
	for k := range addr.Devices {
		dev := &addr.Devices[k]
		dev.Ifaces = slices.DeleteFunc(dev.Ifaces, func(f proto.AddressIface) bool {
			return !slices.ContainsFunc(d.w.ifaces, func(i *iface) bool {
				a, has := i.uct.(uct.AddrLocator)
				if !has || i.id != f.Transport {
					return false
				}
				_, here, err := a.PeerAddr(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr})
				return err == nil && (!here || d.info.Local)
			})
		})
	}
	return addr
}

// entryVerdict is the result of the check of an entry.
type entryVerdict uint8

const (
	entryUnreachable entryVerdict = iota // not reachable from here, or does not lead to the peer
	entryUnknown                         // leads to an object that any process could own
	entryValid
)

// addressValidator checks the entries of one address.
type addressValidator struct {
	w              *Worker
	from           *source
	connection     uct.SourceLocator
	info           uct.SourceInfo
	identity       *identity // of the uuid in the address, nil if unknown
	looked         []processLookup
	listeners      []claimedListener
	accepted       bool // the application has accepted the peer, whatever address it connects from
	exhausted      bool // look-ups for the peer have taken too long before
	lookups        int  // entries for whose process a look-up was made
	heldByProcess  bool // an entry names a process that holds the connection
	processUnknown bool // the last entry does not say which process it belongs to

	otherProcess bool // an entry names a process that does not hold the connection
	addrMatches  bool // an entry has an IP address that can be the peer's
	addrDiffers  bool // an entry has an IP address that cannot be the peer's
}

// claimedListener is an address of this machine, and whether the peer can be the owner of the
// listener there.
type claimedListener struct {
	at  netip.AddrPort
	may bool
}

// processLookup is a process, and whether it holds the connection.
type processLookup struct {
	process uct.Process
	holds   bool
}

// judge returns the verdict on an entry of transport t.
func (d *addressValidator) judge(p uct.ReachableParams, t proto.TransportID) (v entryVerdict) {
	for _, i := range d.w.ifaces {
		if i.id != t {
			continue
		}
		if i.inside() {
			f, finds := i.uct.(uct.ProcessFinder)
			if !finds || !d.mayFind() {
				continue
			}
			d.processUnknown = false
			if d.w.admission.timeLookup(d.from, func() bool {
				_, err := f.FindProcess(p, d.mayHold)
				return err == nil
			}) {
				return entryValid
			}
			if d.processUnknown && !d.heldByProcess {
				v = entryUnknown
			}
			continue
		}
		a, has := i.uct.(uct.AddrLocator)
		if !has || !d.info.Addr.IsValid() {
			return entryValid
		}
		at, here, err := a.PeerAddr(p)
		switch {
		case err != nil:
		case !at.Addr().IsValid():
			return entryValid
		case d.comesFrom(at, here), d.trusted(p, t, here):
			d.addrMatches = true
			return entryValid
		case i.pairwise() && (!here || d.info.Local):
			return entryValid
		default:
			d.addrDiffers = true
			return v // the destination does not depend on the interface
		}
	}
	return v
}

// mayHold reports whether to go on with an entry of process p, 0 if the entry does not say which
// process it belongs to.
func (d *addressValidator) mayHold(p uct.Process) bool {
	if p == 0 {
		d.processUnknown = true
		return d.heldByProcess
	}
	holds := d.holds(p)
	d.heldByProcess = d.heldByProcess || holds
	d.otherProcess = d.otherProcess || !holds
	return holds
}

// contradicts reports whether the address claims what no honest address does: that the peer is
// another process than the one that holds the connection, or that the peer is anywhere but where
// it is. A peer with several devices names all of them, and has the same addresses as this
// machine on devices that lead nowhere.
func (d *addressValidator) contradicts() bool {
	return d.otherProcess && d.info.User.Known || d.addrDiffers && !d.addrMatches
}

// trusted reports whether the application has given an address that has both this entry and the
// IP address that the connection comes from. Peers with several devices need not connect from the
// device that they name: C UCX 1.13 leaves that to the routes of its machine.
func (d *addressValidator) trusted(p uct.ReachableParams, t proto.TransportID, here bool) bool {
	if d.identity == nil || here { // within the machine the kernel is asked
		return false
	}
	e := idOf(t, p.DeviceAddr, p.IfaceAddr)
	return slices.ContainsFunc(d.identity.peers, func(q *peer) bool {
		return q.trusted() && slices.Contains(q.entries, e) && d.comesFromOneOf(q.address)
	})
}

// comesFromOneOf reports whether the connection comes from the IP address of an entry of the
// address.
func (d *addressValidator) comesFromOneOf(addr *proto.WorkerAddress) (found bool) {
	from := d.info.Addr.Addr().Unmap()
	addr.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for _, i := range d.w.ifaces {
			if a, has := i.uct.(uct.AddrLocator); has && i.id == f.Transport {
				at, here, err := a.PeerAddr(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr})
				found = found || err == nil && (!here || d.info.Local) && at.Addr().Unmap() == from
			}
		}
		return !found
	})
	return found
}

// isAt reports whether an entry belongs to a transport with IP addresses and the peer can have
// the entry's IP address.
func (d *addressValidator) isAt(p uct.ReachableParams, t proto.TransportID) bool {
	for _, i := range d.w.ifaces {
		a, has := i.uct.(uct.AddrLocator)
		if i.id != t || !has {
			continue
		}
		if at, here, err := a.PeerAddr(p); err == nil {
			return d.comesFrom(at, here)
		}
	}
	return false
}

// comesFrom reports whether the peer can be the listener at an address. here says that the
// address is one of this machine.
func (d *addressValidator) comesFrom(at netip.AddrPort, here bool) bool {
	check := d.w.ctx.settings.CheckSource != config.No && !d.accepted
	switch {
	case here && !d.info.Local:
		return false
	case here:
		c, ok := d.connection.(uct.ListenerChecker)
		return !ok || d.w.ctx.settings.CheckSource == config.No || at.Port() != 0 && d.mayListen(c, at)
	case !check:
		return true
	}
	return at.Addr().Unmap() == d.info.Addr.Addr().Unmap()
}

// mayListen reports whether the peer can be the listener at an address of this machine. The
// kernel is asked once for each address, for at most maxFound addresses, and not for peers whose
// look-ups have taken too long. An address that was not asked about is not accepted.
func (d *addressValidator) mayListen(c uct.ListenerChecker, at netip.AddrPort) bool {
	for _, l := range d.listeners {
		if l.at == at {
			return l.may
		}
	}
	if d.exhausted || len(d.listeners) >= maxFound {
		return false
	}
	l := claimedListener{at: at, may: d.w.admission.timeLookup(d.from, func() bool { return c.MayListen(at) })}
	d.listeners = append(d.listeners, l)
	return l.may
}

// holds reports whether a process holds the other end of the connection. The kernel is asked once
// for each process, for at most maxProcesses.
func (d *addressValidator) holds(p uct.Process) bool {
	for _, l := range d.looked {
		if l.process == p {
			return l.holds
		}
	}
	l := processLookup{process: p, holds: d.info.Local && len(d.looked) < maxProcesses && d.connection.HeldBy(p)}
	d.looked = append(d.looked, l)
	return l.holds
}

// mayFind reports whether to look for the process of one more entry: only for peers on this
// machine, for at most maxFound entries, and not for peers whose look-ups have taken too long.
func (d *addressValidator) mayFind() bool {
	if !d.info.Local || d.exhausted {
		return false
	}
	d.lookups++
	return d.lookups <= maxFound
}

// maxFound is how many entries within the machine are looked up, and how many listeners on this
// machine: each transport has one entry, each device has one listener.
const maxFound = 8

// maxProcesses is how many processes of an address are looked up. A peer is one process.
const maxProcesses = 4

// pairwise reports whether endpoints of the interface can only be connected with other endpoints.
func (i *iface) pairwise() bool { return i.attr.Flags&uct.IfaceConnectToIface == 0 }

// inside reports whether the interface's transport stays within the machine.
func (i *iface) inside() bool {
	t := i.attr.Resource.Type
	return t == uct.DeviceShared || t == uct.DeviceSelf
}
