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

// validateAddress takes out of the address in a request what the connection it came on does
// not bear out:
//
//   - entries that lead to a process of this machine, unless the kernel says that this
//     process holds the other end of the connection. The address could name any
//     process, even this one: transports that access memory of processes would read
//     and write it where the peer says.
//   - entries that lead to an IP address, unless the connection comes from there, or
//     from another address of one for whom the application vouches with both.
//     Anybody else could send us to whom he wants, or to what listens on our own
//     loopback device. A peer on this machine may have any address of this machine
//     at which its user listens.
//
// Lanes that are connected pairwise (uct.Paired) may lead to other IP addresses, but for
// those of this machine: a peer with several devices has made an end on each, and nothing
// goes over such a lane unless whoever is at the other end has connected it with ours.
//
// The process comes first: before the kernel ties it to the connection nothing is
// opened that an entry names. Entries that do not say whose they are, files with names,
// are left out unless another one has tied a process, and theirs turns out to be that.
//
// A peer with several devices is answered over the one that it asks by, and may send
// over all. Nothing in its messages proves that it has the others: their owners would
// have to be asked, and C UCX has no message for that.
//
// What came through memory of ours is believed: only processes of our user can write
// there, and they have other ways to our memory. So is what came over a transport
// that does not know its peers. A user who opens an endpoint decides himself what
// address to believe.
//
// It returns what the peer has said of itself, of transports with IP addresses, nil
// if all of that is borne out.
func (ad *admission) validateAddress(from *source, addr *proto.WorkerAddress) (said *proto.WorkerAddress) {
	return ad.validateAddressOf(from, addr, false)
}

// validateAddressOf is validateAddress that leaves the IP addresses, if the application has accepted the peer:
// then it is on one connection with it, may have several devices, and has made ends on each
// that it names. Those of this machine are still the peer's only if its user listens there.
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

// validEntries takes out of an address what is not of a transport with IP addresses, and
// those where the peer cannot be: of this machine, if it is elsewhere.
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

// entryVerdict is what is believed of an entry.
type entryVerdict uint8

const (
	entryUnreachable entryVerdict = iota // from here, or not to the peer
	entryUnknown                         // to what could be anybody's
	entryValid
)

// addressValidator looks at the entries of one address.
type addressValidator struct {
	w              *Worker
	from           *source
	connection     uct.SourceLocator
	info           uct.SourceInfo
	identity       *identity // who goes by the uuid of the address
	looked         []processLookup
	listeners      []claimedListener
	accepted       bool // by the application, from where it connects
	exhausted      bool // looking has taken too long before
	lookups        int  // entries whose process was looked for
	heldByProcess  bool // a process holds the connection
	processUnknown bool // the last entry does not say of which process it is

	otherProcess bool // an entry names a process that is another one
	addrMatches  bool // an entry has an IP address that can be the peer's
	addrDiffers  bool // one has another
}

// claimedListener is an address of this machine, and whether the peer can be who listens there.
type claimedListener struct {
	at  netip.AddrPort
	may bool
}

// processLookup is a process, and whether it holds the connection.
type processLookup struct {
	process uct.Process
	holds   bool
}

// judge says what is believed of an entry.
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
			return v // where it is does not depend on the interface
		}
	}
	return v
}

// mayHold reports whether to go on with an entry of a process, 0 if it does not say of
// which one.
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

// contradicts reports whether the address says what no honest one does: that the peer is a
// process that it is not, or that it is anywhere but where it is. A peer with several
// devices names them all, and has the same addresses as this machine on those that
// lead nowhere.
func (d *addressValidator) contradicts() bool {
	return d.otherProcess && d.info.User.Known || d.addrDiffers && !d.addrMatches
}

// trusted reports whether the application has said that whoever is at an entry is
// also where the connection comes from. Peers with several devices need not connect
// from the one that they name: C UCX 1.13 leaves that to the routes of its machine.
func (d *addressValidator) trusted(p uct.ReachableParams, t proto.TransportID, here bool) bool {
	if d.identity == nil || here { // within the machine the kernel is asked
		return false
	}
	e := idOf(t, p.DeviceAddr, p.IfaceAddr)
	return slices.ContainsFunc(d.identity.peers, func(q *peer) bool {
		return q.trusted() && slices.Contains(q.entries, e) && d.comesFromOneOf(q.address)
	})
}

// comesFromOneOf reports whether a connection comes from the IP address of an entry.
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

// isAt reports whether an entry is of a transport with IP addresses, and the peer
// can have that.
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

// comesFrom reports whether the peer can be who listens at an address. here says that
// it is one of this machine.
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

// mayListen reports whether the peer can be who listens at an address of this machine.
// The kernel is asked once for each, not for many, and not for who has made looking take
// too long: what was not asked is not believed.
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

// holds reports whether a process has the other end of the connection. The kernel is
// asked once for each.
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

// mayFind reports whether to look for the process of one more entry: not for who is
// elsewhere, not for ever, and not for who has made that take too long.
func (d *addressValidator) mayFind() bool {
	if !d.info.Local || d.exhausted {
		return false
	}
	d.lookups++
	return d.lookups <= maxFound
}

// maxFound is how many entries within the machine are looked at, and how many listeners
// here: each transport that there is has one of the first, each device one of the others.
const maxFound = 8

// maxProcesses is how many processes of an address are looked at. A peer is one.
const maxProcesses = 4

// pairwise reports whether endpoints of an interface are connected with others only.
func (i *iface) pairwise() bool { return i.attr.Flags&uct.IfaceConnectToIface == 0 }

// inside reports whether an interface's transport does not leave the machine.
func (i *iface) inside() bool {
	t := i.attr.Resource.Type
	return t == uct.DeviceShared || t == uct.DeviceSelf
}
