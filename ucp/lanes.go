package ucp

import (
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// An endpoint has several lanes, each a transport connection of its own, under the
// numbers that the selection gave them (proto.SelectLanes): peers, ucx_info and
// Explain mean the same lane by a number. What each is for is in the laneMap of
// the endpoint's configuration.

// lane is one transport connection of an endpoint.
type lane struct {
	iface  *iface
	uct    uct.Endpoint
	remote remote // a part of it; refuses what the transport does not have
}

// remote is what transports can do to the peer's memory.
type remote interface {
	uct.RMA
	uct.Atomic
}

// remoteOf returns that part of a transport's endpoint.
func remoteOf(ue uct.Endpoint) remote {
	switch p := ue.(type) {
	case remote:
		return p
	case uct.RMA:
		return struct {
			uct.NoAtomic
			uct.RMA
		}{RMA: p}
	case uct.Atomic:
		return struct {
			uct.NoRMA
			uct.Atomic
		}{Atomic: p}
	}
	return refuse{}
}

// laneRules are what lanes an endpoint may have. The zero value: any.
type laneRules struct {
	refused map[laneRoute]error // those that could not be created, and why
	back    *wayBack            // over a connection that the peer has made

	spare []lane               // connected already, for those that lead to the same
	ends  *proto.WorkerAddress // that of a request: pairwise lanes are for the ends in it

	cm     bool   // a connection manager connects the endpoint
	mutual bool   // the peer can have the same, in ErrModePeer, also if it is C UCX
	device string // of ours, that the lanes are of: it knows that the peer is reached there; "" for any

	messages bool // one for messages and no other
	answer   bool // that needs no connection moreover: for a question of the peer's
}

// plain reports whether they leave everything open.
func (r *laneRules) plain() bool {
	return len(r.refused) == 0 && r.back == nil && !r.cm && r.ends == nil && !r.answer
}

// wayBack is a connection of a peer's, and the interface that it came to.
type wayBack struct {
	iface *iface
	src   *uct.Source
}

// source is the connection, nil if there is no way back to keep to.
func (b *wayBack) source() *uct.Source {
	if b == nil {
		return nil
	}
	return b.src
}

// reachable reports whether an interface has the connection.
func (b *wayBack) reachable(i *iface) error {
	if i != b.iface {
		return fmt.Errorf("ucp: the peer's connection came to another device: %w", ucs.ErrUnreachable)
	}
	return nil
}

// laneRoute is an interface and an entry of the peer's address, by number.
type laneRoute struct{ local, remote int }

// lanePlan is all that a configuration is made from.
type lanePlan struct {
	chosen *proto.LaneConfig
	maps   []mapping
}

// amLane is the number of the lane for messages.
func (ep *Endpoint) amLane() uint8 { return ep.cfg.lanes.am }

// maxMessage is the longest message a lane takes, headers included.
func (ep *Endpoint) maxMessage(k uint8) int {
	if int(k) >= len(ep.lanes) {
		return ep.auxMaxMessage(k)
	}
	l := &ep.cfg.chosen.Lanes[k]
	n := ep.w.ifaces[l.Local].attr.AM.MaxBcopy
	if l.SegSize > 0 {
		n = min(n, l.SegSize)
	}
	return n
}

// toward says which endpoint an operation is of. It begins on the lane of
// messages.
func (r *Request) toward(ep *Endpoint) { r.ep, r.lane = ep, ep.amLane() }

// lane returns the transport's endpoint of a lane; one that refuses when the
// endpoint is closed.
func (ep *Endpoint) lane(k uint8) uct.Endpoint {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].uct
	}
	return ep.auxLane(k)
}

// remote is lane for access to the peer's memory.
func (ep *Endpoint) remote(k uint8) remote {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].remote
	}
	return refuse{}
}

// selectLanes decides which interface leads to which entry of an address.
func (w *Worker) selectLanes(addr *proto.WorkerAddress, mode ErrMode, rules laneRules) (proto.LaneConfig, proto.LaneTrace, error) {
	in := w.laneInput(addr, mode, &rules)
	if rules.answer {
		return proto.SelectAux(in)
	}
	c, trace, err := proto.SelectLanes(in)
	if rules.cm && err == nil {
		c = c.WithoutCM()
	}
	return c, trace, err
}

// chooseLanes is selectLanes that remembers its last choice. It returns the digest of
// the trace.
func (w *Worker) chooseLanes(addr *proto.WorkerAddress, mode ErrMode, rules laneRules) (proto.LaneConfig, uint64, error) {
	if rules.plain() {
		return w.lastLanes.Select(w.laneInput(addr, mode, &rules))
	}
	c, trace, err := w.selectLanes(addr, mode, rules)
	return c, trace.Digest(), err
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
	var in *proto.LaneInput
	in = &proto.LaneInput{
		Features:     features,
		Messages:     true, // which wireup needs
		MessagesOnly: rules.messages,
		ErrMode:      proto.ErrMode(mode),
		Keepalive:    mode != ErrModeNone,
		CM:           rules.cm,
		Local:        w.locals,
		Remote:       addr,
		Reachable: func(local int, d *proto.AddressDevice, f *proto.AddressIface) error {
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
			case rules.ends != nil && in.Pairs(local) && rules.numEnds(numbers[f]) == 0:
				return errNoEnd
			}
			p := uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr}
			if err := i.uct.Reachable(p); err != nil || !rules.mutual || mode == ErrModeNone {
				return err
			}
			return i.mutual(p)
		},
		NumEndpoints: eps,
		PPN:          ppn,
		RndvScheme:   proto.RndvScheme(w.ctx.settings.RndvScheme),
		Limits:       w.ctx.settings.laneLimits(),
	}
	return in
}

// laneLimits are the limits of the selection.
func (s *settings) laneLimits() proto.LaneLimits {
	l := proto.DefaultLaneLimits()
	l.Rndv, l.MaxRatio = int(min(s.RndvRails, proto.MaxLanes)), s.LaneRatio
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
	return fmt.Errorf("ucp: over %s C UCX handles no failures, unless UCX_%s_ERROR_HANDLING says so: %w",
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

// laneName returns "transport/device" of a lane.
func (ep *Endpoint) laneName(i int) string {
	if i >= len(ep.lanes) {
		return "no lane"
	}
	return ep.lanes[i].iface.attr.Resource.String()
}

func (ep *Endpoint) closeLanes() {
	for i := range ep.lanes {
		ep.lanes[i].uct.Close()
	}
	ep.lanes, ep.ue = nil, refuse{}
	ep.unpair()
}
