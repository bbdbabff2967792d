package ucp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// selectLanes chooses which interface leads to which entry of an address. Second addresses of
// devices are used only if nothing is reachable by the first ones.
func (ls *laneSelection) selectLanes(addr *proto.WorkerAddress, mode ErrMode, rules laneRules) (proto.LaneConfig, proto.LaneTrace, error) {
	w := ls.w
	in := ls.laneInput(addr, mode, &rules)
	choose := proto.SelectLanes
	if rules.answer {
		choose = proto.SelectAux
	}
	c, trace, err := choose(in)
	if err != nil && !rules.cm && w.own.dualStack() {
		rules.second = true
		if c, second, seconds := choose(in); seconds == nil {
			return c, second, nil
		}
	}
	if rules.cm && err == nil {
		c = c.WithoutCM()
	}
	return c, trace, err
}

// chooseLanes is selectLanes with a cache of the last choice. It returns the digest of the trace.
func (ls *laneSelection) chooseLanes(addr *proto.WorkerAddress, mode ErrMode, rules laneRules) (proto.LaneConfig, uint64, error) {
	w := ls.w
	plain := rules.plain()
	var mismatch error
	rules.mismatch = &mismatch
	if plain {
		c, why, err := ls.lastLanes.Select(ls.laneInput(addr, mode, &rules))
		if err == nil || !w.own.dualStack() {
			return c, why, ls.mismatched(mismatch, err, mode, &rules)
		}
	}
	c, trace, err := ls.selectLanes(addr, mode, rules)
	return c, trace.Digest(), ls.mismatched(mismatch, err, mode, &rules)
}

// mismatched returns the error of a choice of lanes toward a peer that may take an interface here
// for reachable although the peer cannot use it. err is the error of the choice itself; mismatch
// describes that interface, nil if there is none. If the peer is certain to choose the interface,
// its messages would be lost, and no other way to reach the peer helps: mismatched returns an
// error. In ErrModePeer, and by socket address, the peer may choose another interface, so
// mismatched only logs a warning.
func (ls *laneSelection) mismatched(mismatch, err error, mode ErrMode, rules *laneRules) error {
	w := ls.w
	switch {
	case mismatch == nil || err != nil:
		return err
	case mode == ErrModeNone && !rules.cm && rules.back == nil:
		return fmt.Errorf("ucp: %w", mismatch)
	}
	w.ctx.log.WarnOnce("", "a peer of C UCX may hang", zap.String("worker", w.name), zap.Error(mismatch))
	return nil
}

// laneInput returns the input of the lane selection for an address.
func (ls *laneSelection) laneInput(addr *proto.WorkerAddress, mode ErrMode, rules *laneRules) *proto.LaneInput {
	w := ls.w
	eps, ppn := w.ctx.estimates()
	// Interfaces that cannot wake a sleeping worker are not opened where that matters.
	features := proto.Features(w.ctx.params.Features & (FeatureTag | FeatureStream | FeatureAM | FeatureRMA | FeatureAMO32 | FeatureAMO64))
	var numbers map[*proto.AddressIface]int
	if len(rules.refused) > 0 || rules.ends != nil {
		numbers = make(map[*proto.AddressIface]int)
		addr.Ifaces(func(n int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
			numbers[f] = n
			return true
		})
	}
	in := &proto.LaneInput{
		Features:     features,
		Messages:     true, // wireup needs a lane for messages
		MessagesOnly: rules.messages,
		ErrMode:      proto.ErrMode(mode),
		Keepalive:    mode != ErrModeNone,
		CM:           rules.cm,
		Local:        ls.locals,
		Remote:       addr,
		NumEndpoints: eps,
		PPN:          ppn,
		RndvScheme:   proto.RndvScheme(w.ctx.settings.RndvScheme),
		Limits:       w.ctx.settings.laneLimits(),
	}
	// If lanes are connected pairwise, both sides must choose the same lanes.
	in.Limits.Slow = w.ctx.peerRelease() == PeerRelease113 &&
		slices.ContainsFunc(ls.locals, func(l proto.LocalIface) bool { return l.Attr.Flags&uct.IfaceConnectToIface == 0 })
	in.Reachable = func(local int, d *proto.AddressDevice, f *proto.AddressIface) error {
		if len(rules.refused) > 0 {
			if err := rules.refused[laneRoute{local, numbers[f]}]; err != nil {
				return err
			}
		}
		i := w.ifaces[local]
		switch {
		case rules.back != nil:
			return rules.back.reachable(i)
		case rules.device != "":
			return i.isOf(rules.device)
		case rules.ends != nil && in.Pairs(local) && rules.endsFor(i, numbers[f]) == 0:
			return errNoEnd
		}
		p := uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr}
		err := i.uct.Reachable(p)
		if rules.mismatch != nil && errors.Is(err, uct.ErrMismatch) {
			*rules.mismatch = err
		}
		if err != nil && rules.hasSpare(i, d, f) {
			err = nil // reachable by another address of the device (uct.Multihomed)
		}
		if s, ok := i.uct.(uct.DualStack); ok && err != nil && rules.second {
			err = s.SecondReachable(p)
		}
		if err != nil || !rules.mutual || mode == ErrModeNone {
			return err
		}
		return i.mutual(p)
	}
	return in
}

// laneLimits returns the limits of the lane selection that the settings give.
func (s *settings) laneLimits() proto.LaneLimits {
	l := proto.DefaultLaneLimits()
	l.Rndv, l.MaxRatio = int(min(s.RndvRails, proto.MaxLanes)), s.LaneRatio
	l.Eager, l.RMA = int(min(s.EagerRails, proto.MaxLanes)), int(min(s.RMARails, proto.MaxLanes))
	l.PathRatio = s.PathRatio.Float(0)
	return l
}

// mutual returns nil if an interface and the peer's interface both serve endpoints in ErrModePeer,
// else an error. Shared memory interfaces of this library do (laneSelection.local); those of C UCX
// do if they are configured to.
func (i *iface) mutual(p uct.ReachableParams) error {
	if i.attr.Flags.Has(uct.IfaceErrHandlePeerFail) {
		return nil
	}
	if k, ok := i.uct.(uct.KinFinder); ok && k.Kin(p) {
		return nil
	}
	return fmt.Errorf("ucp: C UCX has no error handling over %s without UCX_%s_ERROR_HANDLING=y: %w",
		&i.attr.Resource, strings.ToUpper(i.attr.Resource.Transport), ucs.ErrUnreachable)
}

// isOf returns nil if an interface belongs to a device, else an error.
func (i *iface) isOf(device string) error {
	if i.attr.Resource.Device != device {
		return fmt.Errorf("ucp: the connection is over device %s: %w", device, ucs.ErrUnreachable)
	}
	return nil
}

// local describes an interface for the selection of lanes.
func (ls *laneSelection) local(i *iface) proto.LocalIface {
	w := ls.w
	l := proto.LocalIface{
		Transport: i.id,
		Device:    ls.deviceNumber(i),
		MD:        uint8(i.md),
		Auxiliary: w.ctx.resources[i.index].auxiliary,
		Attr:      *i.attr,
		Domain:    *w.mds[i.md].Attr(),
	}
	if i.attr.Resource.Type == uct.DeviceShared && i.attr.Flags.Has(uct.IfaceEpCheck) {
		// Shared memory reports no failure, but the kernel knows which processes live, and the
		// keepalive asks the kernel.
		l.Attr.Flags |= uct.IfaceErrHandlePeerFail
	}
	return l
}

// deviceNumber returns a number that is the same for all interfaces of one device.
func (ls *laneSelection) deviceNumber(i *iface) int {
	w := ls.w
	for k, o := range w.ifaces {
		if o == i || o.md == i.md && o.attr.Resource.Device == i.attr.Resource.Device {
			return k
		}
	}
	return len(w.ifaces)
}

// laneRules restrict which lanes an endpoint may have. The zero value allows any.
type laneRules struct {
	mismatch *error // set if a peer takes an interface here for reachable that it cannot use (uct.ErrMismatch)

	refused map[laneRoute]error // lanes that could not be created, and why
	back    *reversePath        // lanes go only over this connection, which the peer has made

	spare []lane               // connected pairwise lanes; reused for lanes that lead to the same end
	made  []madeLane           // lanes that are not connected pairwise; reused for lanes of the same kind
	ends  *proto.WorkerAddress // address in a request: pairwise lanes are made for the ends in it

	cm     bool       // a connection manager connects the endpoint
	mutual bool       // choose only lanes that the peer can have too, in ErrModePeer, even if it is C UCX
	local  netip.Addr // local address of the manager's connection
	device string     // local device of all lanes, which the manager knows to reach the peer; "" for any

	origin uct.Origin // origin of the address

	second bool // use second addresses of devices, too (uct.DualStack)

	messages bool // only a lane for messages
	answer   bool // only a lane for messages that needs no connection, such as for a reply to a peer
}

// plain reports whether the rules leave the choice of lanes unrestricted.
func (r *laneRules) plain() bool {
	return len(r.refused) == 0 && r.back == nil && !r.cm && r.ends == nil && !r.answer
}

// reversePath is a connection that a peer has made, and the interface that accepted it.
type reversePath struct {
	iface *iface
	src   *uct.Source
}

// source returns the connection, nil if there is no reverse path.
func (b *reversePath) source() *uct.Source {
	if b == nil {
		return nil
	}
	return b.src
}

// reachable returns nil if an interface has the connection, else an error.
func (b *reversePath) reachable(i *iface) error {
	if i != b.iface {
		return fmt.Errorf("ucp: the peer's connection arrived at another device: %w", ucs.ErrUnreachable)
	}
	return nil
}

// laneRoute is the number of an interface and the number of an entry of the peer's address.
type laneRoute struct{ local, remote int }

// spareFor returns the index of the spare lane that is connected with an end that the address names
// at an entry. It returns -1 if there is none that is not in taken.
func (r *laneRules) spareFor(i *iface, addr *proto.WorkerAddress, entry int, taken []lane) int {
	return slices.IndexFunc(r.spare, func(s lane) bool {
		if s.iface != i || hasLane(taken, s.uct) {
			return false
		}
		return s.isFor(addr.Entry(entry))
	})
}

// hasSpare reports whether a spare lane of an interface is connected with an end at an entry, and
// has another address than the interface.
func (r *laneRules) hasSpare(i *iface, dev *proto.AddressDevice, f *proto.AddressIface) bool {
	return slices.ContainsFunc(r.spare, func(s lane) bool {
		m, ok := s.uct.(uct.Multihomed)
		if !ok || s.iface != i {
			return false
		}
		_, other := m.InterfaceAddr()
		return other && s.isFor(dev, f)
	})
}

// isSpare reports whether a lane existed before this choice of lanes.
func (r *laneRules) isSpare(l lane) bool {
	return hasLane(r.spare, l.uct) || slices.ContainsFunc(r.made, func(m madeLane) bool { return m.uct == l.uct })
}

// madeLane is a lane that is not connected pairwise, and where it leads.
type madeLane struct {
	lane
	path  int
	entry entryID
}

// reuse returns an existing lane that does what lane l is to be made for. It returns false if there
// is none.
func (r *laneRules) reuse(i *iface, addr *proto.WorkerAddress, l *proto.Lane, taken []lane) (lane, bool) {
	if k := r.spareFor(i, addr, l.Remote, taken); k >= 0 {
		return r.spare[k], true
	}
	dev, f := addr.Entry(l.Remote)
	for k := range r.made {
		m := &r.made[k]
		if m.iface == i && m.path == l.Path && m.entry == idOf(f.Transport, dev.Addr, f.Addr) && !hasLane(taken, m.uct) {
			return m.lane, true
		}
	}
	return lane{}, false
}

// errNoEnd is the error for a pairwise lane toward an entry at which the request names no end.
var errNoEnd = fmt.Errorf("ucp: the peer has no endpoint there: %w", ucs.ErrUnreachable)

// endsFor returns the number of ends that the request names at an entry for lanes of an interface.
// Ends that spare lanes of another interface are connected with do not count.
func (r *laneRules) endsFor(i *iface, entry int) (n int) {
	dev, f := r.ends.Entry(entry)
	if f == nil {
		return 0
	}
	for k := range f.EpAddrs {
		other := func(s lane) bool { return s.iface != i && s.leadsTo(dev, f, f.EpAddrs[k].Addr) }
		if !slices.ContainsFunc(r.spare, other) {
			n++
		}
	}
	return n
}

// entryOf returns the entry of the request's address that has the end that a lane is connected
// with, -1 if none has it.
func (r *laneRules) entryOf(s *lane) (entry int) {
	entry = -1
	r.ends.Ifaces(func(n int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		if s.isFor(dev, f) {
			entry = n
		}
		return entry < 0
	})
	return entry
}

// mapping is a memory domain of this process that can map memory which a domain of the peer has
// allocated. A mapping takes no lane.
type mapping struct {
	peerMD uint8 // number of the peer's domain in its keys
	md     uint8 // index in the context
	iface  *iface
	kin    bool // the peer can also map memory of this process
}

// mappings returns a mapping for each domain whose keys give pointers into the peer's memory
// (uct.MDFlagRkeyPtr), if an interface of the domain reaches an interface of the peer with the same
// transport. C UCX maps memory of domains that register any memory, such as xpmem. It does not map
// memory of the domains here: neither release packs their keys or looks for them (local_md_flags in
// ucp_wireup_add_rma_bw_lanes).
func (ls *laneSelection) mappings(ep *Endpoint, addr *proto.WorkerAddress) (list []mapping) {
	const flags = uct.MDFlagNeedRkey | uct.MDFlagRkeyPtr
	for local, i := range ep.w.ifaces {
		if ep.w.mds[i.md].Attr().Flags&flags != flags {
			continue
		}
		addr.Ifaces(func(n int, d *proto.AddressDevice, f *proto.AddressIface) bool {
			at := uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr}
			if f.Transport != i.id || ep.refused()[laneRoute{local, n}] != nil || ls.reaches(ep, i.uct, at) != nil {
				return true
			}
			k, ok := i.uct.(uct.KinFinder)
			list = append(list, mapping{peerMD: d.MD, md: uint8(i.md), iface: i, kin: ok && addr.Release == 0 && k.Kin(at)})
			return false
		})
	}
	return list
}

// reaches returns nil if an interface reaches the endpoint's peer at an address, else an error.
func (ls *laneSelection) reaches(ep *Endpoint, i uct.Iface, p uct.ReachableParams) error {
	f, ok := i.(uct.ProcessFinder)
	if !ok {
		return i.Reachable(p)
	}
	process, err := f.FindProcess(p, nil)
	if err != nil {
		return err
	}
	return ls.bindProcess(ep, process)
}

// bindProcess records which process of this machine a lane leads to. All lanes of an endpoint must
// lead to the process of the first one: an address could name another process's memory besides its
// own.
func (ls *laneSelection) bindProcess(ep *Endpoint, p uct.Process) error {
	if ep.process == 0 {
		ep.process = p
	}
	if ep.process != p {
		return fmt.Errorf("ucp: the address leads to another process than the lanes before it: %w", ucs.ErrUnreachable)
	}
	return nil
}
