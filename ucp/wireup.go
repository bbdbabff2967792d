package ucp

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Wireup tells each side the other's id of an endpoint. Transports that connect
// to an interface need none of it to send; it happens when the first operation
// needs the peer's id. The messages go over lanes of their own (laneMap.wireupLane)
// and come over any connection of the peer, in any order with data.

// wireupState makes the endpoints of a worker, those of peers and those of the application.
type wireupState struct {
	w          *Worker
	opening    uint64 // uuid of the peer toward which an endpoint is being made: it gives no way
	unexpected int    // endpoints that peers have opened and the application has not claimed
	everOpened uint64 // endpoints that peers have ever opened
}

// wireupFamily is how the two sides of an endpoint get to know each other.
type wireupFamily struct{ noFamily }

func (wireupFamily) about() familyInfo { return familyInfo{name: "wireup"} }

func (wireupFamily) handlers(w *Worker) []handler {
	w.admission.replay = w.wireups.wireup
	return []handler{{proto.IDWireup, w.wireups.onWireup}, {proto.IDEpClose, w.onEpClose}}
}

// closed forgets who opened the endpoint, and that it waits for a counterpart.
func (wireupFamily) closed(ep *Endpoint) {
	ep.w.accounts.uncharge(ep)
	ep.w.accounts.unbindAccount(ep)
	if ep.peer != nil {
		ep.peer.dropUnmatched(ep)
		ep.w.peers.endpointClosed(ep.peer, ep)
	}
}

// provide asks the peer for its id.
func (wireupFamily) provide(ep *Endpoint) error {
	if ep.needs&needID == 0 || ep.state&epRequested != 0 || ep.conn() != nil {
		return nil // it is told while the connection is made, if that is by socket address
	}
	if err := ep.w.wireups.requestWireup(ep); err != nil {
		return err
	}
	if ep.state&epResend != 0 {
		ep.w.wireups.repeatRequest(ep)
	}
	return nil
}

// evict closes the endpoints that the peer of a connection has opened, but for those
// that the user is about to answer over.
func (wireupFamily) evict(s *source, _ error) {
	for b := s.openings; b != nil; {
		next := b.next
		if b.ep.held == 0 {
			b.ep.report(life.Evict, nil)
		}
		b = next
	}
}

// count fills in the number of endpoints.
func (wireupFamily) count(w *Worker, s *Stats) { s.Endpoints = w.endpoints.Len() }

// onWireup receives wireup messages.
func (ws *wireupState) onWireup(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := ws.w
	w.stats.WireupRecvd++
	return ws.wireup(src, data)
}

// wireup handles a wireup message, of which some are kept back and handled twice.
func (ws *wireupState) wireup(src *uct.Source, data []byte) error {
	w := ws.w
	m, err := proto.ParseWireup(data)
	if err != nil {
		return w.logMalformed(err)
	}
	switch m.Type {
	case proto.WireupPreRequest:
		w.conns.onPreRequest(src, &m, data)
	case proto.WireupRequest:
		if m.DstEp != 0 {
			w.conns.onConnRequest(src, &m, data)
			return nil
		}
		return ws.onWireupRequest(w.accounts.sourceOf(src), &m, data)
	case proto.WireupReply, proto.WireupReplyReconfig:
		ep := w.endpoints.Get(uint64(m.DstEp))
		if ep == nil || ep.state&epRequested == 0 || m.SrcEp == 0 {
			w.stats.Dropped++ // one reply to a request
			return nil
		}
		if from := w.accounts.sourceOf(src); ep.peer != nil {
			// Who knows the id was sent it in the request, to the peer's address.
			if m.Address.UUID != ep.peer.uuid || from.belongsToOther(ep.peer) {
				w.refused(from, ledger.Claim)
				return nil
			}
			from.bindPeer(ep.peer)
			ep.peer.dropUnmatched(ep)
		}
		ep.state &^= epRequested
		ws.idConfirmed(ep, m.SrcEp)
		if ep.pair != nil {
			ws.onPairReply(ep, &m)
			return nil
		}
		if m.Type == proto.WireupReplyReconfig {
			ws.sendWireup(ep, proto.WireupAck, ep.remoteID, w.own.emptyAddress())
		}
	case proto.WireupEpCheck:
		return ws.onEpCheck(w.accounts.sourceOf(src), &m, data)
	case proto.WireupEpRemoved:
		if ep := w.endpoints.Get(uint64(m.DstEp)); ep != nil {
			if ep.peer != nil && m.Address.UUID != ep.peer.uuid {
				w.refused(w.accounts.sourceOf(src), ledger.Claim)
				return nil
			}
			if w.admission.spoofed(src, ep) {
				return nil
			}
			if ep.remoteID == 0 && ep.errMode != ErrMode(m.ErrMode) { // it has never been one
				ep.fail(ws.unequal(ep, &m))
				return nil
			}
			ep.report(life.Removed, errEndGone)
		}
	case proto.WireupAck:
		ws.onWireupAck(src, &m)
	default:
		// Lane recovery is not spoken here; a peer that follows our announced release
		// does not send it.
		w.stats.Dropped++
	}
	return nil
}

// onWireupRequest answers a peer that asks for our id. message is m as it came.
func (ws *wireupState) onWireupRequest(from *source, m *proto.Wireup, message []byte) error {
	w := ws.w
	if m.SrcEp == 0 {
		w.stats.Dropped++
		return nil
	}
	q, err := w.admission.admitRequest(from, m, message)
	if err != nil || q.deferred {
		return err
	}
	p, sn := q.peer, m.ConnSN
	if m.Address.UUID == w.uuid {
		sn ^= 1 // endpoints of one worker are paired two by two
	}
	if p == nil {
		if ep := w.admission.unansweredEndpoint(q.claimed, m); ep != nil {
			ws.repeatRequest(ep)
		}
	}
	if p == nil || sn == proto.ConnSNNone || p.unmatched[sn] == nil {
		if p.hasEndpointTo(m.SrcEp) {
			w.stats.Dropped++ // both have asked, and the peer's answer came before its request
			return nil
		}
		return ws.acceptEndpoint(from, m, q.claimed)
	}
	ep := p.unmatched[sn]
	if ep.remoteID == m.SrcEp && ep.state&epUnconfirmed == 0 {
		w.stats.Dropped++ // this was answered before
		return nil
	}
	if ep.remoteID != 0 && ep.state&epUnconfirmed == 0 {
		// Two say that they are the peer's end of one pair. Both are answered, as C
		// does, but who is right cannot be told.
		p.contested = true
		return ws.acceptEndpoint(from, m, q.claimed)
	}
	if q.migrated { // the connection may be anybody's: the endpoint still waits for the peer
		ws.matched(from, ep, m, q.claimed)
		ep.state |= epUnconfirmed
		return nil
	}
	from.bindPeer(p)
	if ep.life.Mine() {
		p.dropUnmatched(ep)
		ep.w.accounts.bindAccount(ep, from.account().ledger.Source())
		if ep.errMode != ErrMode(m.ErrMode) {
			if ep.pair != nil {
				ws.sayRemoved(from, m, q.claimed, ep.errMode)
			}
			ep.fail(ws.unequal(ep, m))
			return nil
		}
	}
	ws.matched(from, ep, m, q.claimed)
	return nil
}

// unequal is why an endpoint does not come together with the peer's that a message is of.
func (ws *wireupState) unequal(ep *Endpoint, m *proto.Wireup) error {
	return fmt.Errorf("the peer's endpoint has error mode %d, this one %d: %w", m.ErrMode, ep.errMode, ucs.ErrUnsupported)
}

// matched connects an endpoint with the peer's that a request is of. said is what of its
// address is in doubt.
func (ws *wireupState) matched(from *source, ep *Endpoint, m *proto.Wireup, said *proto.WorkerAddress) {
	w := ws.w
	if ep.pair != nil {
		if err := ws.matchedPairs(from, ep, m); err != nil {
			ws.refusePairs(ep, from, m, said, err)
		}
		return
	}
	// When both ask at once the reply of one direction is enough: the worker with
	// the larger id does not wait for an answer, it has ours by this request.
	reply := ep.state&epRequested == 0 || m.Address.UUID <= w.uuid
	if reply {
		ws.sendWireup(ep, proto.WireupReply, m.SrcEp, w.own.emptyAddress())
	}
	ws.idConfirmed(ep, m.SrcEp)
}

// acceptEndpoint opens an endpoint toward a peer that opened one toward us. The
// user may create it later and then gets this one. said is what of its address is in
// doubt.
func (ws *wireupState) acceptEndpoint(from *source, m *proto.Wireup, said *proto.WorkerAddress) error {
	w := ws.w
	if w.shuttingDown > 0 {
		w.stats.Dropped++
		return nil
	}
	if err := w.accounts.mayOpen(from); err != nil {
		return w.logMalformed(err)
	}
	p, _ := w.admission.claimedPeer(from, &m.Address) // it may have gone with a connection that gave way
	if p == nil {
		p = w.peers.newUntrustedPeer(&m.Address)
	}
	defer func() { w.peers.releasePeer(p) }() // unless the endpoint is made
	addr, rules := &m.Address, laneRules{}
	if addr.HasEnds() {
		addr, rules.ends = addr.WithoutEnds(), addr
	}
	if p.trusted() {
		addr = p.shareAddress(addr)
	} else {
		addr = p.keepAddress(addr)
	}
	ep, err := w.admission.requesterEndpoint(from, addr, said, min(ErrMode(m.ErrMode), ErrModePeer), rules)
	if err != nil {
		return w.admission.unreachableRequester(from, p, err)
	}
	from.bindPeer(p)
	p = p.canonical()
	ep.w.accounts.chargeTo(ep, from)
	ep.w.peers.setPeer(ep, p)
	ep.connSN = m.ConnSN
	if p.uuid == w.uuid && ep.connSN != proto.ConnSNNone {
		ep.connSN ^= 1
	}
	if p.unmatched[ep.connSN] == nil {
		p.addUnmatched(ep)
	}
	if ep.pair == nil {
		ws.sendWireup(ep, proto.WireupReply, m.SrcEp, w.own.emptyAddress())
	} else if err := ws.answerPairs(ep, m); err != nil {
		ws.refusePairs(ep, from, m, said, err)
		return nil
	}
	ws.connected(ep, m.SrcEp)
	return nil
}

// onEpCheck answers a peer that asks whether its counterpart still exists. Only
// "no" is answered, over an endpoint made for that.
func (ws *wireupState) onEpCheck(from *source, m *proto.Wireup, message []byte) error {
	w := ws.w
	if w.endpoints.Get(uint64(m.DstEp)) != nil || w.shuttingDown > 0 {
		w.token.discard(from, w.uuid, m.Address.UUID, message)
		return nil
	}
	var q requester
	if w.admission.staleRequest(from, m) {
		w.token.discard(from, w.uuid, m.Address.UUID, message)
		w.admission.keepLocalEntries(&m.Address) // he is answered by the way that he asks
	} else {
		var err error
		if q, err = w.admission.admitRequest(from, m, message); err != nil || q.deferred {
			return err
		}
	}
	if err := w.accounts.mayOpen(from); err != nil {
		return w.logMalformed(err)
	}
	if err := ws.sayRemoved(from, m, q.claimed, ErrModeNone); err != nil {
		return w.admission.unreachableRequester(from, q.peer, err)
	}
	return nil
}

// wireupMessage carries a packed wireup message. Its request belongs to nobody and
// vanishes when sent.
type wireupMessage struct{ basics }

func (wireupMessage) about() protocolInfo { return protocolInfo{name: "wireup"} }

func (wireupMessage) progress(r *Request) error {
	if err := r.w.admission.sendProof(r); err != nil {
		return err
	}
	return r.sendControl(proto.IDWireup, uct.SendSignaled)
}

func (wireupMessage) pack(r *Request, dst []byte) int {
	if r.step == stepProof {
		return r.w.admission.packProof(r, dst)
	}
	return copy(dst, r.data.buf)
}

// wireupHeader is how much longer than an address a message is that has one, about.
const wireupHeader = 64

// sendWireup sends one wireup message with the given address. The error says
// that there is no way to; one of sending arrives like that of any message.
func (ws *wireupState) sendWireup(ep *Endpoint, t proto.WireupType, dst proto.EndpointID, addr proto.WorkerAddress) error {
	return ws.sendWireupBy(ep, wireupMessage{}, t, dst, addr)
}

func (ws *wireupState) sendWireupBy(ep *Endpoint, p protocol, t proto.WireupType, dst proto.EndpointID, addr proto.WorkerAddress) error {
	m := proto.Wireup{Type: t, ErrMode: proto.ErrMode(ep.errMode), ConnSN: ep.connSN, SrcEp: ep.localID, DstEp: dst, Address: addr}
	size := wireupHeader
	if len(addr.Devices) > 0 {
		size += len(ep.w.own.address)
	}
	packed, err := m.Append(make([]byte, 0, size))
	k := ws.wireupLane(ep, t)
	if most := ep.maxMessage(k); err == nil && len(packed) > most {
		err = fmt.Errorf("%d bytes, the limit of a message is %d: %w", len(packed), most, ucs.ErrBufferTooSmall)
	}
	if err != nil {
		err = ep.w.ends.nameIn(ep, fmt.Errorf("wireup message: %w", err))
		ep.w.ctx.log.Debug("wireup message cannot be sent", zap.Error(err))
		return err
	}
	ep.w.stats.WireupSent++
	r := ep.control(p)
	r.lane, r.data.buf, r.step = k, packed, ws.firstStep(ep, t)
	r.run()
	return nil
}

// requestWireup asks the peer for its id. The address has exactly the resources
// and attributes of the worker address: C 1.22.0 gives up when its choice of
// lanes changes. That of lanes that are connected pairwise has these alone.
func (ws *wireupState) requestWireup(ep *Endpoint) error {
	err := ep.w.own.packAddress()
	if err != nil {
		return err
	}
	ep.state |= epRequested // the reply may come inside the call
	if ep.remoteID == 0 {
		ep.report(life.Asked, nil)
	}
	ep.w.stream.expect()
	addr := ws.wireupAddress(ep)
	if ep.pair != nil {
		if addr, err = ws.laneAddress(ep, allLanes, ep.pair.number); err != nil {
			ep.state &^= epRequested
			return err
		}
	}
	addr.Token = ep.w.admission.tokenFor(ep.dest.address.UUID)
	var to proto.EndpointID // not known yet
	if ep.conn() != nil {
		to = ep.remoteID
	}
	if err = ws.sendWireup(ep, proto.WireupRequest, to, addr); err != nil {
		ep.state &^= epRequested
	}
	return err
}

// repeatRequest does that once more; it is done twice at most. What was not done yet
// will be done twice.
func (ws *wireupState) repeatRequest(ep *Endpoint) {
	if ep.state&epRequested == 0 {
		ep.state |= epResend
		return
	}
	if ep.state&epResent != 0 {
		ep.state |= epResentTwice
	}
	ep.state |= epResent
	if ws.requestWireup(ep) != nil {
		ep.state |= epRequested // the first one is on its way
	}
}

// What peers are told whose endpoints get no end here. An endpoint that fails says nothing any
// more, and its lanes may not even be connected: the word goes over one that is made for it.

// sayRemoved tells a peer that there is no end here for its endpoint, and never will be. That
// goes over an endpoint of its own, which stays until it has left; mode is that of the end
// that there is not.
func (ws *wireupState) sayRemoved(from *source, m *proto.Wireup, said *proto.WorkerAddress, mode ErrMode) error {
	w := ws.w
	ep, err := w.admission.requesterEndpoint(from, m.Address.WithoutEnds(), said, ErrModeNone, laneRules{answer: true})
	if err != nil {
		return err
	}
	ep.w.accounts.chargeTo(ep, from)
	ep.connSN, ep.errMode = proto.ConnSNNone, mode
	ws.sendWireup(ep, proto.WireupEpRemoved, m.SrcEp, w.own.emptyAddress())
	if r, err := ep.w.ends.closeAsync(ep, nil); err != nil {
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
	} else {
		r.free()
	}
	return nil
}

// refusePairs is told that the lanes that a peer asks for cannot be had. Its end would
// wait.
func (ws *wireupState) refusePairs(ep *Endpoint, from *source, m *proto.Wireup, said *proto.WorkerAddress, err error) {
	ep.w.ctx.log.Diag("lanes that a peer has asked for cannot be connected", zap.String("endpoint", ep.describe()), zap.Error(err))
	if err := ep.w.wireups.sayRemoved(from, m, said, ep.errMode); err != nil {
		ep.w.ctx.log.Debug("cannot notify the peer of the refusal", zap.Error(err))
	}
	ep.fail(err)
}
