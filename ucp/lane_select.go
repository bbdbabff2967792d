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

// selectLanes decides which interface leads to which entry of an address. The second
// addresses of devices count only where nothing is reached by the first ones.
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

// chooseLanes is selectLanes that remembers its last choice. It returns the digest of
// the trace.
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

// mismatched is the error of a choice of lanes, err, toward a peer that takes an interface
// here for reachable which it cannot use, as mismatch says. Nothing else it could be reached
// by helps where that peer is certain to choose that interface: its messages would be lost. In
// ErrModePeer, and by socket address, it may choose another one, and is warned of.
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

// laneInput is what the selection goes by.
func (ls *laneSelection) laneInput(addr *proto.WorkerAddress, mode ErrMode, rules *laneRules) *proto.LaneInput {
	w := ls.w
	eps, ppn := w.ctx.estimates()
	// Interfaces that cannot wake a sleeper are not opened where that matters.
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
		Messages:     true, // which wireup needs
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
	// Where lanes are connected pairwise both sides must have the same.
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
			err = nil // by another address of the device (uct.Multihomed)
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

// laneLimits are the limits of the selection.
func (s *settings) laneLimits() proto.LaneLimits {
	l := proto.DefaultLaneLimits()
	l.Rndv, l.MaxRatio = int(min(s.RndvRails, proto.MaxLanes)), s.LaneRatio
	l.Eager, l.RMA = int(min(s.EagerRails, proto.MaxLanes)), int(min(s.RMARails, proto.MaxLanes))
	l.PathRatio = s.PathRatio.Float(0)
	return l
}

// mutual reports whether an interface and the peer's both serve endpoints in ErrModePeer, by
// the error. Those of shared memory do here (Worker.local), in C UCX if they are told to.
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

// isOf reports whether an interface is of a device, by the error.
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
		// Shared memory tells of no failure, but the kernel knows which processes
		// live and the keepalive asks it.
		l.Attr.Flags |= uct.IfaceErrHandlePeerFail
	}
	return l
}

// deviceNumber gives interfaces of one device the same number.
func (ls *laneSelection) deviceNumber(i *iface) int {
	w := ls.w
	for k, o := range w.ifaces {
		if o == i || o.md == i.md && o.attr.Resource.Device == i.attr.Resource.Device {
			return k
		}
	}
	return len(w.ifaces)
}

// laneRules are what lanes an endpoint may have. The zero value: any.
type laneRules struct {
	mismatch *error // where to leave that a peer takes an interface here for reachable (uct.ErrMismatch)

	refused map[laneRoute]error // those that could not be created, and why
	back    *reversePath        // over a connection that the peer has made

	spare []lane               // connected already, for those that lead to the same
	made  []madeLane           // not connected pairwise, for those of the same kind
	ends  *proto.WorkerAddress // that of a request: pairwise lanes are for the ends in it

	cm     bool       // a connection manager connects the endpoint
	mutual bool       // the peer can have the same, in ErrModePeer, also if it is C UCX
	local  netip.Addr // of ours, at which the manager's connection reaches us
	device string     // of ours, that the lanes are of: it knows that the peer is reached there; "" for any

	origin uct.Origin // of the address

	second bool // by the second address of a device, too (uct.DualStack)

	messages bool // one for messages and no other
	answer   bool // that needs no connection moreover: for a question of the peer's
}

// plain reports whether they leave everything open.
func (r *laneRules) plain() bool {
	return len(r.refused) == 0 && r.back == nil && !r.cm && r.ends == nil && !r.answer
}

// reversePath is a connection of a peer's, and the interface that it came to.
type reversePath struct {
	iface *iface
	src   *uct.Source
}

// source is the connection, nil if there is no way back to keep to.
func (b *reversePath) source() *uct.Source {
	if b == nil {
		return nil
	}
	return b.src
}

// reachable reports whether an interface has the connection.
func (b *reversePath) reachable(i *iface) error {
	if i != b.iface {
		return fmt.Errorf("ucp: the peer's connection arrived at another device: %w", ucs.ErrUnreachable)
	}
	return nil
}

// laneRoute is an interface and an entry of the peer's address, by number.
type laneRoute struct{ local, remote int }

// spareFor returns which of the spare lanes is connected with an end that the address
// names at an entry; -1 if none is, or it is one of those taken.
func (r *laneRules) spareFor(i *iface, addr *proto.WorkerAddress, entry int, taken []lane) int {
	return slices.IndexFunc(r.spare, func(s lane) bool {
		if s.iface != i || hasLane(taken, s.uct) {
			return false
		}
		return s.isFor(addr.Entry(entry))
	})
}

// hasSpare reports whether a spare lane of an interface, by another address than the
// interface's, is connected with an end at an entry.
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

// isSpare reports whether a lane was there before.
func (r *laneRules) isSpare(l lane) bool {
	return hasLane(r.spare, l.uct) || slices.ContainsFunc(r.made, func(m madeLane) bool { return m.uct == l.uct })
}

// madeLane is a lane that is not connected pairwise, and where it leads.
type madeLane struct {
	lane
	path  int
	entry entryID
}

// reuse returns a lane that was there before and does what another is to be made for.
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

// errNoEnd is why a pairwise lane does not lead to an entry.
var errNoEnd = fmt.Errorf("ucp: the peer has no endpoint there: %w", ucs.ErrUnreachable)

// endsFor is how many ends the request names at an entry for lanes of an interface: those
// that lanes of another are connected with are not for it.
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

// entryOf returns the entry with the end in the request that a lane is connected with, -1 if
// none has it.
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

// mapping says that a memory domain of ours maps what one of the peer's has
// allocated. It takes no lane.
type mapping struct {
	peerMD uint8 // as the peer's keys number it
	md     uint8 // index in the context
	iface  *iface
	kin    bool // the peer does the same with memory of ours
}

// mappings finds the domains that have an interface which reaches one of the
// peer's with the same transport. C maps memory of domains that register any, as
// xpmem, not of these: neither release packs their keys or looks for them
// (local_md_flags in ucp_wireup_add_rma_bw_lanes).
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

// reaches says whether an interface reaches the endpoint's peer at an address.
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

// bindProcess is told which process of this machine a lane leads to. All lead to the one
// of the first: an address could name memory of somebody else besides its own.
func (ls *laneSelection) bindProcess(ep *Endpoint, p uct.Process) error {
	if ep.process == 0 {
		ep.process = p
	}
	if ep.process != p {
		return fmt.Errorf("ucp: the address leads to another process than the lanes before it: %w", ucs.ErrUnreachable)
	}
	return nil
}
