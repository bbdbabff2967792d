package ucp

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Wireup exchanges the ids of two endpoints that are paired: each side learns the id that the peer
// gave to its endpoint. Transports that connect to an interface can send without wireup. For such
// transports wireup happens when the first operation needs the peer's id. Wireup messages travel on
// a lane of their own (proto.LaneMap). They may arrive over any connection of the peer, in any
// order relative to data.

// wireupState creates the endpoints of a worker: those of the application and those that peers
// open.
type wireupState struct {
	w *Worker
	// opening is the uuid of the peer toward which an endpoint is being made. The endpoints of that
	// peer are not reclaimed meanwhile.
	opening    uint64
	unexpected int    // number of endpoints that peers have opened and the application has not claimed
	everOpened uint64 // number of endpoints that peers have ever opened
	notices    int    // number of notices that are being sent, or are sent again later
}

// wireupFamily is the family of messages by which two paired endpoints exchange their ids.
type wireupFamily struct{ noFamily }

func (wireupFamily) about() familyInfo { return familyInfo{name: "wireup"} }

func (wireupFamily) handlers(w *Worker) []handler {
	w.admission.replay = w.wireups.wireup
	return []handler{{proto.IDWireup, w.wireups.onWireup}, {proto.IDEpClose, w.onEpClose}}
}

// closed uncharges the endpoint from the account of the peer that opened it, and removes the
// endpoint from the peer's tables.
func (wireupFamily) closed(ep *Endpoint) {
	ep.w.accounts.uncharge(ep)
	ep.w.accounts.unbindAccount(ep)
	if ep.peer != nil {
		ep.w.peers.Remove((*peerEnd)(ep), ep.peer)
	}
}

// provide sends the wireup request if operations of the endpoint need the peer's id.
func (wireupFamily) provide(ep *Endpoint) error {
	if ep.needs&needID == 0 {
		return nil
	}
	return ep.w.handshakes.request(ep)
}

// evict closes the endpoints that the peer of a connection has opened, except those for which the
// application holds a message that it may reply to.
func (wireupFamily) evict(s *source, _ error) {
	for m := s.openings.First(); m != nil; {
		b, next := m.Value, m.Next()
		if b.ep.held == 0 {
			b.ep.report(life.Evict, nil)
		}
		m = next
	}
}

// count fills in the number of endpoints.
func (wireupFamily) count(w *Worker, s *Stats) { s.Endpoints = w.endpoints.Len() }

// onWireup counts a received wireup message and handles it.
func (ws *wireupState) onWireup(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := ws.w
	w.stats.WireupRecvd++
	return ws.wireup(src, data)
}

// wireup handles a wireup message. A deferred message is handled a second time, when it is
// resolved.
func (ws *wireupState) wireup(src *uct.Source, data []byte) error {
	w := ws.w
	m, err := proto.ParseWireup(data)
	if err != nil {
		return w.logMalformed(err)
	}
	switch m.Type {
	case proto.WireupPreRequest:
		w.conns.onMessage(src, &m, data, connect.PreRequest)
	case proto.WireupRequest:
		if m.DstEp != 0 {
			w.conns.onMessage(src, &m, data, connect.Request)
			return nil
		}
		return ws.onWireupRequest(w.accounts.sourceOf(src), &m, data)
	case proto.WireupReply, proto.WireupReplyReconfig:
		w.handshakes.onReply(src, &m)
	case proto.WireupEpCheck:
		return ws.onEpCheck(w.accounts.sourceOf(src), &m, data)
	case proto.WireupEpRemoved:
		if ep := w.endpoints.Get(uint64(m.DstEp)); ep != nil {
			// The peer of an endpoint that a connection manager has connected may not be known yet.
			if ep.peer != nil && ep.peer.UUID() != 0 && m.Address.UUID != ep.peer.UUID() {
				w.refused(w.accounts.sourceOf(src), ledger.Claim)
				return nil
			}
			if w.admission.spoofed(src, ep) {
				return nil
			}
			if ep.remoteID == 0 && ep.errMode != ErrMode(m.ErrMode) { // never connected with the peer's endpoint
				ep.fail(ws.errModeMismatch(ep, &m))
				return nil
			}
			ep.report(life.Removed, errEndGone)
		}
	case proto.WireupAck:
		w.handshakes.onAck(src, &m)
	default:
		// The library does not implement lane recovery. A peer that follows the release announced
		// in the worker address does not send it.
		w.stats.Dropped++
	}
	return nil
}

// onWireupRequest answers a wireup request, by which a peer asks for the id of its endpoint's
// counterpart at this worker. message is m in packed form, as received.
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
			w.handshakes.repeatRequest(ep)
		}
	}
	verdict, e := p.Match(sn, m.SrcEp)
	ep := (*Endpoint)(e)
	switch verdict {
	case identity.Connected:
		w.stats.Dropped++
		return nil
	case identity.Repeated:
		ws.answerAgain(from, ep, m, q)
		return nil
	case identity.Open, identity.Contested:
		return ws.acceptEndpoint(from, m, q.claimed)
	}
	if q.migrated { // the connection is not verified as the peer's: the endpoint still waits for the peer
		w.handshakes.matched(from, ep, m, q.claimed)
		ep.state |= epUnconfirmed
		return nil
	}
	from.bindPeer(p)
	if ep.life.EverHeld() {
		p.DropUnmatched(e)
		ep.w.accounts.bindAccount(ep, from.Account().Ledger().Source())
		if ep.errMode != ErrMode(m.ErrMode) {
			if ep.pair != nil {
				ws.sendRemoved(from, m, q.claimed, ep.errMode)
			}
			ep.fail(ws.errModeMismatch(ep, m))
			return nil
		}
	}
	w.handshakes.matched(from, ep, m, q.claimed)
	return nil
}

// maxAnsweredAgain is how many repeated requests for an endpoint, failed or not, are answered: as many as
// the peer sends (package connect). Answers to a peer that sends more, and does not read, do not pile up.
const maxAnsweredAgain = 2

// answerAgain answers a request that was answered before, if the answer may have been lost unnoticed
// (handshakes.mayHaveLostReply). A request is not answered that the reply of the peer has overtaken:
// the peer knows the id of the endpoint already. C UCX repeats no request.
func (ws *wireupState) answerAgain(from *source, ep *Endpoint, m *proto.Wireup, q *requester) {
	w := ws.w
	lost := ep.gone() != nil || ep.state&epReplied != 0
	if !lost || q.migrated || !ofThisLibrary(&m.Address) || m.Address.UUID == w.uuid || ep.ensureExtra().answeredAgain == maxAnsweredAgain {
		w.stats.Dropped++
		return
	}
	ep.extra.answeredAgain++
	w.handshakes.matched(from, ep, m, q.claimed)
}

// errModeMismatch returns the error for an endpoint whose error mode differs from that of the peer's
// endpoint, which sent m.
func (ws *wireupState) errModeMismatch(ep *Endpoint, m *proto.Wireup) error {
	return fmt.Errorf("the peer's endpoint has error mode %d, this one %d: %w", m.ErrMode, ep.errMode, ucs.ErrUnsupported)
}

// acceptEndpoint opens an endpoint toward a peer that has opened one toward this worker. If the
// application creates an endpoint to that peer later, it gets this endpoint. said is the claimed
// part of the peer's address, which is not verified.
func (ws *wireupState) acceptEndpoint(from *source, m *proto.Wireup, said *proto.WorkerAddress) error {
	w := ws.w
	if w.shuttingDown > 0 {
		w.stats.Dropped++
		return nil
	}
	mode := min(ErrMode(m.ErrMode), ErrModePeer)
	if err := from.MayOpen(); err != nil {
		ws.announceRefusal(from, m, said, mode)
		return err
	}
	p, _ := w.admission.claimedPeer(from, &m.Address) // released if an eviction has ended its connection
	if p == nil {
		p = w.peers.NewUntrusted(&m.Address)
	}
	defer func() { w.peers.Release(p) }() // has no effect if an endpoint of the peer was made
	addr, rules := &m.Address, laneRules{}
	if addr.HasEnds() {
		addr, rules.ends = addr.WithoutEnds(), addr
	}
	if p.Trusted() {
		addr = p.ShareAddress(addr)
	} else {
		addr = p.KeepAddress(addr)
	}
	ep, err := w.admission.requesterEndpoint(from, addr, said, mode, rules)
	if err != nil {
		_ = ws.sendRemoved(from, m, said, mode) // a notice needs less than an endpoint
		return w.admission.unreachableRequester(from, p, err)
	}
	from.bindPeer(p)
	p = p.Canonical()
	ep.w.accounts.chargeTo(ep, from)
	ep.w.peers.Add((*peerEnd)(ep), p)
	ep.connSN = m.ConnSN
	if p.UUID() == w.uuid && ep.connSN != proto.ConnSNNone {
		ep.connSN ^= 1
	}
	if _, taken := p.Unmatched(ep.connSN); !taken {
		p.AddUnmatched((*peerEnd)(ep))
	}
	if err := w.handshakes.carryOut(ep, ep.w.handshakes.advance(ep, connect.Opened), requestOffer(from, m, said)); err != nil {
		ws.refusePairs(ep, from, m, said, err)
		return nil
	}
	ws.connected(ep, m.SrcEp)
	return nil
}

// onEpCheck answers a check by which a peer asks whether the counterpart of its endpoint still
// exists. Only a negative answer is sent, over an endpoint made for that purpose. An endpoint that has
// failed exists no more, although the application has not closed it yet: C UCX takes the id away from
// it (ucp_ep_release_id in src/ucp/core/ucp_ep.c).
func (ws *wireupState) onEpCheck(from *source, m *proto.Wireup, message []byte) error {
	w := ws.w
	if ep := w.endpoints.Get(uint64(m.DstEp)); ep != nil && ep.err == nil || w.shuttingDown > 0 {
		w.admission.gate.Tokens.Discard(from.tokenProof(), m.Address.UUID, message)
		return nil
	}
	q := new(requester)
	if w.admission.staleRequest(from, m) {
		w.admission.gate.Tokens.Discard(from.tokenProof(), m.Address.UUID, message)
		w.admission.keepLocalEntries(&m.Address) // answered at an address within this machine, where the check came from
	} else {
		var err error
		if q, err = w.admission.admitRequest(from, m, message); err != nil || q.deferred {
			return err
		}
	}
	if err := from.MayOpen(); err != nil {
		ws.announceRefusal(from, m, q.claimed, ErrModeNone)
		return err
	}
	if err := ws.sendRemoved(from, m, q.claimed, ErrModeNone); err != nil {
		return w.admission.unreachableChecker(from, q.peer, err)
	}
	return nil
}

// wireupMessage carries a packed wireup message. The application does not see its request, which is
// freed once the message is sent.
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
	return copy(dst, r.data.Buf)
}

// wireupHeader is an estimate, in bytes, of what a wireup message adds to the address that it
// carries.
const wireupHeader = 64

// sendWireup sends one wireup message with the given address. It returns an error if the message
// cannot be packed or does not fit the lane. An error of sending is reported like that of any
// message.
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
	k := ep.w.handshakes.wireupLane(ep, t)
	if most := ep.maxMessage(k); err == nil && len(packed) > most {
		err = fmt.Errorf("%d bytes, the limit of a message is %d: %w", len(packed), most, ucs.ErrBufferTooSmall)
	}
	if err != nil {
		err = ep.w.ends.withEndpointName(ep, fmt.Errorf("wireup message: %w", err))
		ep.w.ctx.log.Debug("wireup message cannot be sent", zap.Error(err))
		return err
	}
	ep.w.stats.WireupSent++
	r := ep.control(p)
	r.lane, r.data.Buf, r.step = k, packed, ws.firstStep(ep, t)
	r.run()
	return nil
}

// requestWireup sends a wireup request, which asks for the peer's id. The address in the request
// has exactly the resources and attributes of the worker address, because C UCX 1.22.0 gives up
// when its choice of lanes changes. For an endpoint with lanes that are connected pairwise, the
// address has only the resources of its lanes.
func (ws *wireupState) requestWireup(ep *Endpoint) error {
	err := ep.w.own.packAddress()
	if err != nil {
		return err
	}
	if ep.remoteID == 0 {
		ep.report(life.Asked, nil)
	}
	ep.w.stream.expect()
	addr := ws.wireupAddress(ep)
	if ep.pair != nil {
		if addr, err = ep.w.handshakes.laneAddress(ep, allLanes, ep.pair.number); err != nil {
			return err
		}
	}
	addr.Token = ep.w.admission.gate.Tokens.KeyFor(ep.dest.address.UUID)
	var to proto.EndpointID // 0: not known yet
	if ep.conn() != nil {
		to = ep.remoteID
	}
	return ws.sendWireup(ep, proto.WireupRequest, to, addr)
}

// Notices to peers whose endpoints have no counterpart here. An endpoint that has failed sends
// nothing any more, and its lanes may not even be connected. The notice therefore goes over an
// endpoint made for that purpose.

// sendRemoved tells a peer that its endpoint has no counterpart here and will never have one. The
// notice goes over an endpoint of its own, which stays until the notice was sent. mode is the error
// mode that the notice states for the missing counterpart.
func (ws *wireupState) sendRemoved(from *source, m *proto.Wireup, said *proto.WorkerAddress, mode ErrMode) error {
	return ws.sendRemovedBy(wireupMessage{}, from, m, said, mode)
}

// sendRemovedBy does the same as sendRemoved, with the protocol of the message.
func (ws *wireupState) sendRemovedBy(p protocol, from *source, m *proto.Wireup, said *proto.WorkerAddress, mode ErrMode) error {
	w := ws.w
	ep, err := w.admission.requesterEndpoint(from, m.Address.WithoutEnds(), said, ErrModeNone, laneRules{answer: true})
	if err != nil {
		return err
	}
	ep.w.accounts.chargeTo(ep, from)
	return ws.sendNotice(ep, p, m.SrcEp, mode)
}

// announceRefusal tells a peer that its endpoint has no counterpart here, when a limit refuses its request
// or the endpoint for the answer to its check. A connection that has brought the message is dropped instead,
// which the peer notices.
func (ws *wireupState) announceRefusal(from *source, m *proto.Wireup, said *proto.WorkerAddress, mode ErrMode) {
	if from.uct != nil || ws.notices >= maxNotices/2 { // the others are for peers whose endpoints had one here
		return
	}
	ws.w.admission.keepLocalEntries(&m.Address) // the request came from within this machine
	ws.notices++
	if err := ws.sendRemovedBy(refusalMessage{}, from, m, said, mode); err != nil {
		ws.notices--
		ws.w.ctx.log.Debug("cannot notify a peer that its request is refused", zap.String("worker", ws.w.name), zap.Error(err))
	}
}

// refusalMessage is the protocol of the message that a request is refused.
type refusalMessage struct{ wireupMessage }

func (refusalMessage) release(r *Request) { r.w.wireups.notices-- }

// notice is a notice that is sent again if it was not sent, because the peer's endpoint would otherwise
// wait as long as its worker lives: nothing it can check is gone.
type notice struct {
	addr *proto.WorkerAddress
	id   proto.EndpointID // the peer's endpoint
	mode ErrMode
	wait time.Duration // until the next attempt
	last time.Duration // the time on the worker's clock after which it is not sent again
}

// A notice is sent again after a second, then after twice the time each time, for a minute. An attempt may take
// as long as the transport waits for a peer. The number of notices is limited, because peers decide how many
// there are.
const (
	firstNoticeWait = time.Second
	noticeTime      = 63 * time.Second
	maxNotices      = 128
)

// sendRemovedTo tells the peer to which an endpoint leads or has led that its endpoint id has no counterpart
// here, while no message of the peer is being handled. A notice that is not sent is sent again. Where the
// endpoint leads only over the peer's connection nothing is sent: the address is what the peer claims, and the
// peer notices the end of the connection.
func (ws *wireupState) sendRemovedTo(to *destination, id proto.EndpointID, mode ErrMode) {
	if id == 0 || to.reversePath || ws.notices >= maxNotices {
		return
	}
	ws.notices++
	ws.attemptNotice(&notice{
		addr: to.address.WithoutEnds(), id: id, mode: mode, wait: firstNoticeWait, last: ws.w.uctw.Now() + noticeTime,
	})
}

// attemptNotice sends a notice, over an endpoint of its own.
func (ws *wireupState) attemptNotice(n *notice) {
	if ws.w.closed || ws.w.shuttingDown > 0 {
		ws.notices--
		return
	}
	ep, err := ws.newEndpointBy(n.addr, ErrModeNone, life.Serving, laneRules{answer: true, origin: uct.OriginPeer})
	if err != nil {
		ws.repeatNotice(n, err)
		return
	}
	ep.ensureExtra().notice = n
	if err := ws.sendNotice(ep, noticeMessage{}, n.id, n.mode); err != nil {
		ws.repeatNotice(n, err)
	}
}

// repeatNotice sends a notice again after a time. err is the reason why it was not sent.
func (ws *wireupState) repeatNotice(n *notice, err error) {
	ws.w.ctx.log.Debug("cannot notify a peer that its endpoint is gone", zap.String("worker", ws.w.name), zap.Error(err))
	gone := errors.Is(err, ucs.ErrConnectionReset)
	if gone || ws.w.uctw.Now() >= n.last {
		ws.notices--
		return
	}
	_, err = ws.w.uctw.Timers().After(n.wait, func() {
		if ws.hasCounterpart(n) { // the peer has repeated its request
			ws.notices--
			return
		}
		ws.attemptNotice(n)
	})
	if err != nil {
		ws.w.ctx.log.Debug("a notice is not sent again", zap.String("worker", ws.w.name), zap.Error(err))
		ws.notices--
		return
	}
	n.wait *= 2
}

// hasCounterpart reports whether the endpoint of a notice has a counterpart here after all.
func (ws *wireupState) hasCounterpart(n *notice) (found bool) {
	ws.w.endpoints.Each(func(ep *Endpoint) {
		found = found || ep.err == nil && ep.remoteID == n.id && ep.peer != nil && ep.peer.UUID() == n.addr.UUID
	})
	return found
}

// noticeMessage is the protocol of a message that is sent again if it was not sent.
type noticeMessage struct{ replyMessage }

func (noticeMessage) release(r *Request) {
	if ws := &r.w.wireups; r.err != nil && !errors.Is(r.err, ucs.ErrCanceled) {
		ws.repeatNotice(r.ep.extra.notice, r.err)
	} else {
		ws.notices--
	}
}

// sendNotice sends the notice over an endpoint that was made for it. If it returns an error, no request with
// protocol p was made, and the endpoint is gone.
func (ws *wireupState) sendNotice(ep *Endpoint, p protocol, id proto.EndpointID, mode ErrMode) error {
	ep.connSN, ep.errMode = proto.ConnSNNone, mode
	ep.state |= epNotice
	if err := ws.sendWireupBy(ep, p, proto.WireupEpRemoved, id, ep.w.own.emptyAddress()); err != nil {
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
		return err
	}
	if r, err := ep.w.ends.closeAsync(ep, nil); err != nil {
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
	} else {
		r.free()
	}
	return nil
}

// refusePairs fails the endpoint because the lanes that a peer asks for cannot be made. It notifies
// the peer, whose endpoint would otherwise wait.
func (ws *wireupState) refusePairs(ep *Endpoint, from *source, m *proto.Wireup, said *proto.WorkerAddress, err error) {
	ep.w.ctx.log.Diag("cannot connect the lanes of a peer's request", zap.String("endpoint", ep.describe()), zap.Error(err))
	if err := ep.w.wireups.sendRemoved(from, m, said, ep.errMode); err != nil {
		ep.w.ctx.log.Debug("cannot notify the peer of the refusal", zap.Error(err))
	}
	ep.fail(err)
}
