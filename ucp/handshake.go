package ucp

import (
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// The handshake, by which two endpoints agree on their lanes. Package connect makes the decisions:
// it defines the stages of a handshake, and the actions (duties) that each event requires. This file
// reports events to package connect and carries out the duties. Only handshakes.advance and
// handshakes.retryOtherDevices change Endpoint.handshake.

// handshakes carries out the handshakes of a worker's endpoints.
type handshakes struct{ w *Worker }

// pairing is the extra state of an endpoint that has pairwise lanes, or that was made by socket
// address. The transport endpoint of a pairwise lane is connected to exactly one transport endpoint
// of the peer (a p2p lane in C UCX).
type pairing struct {
	connect.Lanes             // the pairwise lanes
	aux           lane        // carries wireup messages until the lanes are connected; aux.uct is nil if none
	auxEntry      int         // index of the address entry that aux leads to
	conn          *connection // state of an endpoint that a connection manager has made, nil for others
}

// number returns the number of a lane in messages to the peer. If a connection manager has made the
// endpoint, it is one higher than the number on this side, because the manager's connection counts
// as lane 0 there.
func (p *pairing) number(lane int) uint8 {
	if p.conn != nil {
		lane++
	}
	return uint8(lane)
}

// conn returns the connection state of an endpoint that a connection manager has made, nil for
// others.
func (ep *Endpoint) conn() *connection {
	if ep.pair == nil {
		return nil
	}
	return ep.pair.conn
}

// offer is what a message, or the data of a connection manager, says about the lanes of an endpoint.
type offer struct {
	addr   *proto.WorkerAddress // of the peer, with the addresses of its transport endpoints
	number func(lane int) uint8 // number of a lane in addr; nil if the lanes are still to be matched
	chosen *proto.WorkerAddress // the address that the lanes were chosen toward (connect.Lanes.Target)

	// The rest is known only of a request.
	dst  proto.EndpointID     // the peer's endpoint, which a reply is sent to
	from *source              // the connection of the message
	said *proto.WorkerAddress // the claimed part of the address, which is not verified
	m    *proto.Wireup        // the message
}

// requestOffer returns the offer in a request.
func requestOffer(from *source, m *proto.Wireup, said *proto.WorkerAddress) *offer {
	return &offer{addr: &m.Address, chosen: &m.Address, dst: m.SrcEp, from: from, said: said, m: m}
}

// advance applies an event to the handshake of an endpoint and returns the duties that follow.
func (hs *handshakes) advance(ep *Endpoint, ev connect.Event) connect.Duty {
	next, do := ep.handshake.Next(ev, hs.facts(ep))
	ep.handshake = next
	return do
}

// foresee returns the duties of an event, which it does not apply.
func (hs *handshakes) foresee(ep *Endpoint, ev connect.Event) connect.Duty {
	_, do := ep.handshake.Next(ev, hs.facts(ep))
	return do
}

// facts returns the conditions that package connect asks for.
func (hs *handshakes) facts(ep *Endpoint) (f connect.Facts) {
	w := hs.w
	if p := ep.pair; p != nil && len(ep.lanes) > 0 {
		f |= connect.HasLanes
		if p.aux.uct == nil && p.Has(ep.cfg.lanes.Wireup) {
			f |= connect.AuxClosed
		}
		// Only an id from a table of ids may be asked for, see keepalive.
		if ep.remoteID&1 != 0 && !p.Has(hs.wireupLane(ep, proto.WireupEpCheck)) {
			f |= connect.CanAsk
		}
	}
	if ep.gone() != nil {
		f |= connect.Dead
	}
	switch {
	case ep.peer == nil || ep.peer.UUID() == w.uuid:
		f |= connect.SameUUID
	case ep.peer.UUID() > w.uuid:
		f |= connect.LargerUUID
	}
	return f
}

// carryOut carries out the duties that follow from an event. A duty that fails ends the handshake,
// and the caller handles the error.
func (hs *handshakes) carryOut(ep *Endpoint, do connect.Duty, o *offer) error {
	err := hs.carryOutLanes(ep, do, o)
	if err == nil {
		err = hs.carryOutMessages(ep, do, o)
	}
	if err != nil {
		hs.advance(ep, connect.DutyFailed)
		return err
	}
	if do&connect.Start != 0 {
		hs.lanesConnected(ep)
	}
	return nil
}

// carryOutLanes carries out the duties that concern lanes.
func (hs *handshakes) carryOutLanes(ep *Endpoint, do connect.Duty, o *offer) error {
	if do&connect.ReplaceLanes != 0 {
		var err error
		if ep.conn() != nil {
			err = hs.w.conns.replaceLanes(ep, o)
		} else {
			err = hs.rechooseLanes(ep, o.addr, o.from.origin())
		}
		if err != nil {
			return err
		}
	}
	if do&connect.ConnectLanes == 0 {
		return nil
	}
	if o.number == nil {
		numbers, err := hs.match(ep, o.addr)
		if err != nil {
			return err
		}
		o.number = func(lane int) uint8 { return numbers[lane] }
	}
	return hs.connectLanes(ep, o)
}

// carryOutMessages carries out the duties to send messages. An error of sending alone, which is
// reported like that of any message, is not returned.
func (hs *handshakes) carryOutMessages(ep *Endpoint, do connect.Duty, o *offer) error {
	w := hs.w
	if do&connect.Drop != 0 {
		w.stats.Dropped++
	}
	if do&connect.Notify != 0 {
		if err := ep.pair.conn.uct.Notify(); err != nil {
			return err
		}
	}
	if do&connect.SendPreRequest != 0 {
		if err := w.conns.sendPreRequest(ep); err != nil {
			return err
		}
	}
	if do&connect.SendRequest != 0 {
		if err := hs.w.wireups.requestWireup(ep); err != nil {
			return err
		}
	}
	if do&connect.SendAgain != 0 {
		_ = hs.w.wireups.requestWireup(ep) // the first request was sent
	}
	if do&connect.SendReply != 0 {
		if ep.pair == nil {
			_ = hs.w.wireups.sendWireupBy(ep, replyMessage{}, proto.WireupReply, o.dst, w.own.emptyAddress())
			return nil
		}
		own, err := hs.laneAddress(ep, ep.pair.Paired, o.number)
		if err != nil {
			return err
		}
		return hs.w.wireups.sendWireup(ep, proto.WireupReply, o.dst, own)
	}
	if do&connect.SendRemoved != 0 {
		hs.sendRemoved(ep, o)
	}
	if do&connect.SendAck != 0 {
		_ = hs.w.wireups.sendWireup(ep, proto.WireupAck, ep.remoteID, w.own.emptyAddress())
	}
	return nil
}

// sendRemoved tells the peer that its endpoint has no counterpart here, because this endpoint has failed. The
// offer is nil if no request of the peer is being handled.
func (hs *handshakes) sendRemoved(ep *Endpoint, o *offer) {
	if o == nil {
		hs.w.wireups.sendRemovedTo(ep.dest, ep.remoteID, ep.errMode)
	} else if err := hs.w.wireups.sendRemoved(o.from, o.m, o.said, ep.errMode); err != nil {
		hs.w.ctx.log.Debug("cannot notify the peer of the failure", zap.String("endpoint", ep.describe()), zap.Error(err))
	}
}

// replyMessage is the protocol of a reply that the peer does not acknowledge. The request ends when the
// transport has sent the reply, which may be after the transport has taken it. If the reply is not sent,
// the peer is notified over another connection, because its endpoint would wait for the reply forever.
type replyMessage struct{ wireupMessage }

// stepFlush is the step of a reply that waits until it is sent (Request.step).
const stepFlush = stepProof + 1

func (replyMessage) progress(r *Request) error {
	ue := r.ep.lane(r.lane)
	if r.step != stepFlush {
		if _, err := ue.AMBcopy(uct.AMID(proto.IDWireup), r.hooks(), uct.SendSignaled, nil); err != nil && err != ucs.InProgress {
			return err
		}
		r.step = stepFlush
	}
	err := ue.Flush(uct.FlushLocal, &r.comp)
	if err == nil {
		r.finish(nil)
	}
	if err == ucs.InProgress {
		return nil
	}
	return err
}

func (replyMessage) release(r *Request) {
	if r.err != nil {
		m, _ := proto.ParseWireup(r.data.Buf) // this worker has packed it
		r.w.wireups.sendRemovedTo(r.ep.dest, m.DstEp, r.ep.errMode)
		return
	}
	r.ep.state |= epReplied
}

// abandon ends the handshake of an endpoint that has failed or is closed by force.
func (hs *handshakes) abandon(ep *Endpoint) {
	_ = hs.carryOutMessages(ep, hs.advance(ep, connect.Lost), nil) // a notice to the peer is all that may follow
}

// request sends the wireup request of the endpoint if none was sent and the peer has sent none.
func (hs *handshakes) request(ep *Endpoint) error {
	return hs.carryOut(ep, hs.advance(ep, connect.Need), nil)
}

// repeatRequest sends the wireup request once more, at most twice in all. If no request was sent
// yet, the first one will be sent twice.
func (hs *handshakes) repeatRequest(ep *Endpoint) {
	_ = hs.carryOutMessages(ep, hs.advance(ep, connect.Repeat), nil) // the first request was sent and is still unanswered
}

// mayHaveLostReply reports whether the endpoint waits for a reply that may have been lost unnoticed:
// one that agrees on no lanes, which is not acknowledged. The peer does not know whether its reply,
// which its transport has taken, arrived before the connection failed. It answers a repeated request
// once more, by EP_REMOVED if its endpoint has failed. C UCX would open a second endpoint for the
// request.
//
// In stage Crossed the request of one side counts, and that of the other is not answered. If the one
// that counts was answered by an endpoint that the peer had before, the peer's endpoint waits, too.
func (hs *handshakes) mayHaveLostReply(ep *Endpoint) bool {
	h := &ep.handshake
	if h.Role != connect.Peer || ep.pair != nil || ep.peer == nil || ep.peer.UUID() == hs.w.uuid || !ofThisLibrary(ep.dest.address) {
		return false
	}
	return h.Stage == connect.Requested && ep.remoteID == 0 || h.Stage == connect.Crossed && ep.peer.UUID() > hs.w.uuid
}

// connectSelf connects the lanes of an endpoint that leads to itself.
func (hs *handshakes) connectSelf(ep *Endpoint) error {
	o := &offer{chosen: ep.dest.address}
	if ep.pair != nil {
		own, err := hs.laneAddress(ep, ep.pair.Paired, ep.pair.number)
		if err != nil {
			return err
		}
		o.addr, o.number = &own, ep.pair.number
	}
	return hs.carryOut(ep, hs.advance(ep, connect.Loopback), o)
}

// onReply handles the reply to the request of an endpoint.
func (hs *handshakes) onReply(src *uct.Source, m *proto.Wireup) {
	w := hs.w
	ev := connect.Reply
	if m.Type == proto.WireupReplyReconfig {
		ev = connect.ReplyReconfig
	}
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || m.SrcEp == 0 || hs.foresee(ep, ev)&connect.Drop != 0 {
		w.stats.Dropped++
		return
	}
	if from := w.accounts.sourceOf(src); ep.peer != nil {
		// Only the peer learns the id of the endpoint: the request that carried the id went to
		// the peer's address.
		if m.Address.UUID != ep.peer.UUID() || from.belongsToOther(ep.peer) {
			w.refused(from, ledger.Claim)
			return
		}
		from.bindPeer(ep.peer)
		ep.peer.DropUnmatched((*peerEnd)(ep))
	}
	if ep.handshake.Stage == connect.Crossed && ep.idReplaced(m.SrcEp) {
		// What was sent to the peer's first endpoint is lost. The second one gets to know that too.
		to := ep.dest
		ep.report(life.Removed, errEndGone)
		hs.w.wireups.sendRemovedTo(to, m.SrcEp, ep.errMode)
		return
	}
	do := hs.advance(ep, ev)
	hs.w.wireups.idConfirmed(ep, m.SrcEp)
	o := &offer{addr: &m.Address, chosen: ep.dest.address}
	if ep.pair != nil {
		o.number = ep.pair.number
	}
	if err := hs.carryOut(ep, do, o); err != nil {
		ep.fail(err)
	}
}

// onAck handles the acknowledgement of a peer that has connected its transport endpoints.
func (hs *handshakes) onAck(src *uct.Source, m *proto.Wireup) {
	w := hs.w
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || hs.foresee(ep, connect.Ack)&connect.Drop != 0 || w.admission.spoofed(src, ep) {
		w.stats.Dropped++
		return
	}
	_ = hs.carryOut(ep, hs.advance(ep, connect.Ack), nil)
}

// matched connects an endpoint with the peer's endpoint that sent request m. said is the claimed
// part of the peer's address, which is not verified.
func (hs *handshakes) matched(from *source, ep *Endpoint, m *proto.Wireup, said *proto.WorkerAddress) {
	paired := ep.pair != nil
	do := hs.advance(ep, connect.Request)
	if do&connect.SendRemoved != 0 {
		hs.sendRemoved(ep, requestOffer(from, m, said))
		return
	}
	if paired {
		hs.w.wireups.idConfirmed(ep, m.SrcEp)
	}
	if err := hs.carryOut(ep, do, requestOffer(from, m, said)); err != nil {
		hs.w.wireups.refusePairs(ep, from, m, said, err)
		return
	}
	if !paired {
		hs.w.wireups.idConfirmed(ep, m.SrcEp) // starts operations, whose messages follow the reply
	}
}

// lanesConnected is called when the lanes are connected on both sides. It closes the auxiliary lane and
// starts the operations that wait for the lanes.
func (hs *handshakes) lanesConnected(ep *Endpoint) {
	ep.pair.Agreed()
	hs.closeAux(ep)
	hs.startWaiting(ep)
}

// startWaiting starts the operations that wait for the lanes.
func (hs *handshakes) startWaiting(ep *Endpoint) {
	for n := ep.waiting.Front(); n != nil; n = n.Next() {
		n.Value.lane = ep.amLane() // the number of the lane for messages may have changed
	}
	ep.w.rma.resolveKeys(ep)
	ep.resolveNeed(needLanes)
}

// checkAux asks the transport of the auxiliary lane whether the peer lives. While that lane exists the
// peer's endpoint may not be known, and the other lanes are not connected: nothing else can tell that
// a peer has died after it received the request (ucp_wireup_ep_check in src/ucp/wireup/wireup_ep.c).
func (hs *handshakes) checkAux(ep *Endpoint) {
	p := ep.pair
	if p == nil || p.aux.uct == nil {
		return
	}
	if f := p.aux.iface.attr.Flags; f.Has(uct.IfaceEpCheck) && !f.Has(uct.IfaceEpKeepalive) {
		_ = p.aux.uct.Check(nil) // an error returned here is reported as a failure, too
	}
}

// closeAux closes the auxiliary lane, because the other lanes carry everything now. Requests in its
// queue move to the lane for messages. The queue may hold a reply if an endpoint is connected with
// another of the same worker: each answers the other, and may receive its own reply before its
// reply was sent.
func (hs *handshakes) closeAux(ep *Endpoint) {
	hs.auxLane(ep, connect.AuxLane).PendingPurge(func(p *uct.Pending) {
		if h, ok := p.Owner.(*hooks); ok {
			r := (*Request)(h)
			r.lane = ep.amLane()
			r.state |= stateMoves
			r.dispatchLater()
		}
	})
	hs.dropAux(ep)
}

// rechooseLanes replaces the lanes by lanes chosen toward the address in a request. Nothing was
// sent over the old ones but a wireup request that the peer does not answer. Lanes that are not
// connected pairwise are kept where the new choice has them, too: such a lane may lead to a
// transport endpoint that is the peer's lane for wireup and keepalive, and closing the lane here
// would leave the peer's lane without a counterpart.
func (hs *handshakes) rechooseLanes(ep *Endpoint, addr *proto.WorkerAddress, origin uct.Origin) error {
	ep.w.ends.purgeLanes(ep, ucs.ErrCanceled)
	made := hs.detachUnpaired(ep)
	ep.w.ends.closeLanes(ep, false)
	ep.setRefused(nil)
	err := hs.w.wireups.connectBy(ep, addr.WithoutEnds(), laneRules{ends: addr, made: made, origin: origin})
	for _, m := range made {
		if !hs.has(ep, m.uct) {
			m.uct.Close()
		}
	}
	if err == nil && ep.pair == nil {
		err = fmt.Errorf("ucp: the peer has asked for other lanes: %w", ucs.ErrUnreachable)
	}
	return err
}

// detachUnpaired removes from the endpoint the lanes that are not connected pairwise, including the
// auxiliary lane, and returns them. The caller owns them.
func (hs *handshakes) detachUnpaired(ep *Endpoint) (made []existingLane) {
	p := ep.pair
	if p.aux.uct != nil {
		dev, f := ep.dest.address.Entry(p.auxEntry)
		aux := lane{iface: p.aux.iface, uct: p.aux.uct, remote: remoteOf(p.aux.uct)}
		made = append(made, existingLane{lane: aux, entry: identity.EntryOf(f.Transport, dev.Addr, f.Addr)})
		p.aux = lane{}
	}
	paired := ep.lanes[:0]
	for k, l := range ep.lanes {
		if p.Has(uint8(k)) {
			paired = append(paired, l)
		} else {
			made = append(made, existingLane{lane: l, path: ep.cfg.chosen.Lanes[k].Path, entry: ep.dest.lanes[k]})
		}
	}
	ep.lanes = paired
	return made
}

// has reports whether a transport endpoint belongs to a lane of the endpoint, or to its auxiliary
// lane.
func (hs *handshakes) has(ep *Endpoint, ue uct.Endpoint) bool {
	return ep.pair != nil && ep.pair.aux.uct == ue || hasLane(ep.lanes, ue)
}

// wireupLane returns the lane for a wireup message. A check goes like a request as long as the peer may not
// have connected its pairwise lanes.
func (hs *handshakes) wireupLane(ep *Endpoint, t proto.WireupType) uint8 {
	k, p := ep.cfg.lanes.WireupLane(t), ep.pair
	if p == nil {
		return k
	}
	if t == proto.WireupEpCheck && ep.handshake.Unacknowledged() {
		k = ep.cfg.lanes.Wireup
	}
	return p.Carrier(k, t == proto.WireupAck, p.aux.uct != nil, p.conn != nil)
}

// laneAddress returns a worker address that describes lanes of the endpoint to its peer. The
// parameter which is a bit set of lanes. For a pairwise lane in the set, the address contains that
// of its transport endpoint, under the number that the function number returns for the lane.
func (hs *handshakes) laneAddress(ep *Endpoint, which uint64, number func(lane int) uint8) (proto.WorkerAddress, error) {
	has := func(i *iface) bool {
		for k := range ep.lanes {
			if which&(1<<k) != 0 && ep.lanes[k].iface == i {
				return true
			}
		}
		return ep.pair.aux.iface == i && which == allLanes && ep.pair.conn == nil
	}
	a := ep.w.own.describe(has)
	err := hs.addEndpointAddresses(ep, &a, which, number)
	for k := range ep.lanes {
		if which&^ep.pair.Paired&(1<<k) != 0 {
			ep.lanes[k].addOther(&a)
		}
	}
	if which == allLanes && ep.pair.conn == nil {
		ep.pair.aux.addOther(&a)
	}
	return a, err
}

// addEndpointAddresses adds the addresses of the transport endpoints of some lanes to an address of the worker.
// The parameter which is a bit set of these lanes. If the peer reaches a lane at another address
// than that of its interface, that address is used for the device.
func (hs *handshakes) addEndpointAddresses(ep *Endpoint, a *proto.WorkerAddress, which uint64, number func(lane int) uint8) (failed error) {
	a.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for k := range ep.lanes {
			if ep.pair.Paired&which&(1<<k) == 0 || ep.lanes[k].iface.index != f.RscIndex {
				continue
			}
			end, err := ep.lanes[k].uct.(uct.Paired).Address()
			if err != nil {
				failed = fmt.Errorf("ucp: address of lane %d of endpoint %s: %w", k, ep.describe(), err)
				return false
			}
			f.EpAddrs = append(f.EpAddrs, proto.AddressEp{Lane: number(k), Addr: end})
			if m, ok := ep.lanes[k].uct.(uct.NetworkEndpoint); ok {
				if at, other := m.InterfaceAddr(); other {
					dev.Addr, f.Addr = at.DeviceAddr, at.IfaceAddr
				}
			}
		}
		return true
	})
	return failed
}

// allLanes is the set of all lanes of an endpoint, including the auxiliary one.
const allLanes = ^uint64(0)

// match assigns a transport endpoint of the peer, from the address in a request, to each pairwise
// lane, and returns the numbers of these endpoints.
func (hs *handshakes) match(ep *Endpoint, addr *proto.WorkerAddress) (connect.Numbers, error) {
	numbers, err := ep.pair.Match(addr, func(k int, dev *proto.AddressDevice, f *proto.AddressIface, end []byte) bool {
		return ep.lanes[k].leadsTo(dev, f, end)
	})
	return numbers, hs.nameLane(ep, err)
}

// nameLane adds the name of the lane to an error of package connect.
func (hs *handshakes) nameLane(ep *Endpoint, err error) error {
	if e := (*connect.LaneError)(nil); errors.As(err, &e) {
		e.Name = ep.w.selection.laneName(ep, e.Lane)
	}
	return err
}

// connectLanes connects the lanes with the peer's transport endpoints in an offer.
func (hs *handshakes) connectLanes(ep *Endpoint, o *offer) error {
	p := ep.pair
	for k := range p.Unjoined() {
		t, err := p.Target(k, o.addr, o.number(k), o.chosen)
		if err != nil {
			return hs.nameLane(ep, err)
		}
		var iface []byte
		if o.chosen != nil {
			iface = t.Iface.Addr
		}
		if err := ep.lanes[k].uct.(uct.Paired).ConnectToEP(t.Device.Addr, iface, t.Addr); err != nil {
			return fmt.Errorf("ucp: connecting lane %s: %w", ep.w.selection.laneName(ep, k), err)
		}
		p.Join(k)
	}
	return nil
}

// A request names a transport endpoint for each of the peer's pairwise lanes, and the peer gives up
// if one of them gets no counterpart. Releases choose differently: C UCX 1.13 keeps the lane of a
// connection manager beside a better one; this library and C UCX 1.22 do not. Therefore the
// answering side keeps every lane that the peer has kept, even one that it does not need, and makes
// no lane where the peer has no transport endpoint.

// withKept returns a copy of a choice of lanes, with spare lanes added that the peer has kept.
// These are the spare lanes that are connected with a transport endpoint in the address and that
// the choice does not use. An added lane has no purpose.
func (hs *handshakes) withKept(chosen proto.LaneConfig, addr *proto.WorkerAddress, mode ErrMode, rules *laneRules) proto.LaneConfig {
	w := hs.w
	in := w.selection.laneInput(addr, mode, rules)
	chosen.Lanes = slices.Clip(chosen.Lanes)
	for k := range rules.spare {
		local, entry := slices.Index(w.ifaces, rules.spare[k].iface), connect.EntryOf(rules.ends, k, rules.spareLeadsTo)
		if entry < 0 || len(chosen.Lanes) == proto.MaxLanes ||
			slices.ContainsFunc(chosen.Lanes, func(l proto.Lane) bool { return l.Local == local && l.Remote == entry }) {
			continue
		}
		chosen.Paired |= 1 << len(chosen.Lanes)
		chosen.Lanes = append(chosen.Lanes, in.Lane(local, entry))
	}
	return chosen
}

// Loss of lanes during the handshake.

// An address may name devices that the peer no longer has, or that cannot be reached from here. A
// wireup request sent to such a device gets no reply. If nothing but that request was sent, and the
// request is for pairwise lanes, without which no operation can start, the worker safely repeats
// the request over the other devices in the address. Once data was sent on lanes, the worker cannot
// know what has arrived, so the loss of a lane ends the endpoint. C UCX ends the endpoint in both
// cases.

// retryOtherDevices handles the failure of a lane, whose transport endpoint is ue. It reports
// whether the wireup request was repeated over other devices of the peer's address.
func (hs *handshakes) retryOtherDevices(ep *Endpoint, ue uct.Endpoint, cause error) bool {
	if ep.err != nil || ep.life.Stage != life.Open || !errors.Is(cause, ucs.ErrEndpointTimeout) {
		return false
	}
	next, do := ep.handshake.Next(connect.TimedOut, hs.facts(ep))
	if do&connect.RetryLanes == 0 {
		return false
	}
	addr := ep.dest.address
	if !hs.excludeDevice(ep, addr, hs.entryOf(ep, ue), cause) {
		return false
	}
	ep.w.ends.purgeLanes(ep, ucs.ErrCanceled) // only the wireup request is queued
	if ep.life.Stage != life.Open {
		return true // a callback has closed the endpoint
	}
	ep.w.ends.closeLanes(ep, false)
	if err := hs.w.wireups.connectBy(ep, addr, laneRules{}); err != nil {
		ep.w.ctx.log.Debug("no other device reaches the peer", zap.String("endpoint", ep.describe()), zap.Error(err))
		return false
	}
	ep.w.ctx.log.Debug("wireup request goes over other devices", zap.String("endpoint", ep.describe()), zap.Error(cause))
	ep.handshake = next
	if hs.carryOut(ep, do, nil) != nil {
		return false
	}
	if ep.pair == nil { // these lanes need no agreement with the peer
		hs.startWaiting(ep)
	}
	return true
}

// entryOf returns the entry of the peer's address that a transport endpoint leads to, -1 if none is
// known.
func (hs *handshakes) entryOf(ep *Endpoint, ue uct.Endpoint) int {
	if ep.pair.aux.uct == ue {
		return ep.pair.auxEntry
	}
	for k := range ep.lanes {
		if ep.lanes[k].uct == ue {
			return int(ep.pair.Entries[k])
		}
	}
	return -1
}

// excludeDevice excludes all lanes to the device of an address entry from the choice of lanes. It
// reports whether the address names other devices.
func (hs *handshakes) excludeDevice(ep *Endpoint, addr *proto.WorkerAddress, entry int, cause error) (others bool) {
	gone, _ := addr.Entry(entry)
	if gone == nil {
		return false
	}
	addr.Ifaces(func(n int, d *proto.AddressDevice, _ *proto.AddressIface) bool {
		if d != gone {
			others = true
			return true
		}
		for local := range ep.w.ifaces {
			hs.w.wireups.excludeDomain(ep, laneRoute{local, n}, cause)
		}
		return true
	})
	return others
}

// auxLost handles the failure of the transport endpoint ue if ue is the auxiliary lane and this
// side waits for the acknowledgement of its reply. It returns true if so: the failure is then
// ignored, because a peer that has received the reply closes the lanes that it no longer needs, and
// its acknowledgement comes over another lane, perhaps behind other messages. auxLost makes the
// transports of the connected lanes check whether the peer still exists.
func (hs *handshakes) auxLost(ep *Endpoint, ue uct.Endpoint) bool {
	p := ep.pair
	if p == nil || p.aux.uct != ue {
		return false
	}
	do := hs.advance(ep, connect.AuxLost)
	if do&connect.IgnoreLoss == 0 {
		return false
	}
	hs.dropAux(ep)
	if do&connect.CheckLanes != 0 {
		for k := range ep.lanes {
			if p.Joined&(1<<k) != 0 {
				_ = ep.lanes[k].uct.Check(nil) // if the peer is gone, the transport reports a failure
			}
		}
	}
	return true
}

// unacknowledged tells the handshake of a round of the keepalive. The result early reports that the
// pairwise lanes must not be checked yet: while the endpoint waits for the acknowledgement of a
// reply, or a server for its client's notification, the peer may not have connected its transport
// endpoints, and a check would find no peer. The result ask reports that the peer must be asked whether
// its endpoint still exists, because the acknowledgement is late. unacknowledged fails the endpoint if the lane that
// carried the reply is gone and the peer has not acknowledged the reply within some rounds. The
// acknowledgement will then never come, and not every transport reports that the peer's transport
// endpoint was never connected.
func (hs *handshakes) unacknowledged(ep *Endpoint) (early, ask bool) {
	do := hs.advance(ep, connect.Tick)
	if err := do.Err(); err != nil {
		_ = hs.carryOutMessages(ep, do, nil)
		ep.fail(err)
	}
	return do&connect.SkipCheck != 0, do&connect.AskPeer != 0
}
