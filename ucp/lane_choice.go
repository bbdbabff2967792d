package ucp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// selectLanes decides which interface leads to which entry of an address. The second
// addresses of devices count only where nothing is reached by the first ones.
func (w *Worker) selectLanes(addr *proto.WorkerAddress, mode ErrMode, rules laneRules) (proto.LaneConfig, proto.LaneTrace, error) {
	in := w.laneInput(addr, mode, &rules)
	choose := proto.SelectLanes
	if rules.answer {
		choose = proto.SelectAux
	}
	c, trace, err := choose(in)
	if err != nil && !rules.cm && w.dualStack() {
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
func (w *Worker) chooseLanes(addr *proto.WorkerAddress, mode ErrMode, rules laneRules) (proto.LaneConfig, uint64, error) {
	plain := rules.plain()
	var mismatch error
	rules.mismatch = &mismatch
	if plain {
		c, why, err := w.lastLanes.Select(w.laneInput(addr, mode, &rules))
		if err == nil || !w.dualStack() {
			return c, why, w.mismatched(mismatch, err, mode, &rules)
		}
	}
	c, trace, err := w.selectLanes(addr, mode, rules)
	return c, trace.Digest(), w.mismatched(mismatch, err, mode, &rules)
}

// mismatched is the error of a choice of lanes, err, toward a peer that takes an interface
// here for reachable which it cannot use, as mismatch says. Nothing else it could be reached
// by helps where that peer is certain to choose that interface: its messages would be lost. In
// ErrModePeer, and by socket address, it may choose another one, and is warned of.
func (w *Worker) mismatched(mismatch, err error, mode ErrMode, rules *laneRules) error {
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
func (w *Worker) laneInput(addr *proto.WorkerAddress, mode ErrMode, rules *laneRules) *proto.LaneInput {
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
		Local:        w.locals,
		Remote:       addr,
		NumEndpoints: eps,
		PPN:          ppn,
		RndvScheme:   proto.RndvScheme(w.ctx.settings.RndvScheme),
		Limits:       w.ctx.settings.laneLimits(),
	}
	// Where lanes are connected pairwise both sides must have the same.
	in.Limits.Slow = w.ctx.peerRelease() == PeerRelease113 &&
		slices.ContainsFunc(w.locals, func(l proto.LocalIface) bool { return l.Attr.Flags&uct.IfaceConnectToIface == 0 })
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
func (w *Worker) local(i *iface) proto.LocalIface {
	l := proto.LocalIface{
		Transport: i.id,
		Device:    w.deviceNumber(i),
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
func (w *Worker) deviceNumber(i *iface) int {
	for k, o := range w.ifaces {
		if o == i || o.md == i.md && o.attr.Resource.Device == i.attr.Resource.Device {
			return k
		}
	}
	return len(w.ifaces)
}
