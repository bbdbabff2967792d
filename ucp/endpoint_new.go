package ucp

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// NewEndpoint creates an endpoint. It returns before the connection is established:
// operations may be started at once and are sent in order when it is. If no transport
// reaches the peer it fails with ucs.ErrUnreachable and the reason for each transport.
// During Worker.Shutdown it fails with ucs.ErrBusy.
func (w *Worker) NewEndpoint(p EndpointParams) (*Endpoint, error) {
	if w.missing() {
		return nil, errMissing("Worker.NewEndpoint", w == nil)
	}
	w.owner.acquire()
	ep, err := w.wireups.makeEndpoint(&p)
	w.owner.release()
	return ep, err
}

func (ws *wireupState) makeEndpoint(p *EndpointParams) (*Endpoint, error) {
	w := ws.w
	if err := ws.checkEndpoint(p); err != nil {
		if p.ConnRequest != nil {
			p.ConnRequest.Reject()
		}
		return nil, err
	}
	if p.OnError != nil && p.ErrMode == ErrModeNone && p.ConnRequest == nil { // else the client's mode
		w.handlerNeverCalled()
	}
	switch {
	case p.ConnRequest != nil:
		return w.conns.acceptConnRequest(p)
	case p.RemoteAddr.IsValid():
		return w.conns.dial(p)
	}
	addr, _, err := proto.ParseAddress(p.Address, proto.FormWorker)
	if err != nil {
		return nil, err
	}
	loopback := addr.UUID == w.uuid && p.Flags&EndpointNoLoopback == 0
	var pr *peer
	var sn uint16
	var ep *Endpoint
	if !loopback {
		pr = w.peers.Given(&addr)
		sn = pr.TakeNumber()
		ep = w.peers.claim(pr, sn, &addr)
	}
	switch {
	case ep != nil:
		ws.claim(ep)
		ws.reselectLanes(ep, pr.Address())
	case loopback:
		if ep, err = ws.newEndpoint(w.peers.self.KeepAddress(&addr), p.ErrMode, life.Open); err != nil {
			return nil, err
		}
	default:
		if ep, err = ws.newEndpoint(pr.Address(), p.ErrMode, life.Open); err != nil {
			pr.ReturnNumber(sn)
			w.peers.Release(pr)
			return nil, err
		}
		ep.connSN = sn
		ep.w.peers.Add((*peerEnd)(ep), pr)
	}
	if pr != nil {
		pr.Given = true
	}
	w.accounts.unbound++
	ep.onError, ep.userData = p.OnError, p.UserData
	ep.setName(p.Name)
	if loopback {
		ws.connected(ep, ep.localID)
		if err = ws.w.handshakes.connectSelf(ep); err != nil {
			ep.w.ends.destroy(ep, err)
			return nil, err
		}
	} else if ep.remoteID == 0 {
		pr.AddUnmatched((*peerEnd)(ep))
		if ep.pair != nil || ws.requestsEarly(p.ErrMode) {
			if err = ws.w.handshakes.request(ep); err != nil {
				ep.w.ends.destroy(ep, err)
				return nil, err
			}
		}
	} else if ep.errMode != p.ErrMode {
		err := fmt.Errorf("ucp: the peer's endpoint has error mode %d, this one %d: %w", ep.errMode, p.ErrMode, ucs.ErrUnsupported)
		ep.w.ends.destroy(ep, err)
		return nil, err
	}
	return ep, nil
}

// requestsEarly reports whether an endpoint sends its wireup request when it is made
// (UCX_RESOLVE_REMOTE_EP_ID).
func (ws *wireupState) requestsEarly(mode ErrMode) bool {
	w := ws.w
	switch w.ctx.settings.ResolveID {
	case config.On:
		return true
	case config.OnOffAutomatic:
		return mode != ErrModeNone && w.ctx.settings.keepsAlive()
	}
	return false
}

// checkEndpoint refuses invalid parameters, and new endpoints while the worker is being shut down.
func (ws *wireupState) checkEndpoint(p *EndpointParams) error {
	w := ws.w
	if err := w.wrongEndpoint(p); err != nil {
		return err
	}
	if w.shuttingDown > 0 {
		return fmt.Errorf("ucp: worker %s is being shut down: %w", w.name, ucs.ErrBusy)
	}
	return nil
}

// newEndpoint makes an endpoint to the worker with an address, and keeps the address. The caller
// adds the endpoint to the table of a peer. stage is life.Open for an endpoint of the application,
// life.Serving for one that is made on the request of a peer.
func (ws *wireupState) newEndpoint(addr *proto.WorkerAddress, mode ErrMode, stage life.Stage) (*Endpoint, error) {
	return ws.newEndpointBy(addr, mode, stage, laneRules{})
}

// newEndpointBy does the same as newEndpoint, with rules for the choice of lanes.
func (ws *wireupState) newEndpointBy(addr *proto.WorkerAddress, mode ErrMode, stage life.Stage, rules laneRules) (*Endpoint, error) {
	w := ws.w
	ep := &Endpoint{w: w, errMode: mode, life: life.End{Stage: stage}, needs: needID}
	ws.opening = addr.UUID
	err := ws.connectBy(ep, addr, rules)
	ws.opening = 0
	if err != nil {
		return nil, err
	}
	id := w.endpoints.Put(ep)
	if id == 0 {
		ep.w.ends.closeLanes(ep, false)
		return nil, fmt.Errorf("ucp: too many endpoints: %w", ucs.ErrExceedsLimit)
	}
	ep.localID = proto.EndpointID(id)
	for _, f := range w.families {
		f.opened(ep)
	}
	ep.allowShort()
	return ep, nil
}

// connect chooses the lanes toward an address and creates them, with the numbers and purposes that
// the selection gives them. If a lane cannot be created, the lanes are chosen again without it.
func (ws *wireupState) connect(ep *Endpoint, addr *proto.WorkerAddress) error {
	return ws.connectBy(ep, addr, laneRules{})
}

// connectBy does the same as connect, with rules for the choice of lanes.
func (ws *wireupState) connectBy(ep *Endpoint, addr *proto.WorkerAddress, rules laneRules) error {
	w := ep.w
	for {
		rules.refused = ep.refused()
		chosen, why, err := w.selection.chooseLanes(addr, ep.errMode, rules)
		if err != nil {
			for _, s := range w.unopened {
				err = fmt.Errorf("%w; not opened: %s", err, s)
			}
			return err
		}
		if chosen.AM == proto.NullLane {
			return fmt.Errorf("ucp: no lane for messages: %w", ucs.ErrUnreachable)
		}
		if rules.ends != nil {
			chosen = w.handshakes.withKept(chosen, addr, ep.errMode, &rules)
		}
		if route, err := ws.openLanes(ep, addr, &chosen, &rules); err != nil {
			ws.excludeDomain(ep, route, err)
			continue
		}
		plan := lanePlan{chosen: &chosen, maps: ep.w.selection.mappings(ep, addr)}
		ep.cfg = w.selection.configFor(&plan)
		ep.ue = ep.lanes[ep.amLane()].uct
		ep.dest = w.peers.destinationOf(addr, chosen.Lanes, why)
		if err := ws.pairLanes(ep, addr, &chosen, &rules); err != nil {
			ws.closeMade(ep, &rules)
			return err
		}
		return nil
	}
}

// excludeDomain records that a chosen lane cannot be created. The caller then chooses the lanes
// again without it. That may change the lane numbers of this side. The peer does not depend on
// them, because the numbers of pairwise lanes are sent to it. If the peer requests a lane that
// cannot be created here, the lane is missing from the reply.
func (ws *wireupState) excludeDomain(ep *Endpoint, route laneRoute, err error) {
	n := ep.ensureExtra()
	if n.refused == nil {
		n.refused = make(map[laneRoute]error)
	}
	n.refused[route] = err
}

// openLanes creates the lanes. If one cannot be created, openLanes closes the lanes created before
// it and returns the route of the failed lane and the error.
func (ws *wireupState) openLanes(ep *Endpoint, addr *proto.WorkerAddress, chosen *proto.LaneConfig, rules *laneRules) (laneRoute, error) {
	w := ep.w
	ep.lanes = make([]lane, 0, len(chosen.Lanes))
	ep.process = 0
	for k := range chosen.Lanes {
		l := &chosen.Lanes[k]
		p := uct.EndpointParams{
			Over:      rules.reverse.source(),
			PathIndex: l.Path,
			ForPeer:   !ep.life.EverHeld(),
			Origin:    rules.origin,
			LocalAddr: rules.local,
			UserData:  ep,
		}
		if chosen.Paired&(1<<k) == 0 {
			dev, f := addr.Entry(l.Remote)
			p.DeviceAddr, p.IfaceAddr = dev.Addr, f.Addr
		}
		i := w.ifaces[l.Local]
		n, reused := rules.reuse(i, addr, l, ep.lanes)
		var err error
		if !reused {
			n.iface = i
			if n.uct, err = i.uct.NewEndpoint(p); err == nil {
				n.remote = remoteOf(n.uct)
			}
		}
		if p, ok := n.uct.(uct.ProcessEndpoint); ok && err == nil {
			if err = ep.w.selection.bindProcess(ep, p.Process()); err != nil && !reused {
				n.uct.Close()
			}
		}
		if err != nil {
			ws.closeMade(ep, rules)
			return laneRoute{l.Local, l.Remote}, err
		}
		ep.lanes = append(ep.lanes, n)
	}
	return laneRoute{}, nil
}

// closeMade closes the lanes that the current choice has created, but not those that existed
// before.
func (ws *wireupState) closeMade(ep *Endpoint, rules *laneRules) {
	ep.lanes = slices.DeleteFunc(ep.lanes, rules.existed)
	ep.w.ends.closeLanes(ep, false)
}

// pairLanes initializes the state of the pairwise lanes of a choice, after its lanes toward an
// address were created. It makes an auxiliary lane if no other lane can carry the wireup messages.
func (ws *wireupState) pairLanes(ep *Endpoint, addr *proto.WorkerAddress, chosen *proto.LaneConfig, rules *laneRules) error {
	if chosen.Paired == 0 && !rules.cm {
		return nil
	}
	if ep.pair == nil {
		ep.pair = new(pairing)
	}
	p := ep.pair
	var kept uint64
	entries := make([]uint8, len(chosen.Lanes))
	for k := range chosen.Lanes {
		entries[k] = uint8(chosen.Lanes[k].Remote)
		if rules.existed(ep.lanes[k]) {
			kept |= 1 << k
		}
	}
	p.Choose(chosen.Paired, kept, entries)
	ep.needs |= needLanes
	if k := ep.cfg.lanes.Wireup; rules.cm || !p.Has(k) {
		return nil // the lane for wireup is not pairwise, or older lanes carry the messages
	}
	return ws.openAux(ep, addr, rules)
}

// openAux makes the auxiliary lane, which carries wireup messages until the pairwise lanes are
// connected.
func (ws *wireupState) openAux(ep *Endpoint, addr *proto.WorkerAddress, rules *laneRules) error {
	w := ep.w
	answer := laneRules{refused: rules.refused, answer: true}
	for {
		chosen, _, err := w.selection.selectLanes(addr, ep.errMode, answer)
		if err != nil {
			return err
		}
		l := &chosen.Lanes[0]
		dev, f := addr.Entry(l.Remote)
		i := w.ifaces[l.Local]
		if n, ok := rules.reuse(i, addr, l, ep.lanes); ok {
			n.remote = refuse{}
			ep.pair.aux, ep.pair.auxEntry = n, l.Remote
			return nil
		}
		ue, err := i.uct.NewEndpoint(uct.EndpointParams{
			DeviceAddr: dev.Addr,
			IfaceAddr:  f.Addr,
			ForPeer:    !ep.life.EverHeld(),
			Origin:     rules.origin,
			UserData:   ep,
		})
		if err == nil {
			ep.pair.aux, ep.pair.auxEntry = lane{iface: i, uct: ue, remote: refuse{}}, l.Remote
			return nil
		}
		ws.excludeDomain(ep, laneRoute{l.Local, l.Remote}, err)
		answer.refused = ep.refused()
	}
}

// claim gives an endpoint that a peer has opened to the application, and notifies its transports
// and all families.
func (ws *wireupState) claim(ep *Endpoint) {
	ep.report(life.Claim, nil)
	for i := range ep.lanes {
		if c, ok := ep.lanes[i].uct.(uct.NetworkEndpoint); ok {
			c.Claim()
		}
	}
	for _, f := range ep.w.families {
		f.claimed(ep)
	}
}

// reselectLanes replaces the lanes of an endpoint that the peer has opened by lanes chosen toward
// the peer's whole address, because the address in a request names only the resources that are
// needed, and not all of them are trusted. Both ids of the endpoint stay the same. The lanes are
// not replaced while anything is in flight, or if they are connected pairwise, because the two
// sides have agreed on such lanes.
func (ws *wireupState) reselectLanes(ep *Endpoint, addr *proto.WorkerAddress) {
	if ep.pair != nil || slices.Equal(identity.EntriesOf(addr), identity.EntriesOf(ep.dest.address)) || !ep.idle() {
		return
	}
	lanes, ue, cfg, where, refused, process := ep.lanes, ep.ue, ep.cfg, ep.dest, ep.refused(), ep.process
	ep.setRefused(nil)
	ep.process = 0
	if err := ws.connect(ep, addr); err != nil {
		ep.w.ctx.log.Debug("cannot make lanes to the peer's address: the endpoint keeps those of the peer's request", zap.String("worker", ep.w.name), zap.Error(err))
		ep.lanes, ep.ue, ep.cfg, ep.dest, ep.process = lanes, ue, cfg, where, process
		ep.setRefused(refused)
		return
	}
	ep.state &^= epNoRemoteWrite // memory is now registered for all entries of the peer's address
	for i := range lanes {
		lanes[i].uct.Close()
	}
	ep.allowShort()
}

// idle reports whether the endpoint has nothing queued or in flight.
func (ep *Endpoint) idle() bool {
	const busy = epDraining | epChecking
	if ep.usable() != nil || ep.state&busy != 0 || ep.handshake.Unanswered() || !ep.waiting.Empty() || !ep.outstanding.Empty() || ep.rma != nil || ep.pieces().busy() ||
		!ep.w.copying.Empty() || !ep.w.dispatched.Empty() || ep.w.dispatching != nil {
		return false
	}
	for i := range ep.lanes {
		if ep.lanes[i].uct.Flush(uct.FlushLocal, nil) != nil {
			return false
		}
	}
	return true
}
