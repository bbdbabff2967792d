package ucp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Lanes of endpoints. An endpoint has several lanes, each a transport connection of its own. Lanes
// have the numbers that the selection gave them (proto.SelectLanes), so that peers, ucx_info and
// Explain mean the same lane by a number. The purpose of each lane is in the proto.LaneMap of the
// endpoint's configuration.

// lane is one transport connection of an endpoint.
type lane struct {
	iface  *iface
	uct    uct.Endpoint
	remote remote // operations of uct on the peer's memory; missing ones return an error
}

// leadsTo reports whether the lane is connected with the peer's transport endpoint that has these
// addresses: of its device, of its interface, and end, its own.
func (l *lane) leadsTo(dev *proto.AddressDevice, f *proto.AddressIface, end []byte) bool {
	at, ok := l.uct.(uct.Paired)
	return ok && at.IsConnectedTo(dev.Addr, f.Addr, end)
}

// hasLane reports whether the transport endpoint ue belongs to one of the lanes in list.
func hasLane(list []lane, ue uct.Endpoint) bool {
	return slices.ContainsFunc(list, func(l lane) bool { return l.uct == ue })
}

// isFor reports whether the lane is connected with one of the transport endpoints whose addresses
// are in the entry f of a worker address.
func (l *lane) isFor(dev *proto.AddressDevice, f *proto.AddressIface) bool {
	return slices.ContainsFunc(f.EpAddrs, func(e proto.AddressEp) bool { return l.leadsTo(dev, f, e.Addr) })
}

// remote is the set of a transport's operations on the peer's memory.
type remote interface {
	uct.RMA
	uct.Atomic
}

// remoteOf returns the operations on the peer's memory that a transport endpoint has. The others
// return an error.
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

// lanePlan is the input of configFor, from which an endpoint configuration is made.
type lanePlan struct {
	chosen *proto.LaneConfig
	maps   []mapping
}

// amLane returns the number of the lane for messages.
func (ep *Endpoint) amLane() uint8 { return ep.cfg.lanes.AM }

// maxMessage returns the length of the longest message that a lane takes, headers included.
func (ep *Endpoint) maxMessage(k uint8) int {
	if int(k) >= len(ep.lanes) {
		return ep.w.handshakes.auxMaxMessage(ep, k)
	}
	l := &ep.cfg.chosen.Lanes[k]
	n := ep.w.ifaces[l.Local].attr.AM.MaxBcopy
	if l.SegSize > 0 {
		n = min(n, l.SegSize)
	}
	return n
}

// setEndpoint assigns the request to an endpoint. The request starts on the lane for messages.
func (r *Request) setEndpoint(ep *Endpoint) {
	r.bind(ep)
	r.lane = ep.amLane()
}

// lane returns the transport endpoint of lane k. If the endpoint is closed, it returns one that
// refuses every operation.
func (ep *Endpoint) lane(k uint8) uct.Endpoint {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].uct
	}
	return ep.w.handshakes.auxLane(ep, k)
}

// remote returns the operations of a lane on the peer's memory. If the endpoint is closed, all of
// them are refused.
func (ep *Endpoint) remote(k uint8) remote {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].remote
	}
	return refuse{}
}

// laneName returns "transport/device" of a lane.
func (ls *laneSelection) laneName(ep *Endpoint, i int) string {
	if i >= len(ep.lanes) {
		return "no lane"
	}
	return ep.lanes[i].iface.attr.Resource.String()
}

// closeLanes closes all lanes. With drain it leaves those lanes to their transport that may still
// receive (uct.NetworkEndpoint.Drain).
func (ee *endpointEnds) closeLanes(ep *Endpoint, drain bool) {
	for i := range ep.lanes {
		ue := ep.lanes[i].uct
		if n, ok := ue.(uct.NetworkEndpoint); ok && drain && n.Drain() {
			continue
		}
		ue.Close()
	}
	ep.lanes, ep.ue = nil, refuse{}
	ep.w.handshakes.unpair(ep)
}

// auxLane implements Endpoint.lane for numbers that are not in the endpoint's list of lanes. It
// returns the auxiliary lane for connect.AuxLane if there is one, otherwise a transport endpoint that
// refuses every operation.
func (hs *handshakes) auxLane(ep *Endpoint, k uint8) uct.Endpoint {
	if p := ep.pair; p != nil && k == connect.AuxLane && p.aux.uct != nil {
		return p.aux.uct
	}
	return refuse{}
}

// auxMaxMessage implements Endpoint.maxMessage for numbers that are not in the endpoint's list of
// lanes.
func (hs *handshakes) auxMaxMessage(ep *Endpoint, k uint8) int {
	if p := ep.pair; p != nil && k == connect.AuxLane && p.aux.uct != nil {
		return p.aux.iface.attr.AM.MaxBcopy
	}
	return 0
}

// unpair discards the state of pairwise lanes after the lanes were closed. The state of a
// connection manager's connection stays.
func (hs *handshakes) unpair(ep *Endpoint) {
	hs.dropAux(ep)
	if p := ep.pair; p != nil && p.conn != nil {
		*p = pairing{conn: p.conn}
		return
	}
	ep.pair = nil
}

// dropAux closes the auxiliary lane, if there is one, and cancels the requests in its queue.
func (hs *handshakes) dropAux(ep *Endpoint) {
	p := ep.pair
	if p == nil || p.aux.uct == nil {
		return
	}
	ue := p.aux.uct
	ue.PendingPurge(func(p *uct.Pending) {
		if h, ok := p.Owner.(*hooks); ok {
			(*Request)(h).abort(ucs.ErrCanceled)
		}
	})
	p.aux = lane{}
	ue.Close()
}

// refuse stands in for the lane of a closed endpoint, so that no code path has to check for a
// missing lane.
type refuse struct {
	uct.NoAM
	uct.NoRMA
	uct.NoAtomic
}

var _ uct.Endpoint = refuse{}

func (refuse) Flush(uct.FlushFlags, *uct.Completion) error { return ucs.ErrNotConnected }
func (refuse) Fence() error                                { return ucs.ErrNotConnected }
func (refuse) Check(*uct.Completion) error                 { return ucs.ErrNotConnected }
func (refuse) PendingAdd(*uct.Pending) error               { return ucs.ErrNotConnected }
func (refuse) PendingPurge(func(*uct.Pending))             {}
func (refuse) Close()                                      {}

// selectLanes chooses the lanes toward an address: pairs of a local interface and an entry of the
// address. Second addresses of devices are used only if no lane is possible with the first ones.
// The trace records the candidates and their scores.
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

// chooseLanes chooses lanes like selectLanes, with a cache of the last choice. Instead of the trace
// it returns the digest of the trace.
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

// mismatched returns the error of a choice of lanes; err is the error of the selection itself.
// mismatch, unless nil, is the uct.ErrMismatch of an interface of this worker that the peer
// considers reachable but cannot use. If the peer certainly chooses that interface, its messages
// would be lost, whatever lanes this side uses, and mismatched returns an error. In ErrModePeer,
// and by socket address, the peer may choose another interface; then mismatched only logs a
// warning.
func (ls *laneSelection) mismatched(mismatch, err error, mode ErrMode, rules *laneRules) error {
	w := ls.w
	switch {
	case mismatch == nil || err != nil:
		return err
	case mode == ErrModeNone && !rules.cm && rules.reverse == nil:
		return fmt.Errorf("ucp: %w", mismatch)
	}
	w.ctx.log.WarnOnce("", "a C UCX peer with these settings may hang", zap.String("worker", w.name), zap.Error(mismatch))
	return nil
}

// laneInput returns the input of the lane selection for an address.
func (ls *laneSelection) laneInput(addr *proto.WorkerAddress, mode ErrMode, rules *laneRules) *proto.LaneInput {
	w := ls.w
	eps, ppn := w.ctx.estimates()
	// FeatureWakeup is left out: interfaces that cannot wake a sleeping worker are not opened if
	// that matters.
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
	// Peers of release 1.13 keep slow lanes, and both sides must choose the same number of pairwise
	// lanes.
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
		case rules.reverse != nil:
			return rules.reverse.reachable(i)
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
			err = nil // reachable by another address of the device (uct.NetworkEndpoint)
		}
		if s, ok := i.uct.(uct.NetworkIface); ok && err != nil && rules.second {
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

// mutual returns nil if an interface and the peer's interface both support endpoints in
// ErrModePeer, else an error. Shared memory interfaces of this library support them
// (laneSelection.local); those of C UCX do if they are configured to.
func (i *iface) mutual(p uct.ReachableParams) error {
	if i.attr.Flags.Has(uct.IfaceErrHandlePeerFail) {
		return nil
	}
	if k, ok := i.uct.(uct.ProcessIface); ok && k.SameLibrary(p) {
		return nil
	}
	return fmt.Errorf("ucp: C UCX has no error handling over %s without UCX_%s_ERROR_HANDLING=y: %w",
		&i.attr.Resource, strings.ToUpper(i.attr.Resource.Transport), ucs.ErrUnreachable)
}

// isOf returns nil if the interface belongs to the device with this name, else an error.
func (i *iface) isOf(device string) error {
	if i.attr.Resource.Device != device {
		return fmt.Errorf("ucp: the connection uses device %s: %w", device, ucs.ErrUnreachable)
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

// laneRules are conditions for the choice of an endpoint's lanes. With the zero value any lanes may
// be chosen.
type laneRules struct {
	mismatch *error // output: set if a reachability check fails with uct.ErrMismatch

	refused map[laneRoute]error // lanes that could not be created, and why
	reverse *reversePath        // if not nil, lanes use only this connection, which the peer has made

	spare []lane               // existing pairwise lanes; reused for the same endpoint of the peer
	made  []existingLane       // other existing lanes; reused for the same path and address entry
	ends  *proto.WorkerAddress // address in a request: pairwise lanes are made for its endpoints

	cm     bool       // a connection manager connects the endpoint
	mutual bool       // in ErrModePeer, choose only lanes that a peer of C UCX can choose as well
	local  netip.Addr // local address of the connection manager's connection
	device string     // local device on which the connection manager reaches the peer; "" for any

	origin uct.Origin // origin of the address

	second bool // use second addresses of devices, too (uct.NetworkIface)

	messages bool // only a lane for messages
	answer   bool // only one lane, for wireup messages, that is not pairwise (proto.SelectAux)
}

// plain reports whether the choice of lanes may be taken from the cache, because the rules do not
// affect it.
func (r *laneRules) plain() bool {
	return len(r.refused) == 0 && r.reverse == nil && !r.cm && r.ends == nil && !r.answer
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

// reachable returns nil if i is the interface that accepted the connection, else an error.
func (b *reversePath) reachable(i *iface) error {
	if i != b.iface {
		return fmt.Errorf("ucp: the peer's connection arrived at another device: %w", ucs.ErrUnreachable)
	}
	return nil
}

// laneRoute is the number of an interface and the number of an entry of the peer's address.
type laneRoute struct{ local, remote int }

// spareFor returns the index in r.spare of a lane of the interface i that is connected with a
// transport endpoint in the given entry of addr, and is not in taken. It returns -1 if there is
// none.
func (r *laneRules) spareFor(i *iface, addr *proto.WorkerAddress, entry int, taken []lane) int {
	return slices.IndexFunc(r.spare, func(s lane) bool {
		if s.iface != i || hasLane(taken, s.uct) {
			return false
		}
		return s.isFor(addr.Entry(entry))
	})
}

// hasSpare reports whether a spare lane of the interface i is connected with a transport endpoint
// in the entry f of the peer's address, and the peer reaches the lane at another address than that
// of the interface.
func (r *laneRules) hasSpare(i *iface, dev *proto.AddressDevice, f *proto.AddressIface) bool {
	return slices.ContainsFunc(r.spare, func(s lane) bool {
		m, ok := s.uct.(uct.NetworkEndpoint)
		if !ok || s.iface != i {
			return false
		}
		_, other := m.InterfaceAddr()
		return other && s.isFor(dev, f)
	})
}

// existed reports whether the lane l existed before this choice of lanes.
func (r *laneRules) existed(l lane) bool {
	return hasLane(r.spare, l.uct) || slices.ContainsFunc(r.made, func(m existingLane) bool { return m.uct == l.uct })
}

// existingLane is an existing lane that is not pairwise, with its path index and the address entry that
// it leads to.
type existingLane struct {
	lane
	path  int
	entry identity.EntryID
}

// reuse returns an existing lane that can serve as the chosen lane l and is not in taken. It
// returns false if there is none.
func (r *laneRules) reuse(i *iface, addr *proto.WorkerAddress, l *proto.Lane, taken []lane) (lane, bool) {
	if k := r.spareFor(i, addr, l.Remote, taken); k >= 0 {
		return r.spare[k], true
	}
	dev, f := addr.Entry(l.Remote)
	for k := range r.made {
		m := &r.made[k]
		if m.iface == i && m.path == l.Path && m.entry == identity.EntryOf(f.Transport, dev.Addr, f.Addr) && !hasLane(taken, m.uct) {
			return m.lane, true
		}
	}
	return lane{}, false
}

// errNoEnd is the error for a pairwise lane toward an entry for which the request has no endpoint
// address.
var errNoEnd = fmt.Errorf("ucp: the peer's request has no endpoint for this interface: %w", ucs.ErrUnreachable)

// endsFor returns the number of transport endpoints in an entry of the request's address that are
// available to lanes of the interface i. Endpoints that are connected with spare lanes of another
// interface do not count.
func (r *laneRules) endsFor(i *iface, entry int) (n int) {
	others := func(yield func(int) bool) {
		for k := range r.spare {
			if r.spare[k].iface != i && !yield(k) {
				return
			}
		}
	}
	return connect.Free(r.ends, entry, others, r.spareLeadsTo)
}

// spareLeadsTo implements connect.LeadsTo for the spare lanes.
func (r *laneRules) spareLeadsTo(k int, dev *proto.AddressDevice, f *proto.AddressIface, end []byte) bool {
	return r.spare[k].leadsTo(dev, f, end)
}

// mapping is a memory domain of this process that can map memory allocated by a memory domain of
// the peer. A mapping uses no lane.
type mapping struct {
	peerMD   uint8 // index of the peer's domain in its remote keys
	md       uint8 // index of this process's domain in Context.mds
	iface    *iface
	peerMaps bool // the peer uses this library, and can also map memory of this process
}

// mappings returns a mapping for each domain whose keys give pointers into the peer's memory
// (uct.MDFlagRkeyPtr), if an interface of the domain reaches an interface of the peer with the same
// transport. C UCX maps memory of domains that register any memory, such as xpmem. It does not map
// memory of the domains of this library's transports: neither release packs their keys or looks for
// them (local_md_flags in ucp_wireup_add_rma_bw_lanes).
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
			k, ok := i.uct.(uct.ProcessIface)
			list = append(list, mapping{peerMD: d.MD, md: uint8(i.md), iface: i, peerMaps: ok && addr.Release == 0 && k.SameLibrary(at)})
			return false
		})
	}
	return list
}

// reaches returns nil if the interface i reaches the process of the endpoint's peer at the address
// p, else an error.
func (ls *laneSelection) reaches(ep *Endpoint, i uct.Iface, p uct.ReachableParams) error {
	f, ok := i.(uct.ProcessIface)
	if !ok {
		return i.Reachable(p)
	}
	process, err := f.FindProcess(p, nil)
	if err != nil {
		return err
	}
	return ls.bindProcess(ep, process)
}

// bindProcess records the process of this machine that a lane leads to. It returns
// ucs.ErrUnreachable if an earlier lane leads to another process. All lanes of an endpoint must
// lead to the process of the first one: an address could name another process's memory besides its
// own.
func (ls *laneSelection) bindProcess(ep *Endpoint, p uct.Process) error {
	if ep.process == 0 {
		ep.process = p
	}
	if ep.process != p {
		return fmt.Errorf("ucp: the address belongs to a different process than the previous lanes: %w", ucs.ErrUnreachable)
	}
	return nil
}
