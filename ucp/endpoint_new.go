package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// NewEndpoint creates an endpoint. It returns before the connection is established:
// operations may be started at once and are sent in order when it is. If no transport
// reaches the peer it fails with ucs.ErrUnreachable and the reason for each transport.
// During Worker.Shutdown it fails with ucs.ErrBusy.
func (w *Worker) NewEndpoint(p EndpointParams) (*Endpoint, error) {
	if w.missing() {
		return nil, errMissing("Worker.NewEndpoint", w == nil)
	}
	w.enter()
	ep, err := w.makeEndpoint(&p)
	w.exit()
	return ep, err
}

func (w *Worker) makeEndpoint(p *EndpointParams) (*Endpoint, error) {
	if err := w.checkEndpoint(p); err != nil {
		if p.ConnRequest != nil {
			p.ConnRequest.Reject()
		}
		return nil, err
	}
	if p.OnError != nil && p.ErrMode == ErrModeNone && p.ConnRequest == nil { // there the mode is the client's
		w.handlerNeverCalled()
	}
	switch {
	case p.ConnRequest != nil:
		return w.answerCall(p)
	case p.RemoteAddr.IsValid():
		return w.dial(p)
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
		pr = w.peerOf(&addr)
		sn = pr.takeSN()
		ep = pr.adopt(sn, &addr)
	}
	switch {
	case ep != nil:
		ep.claim()
		ep.widen(pr.address)
	case loopback:
		if ep, err = w.newEndpoint(w.loop.keepAddress(&addr), p.ErrMode, life.Open); err != nil {
			return nil, err
		}
	default:
		if ep, err = w.newEndpoint(pr.address, p.ErrMode, life.Open); err != nil {
			pr.returnSN(sn)
			w.releasePeer(pr)
			return nil, err
		}
		ep.belongsTo(pr)
		ep.connSN = sn
	}
	if pr != nil {
		pr.given = true
	}
	w.untied++
	ep.onError, ep.userData = p.OnError, p.UserData
	ep.setName(p.Name)
	if loopback {
		ep.connected(ep.localID)
		if err = ep.joinSelf(); err != nil {
			ep.destroy(err)
			return nil, err
		}
	} else if ep.remoteID == 0 {
		pr.expect(ep)
		if err = ep.askForPairs(); err == nil && ep.state&epRequested == 0 && w.asksEarly(p.ErrMode) {
			err = ep.requestWireup()
		}
		if err != nil {
			ep.destroy(err)
			return nil, err
		}
	} else if ep.errMode != p.ErrMode {
		err := fmt.Errorf("ucp: the peer's endpoint has error mode %d, this one %d: %w", ep.errMode, p.ErrMode, ucs.ErrUnsupported)
		ep.destroy(err)
		return nil, err
	}
	return ep, nil
}

// asksEarly reports whether an endpoint asks for the peer's end when it is made
// (UCX_RESOLVE_REMOTE_EP_ID).
func (w *Worker) asksEarly(mode ErrMode) bool {
	switch w.ctx.settings.ResolveID {
	case config.On:
		return true
	case config.OnOffAutomatic:
		return mode != ErrModeNone && w.ctx.settings.keepsAlive()
	}
	return false
}

// checkEndpoint refuses parameters that contradict each other.
func (w *Worker) checkEndpoint(p *EndpointParams) error {
	if err := w.wrongEndpoint(p); err != nil {
		return err
	}
	if w.leaving > 0 {
		return fmt.Errorf("ucp: worker %s is being shut down: %w", w.name, ucs.ErrBusy)
	}
	return nil
}

// newEndpoint makes an endpoint toward an address, which it keeps, known to nobody
// yet: stage is life.Open for the application's, life.Serving for one made for a peer.
func (w *Worker) newEndpoint(addr *proto.WorkerAddress, mode ErrMode, stage life.Stage) (*Endpoint, error) {
	return w.newEndpointBy(addr, mode, stage, laneRules{})
}

// newEndpointBy is newEndpoint by rules for its lanes.
func (w *Worker) newEndpointBy(addr *proto.WorkerAddress, mode ErrMode, stage life.Stage, rules laneRules) (*Endpoint, error) {
	ep := &Endpoint{w: w, errMode: mode, life: life.End{Stage: stage}, short: -1, shortAM: -1, lacks: needID}
	w.opening = addr.UUID
	err := ep.connectBy(addr, rules)
	w.opening = 0
	if err != nil {
		return nil, err
	}
	id := w.endpoints.Put(ep)
	if id == 0 {
		ep.closeLanes(false)
		return nil, fmt.Errorf("ucp: too many endpoints: %w", ucs.ErrExceedsLimit)
	}
	ep.localID = proto.EndpointID(id)
	for _, f := range w.families {
		f.opened(ep)
	}
	ep.open()
	return ep, nil
}
