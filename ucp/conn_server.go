package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// answerCall makes the endpoint that accepts a request for a connection. The request is
// consumed, whatever comes of it.
func (w *Worker) answerCall(p *EndpointParams) (*Endpoint, error) {
	req := p.ConnRequest
	if !req.take() {
		return nil, fmt.Errorf("ucp: the connection request was accepted or rejected before: %w", ucs.ErrInvalidParam)
	}
	if req.ctx != w.ctx {
		req.uct.Reject()
		return nil, fmt.Errorf("ucp: the connection request belongs to another context: %w", ucs.ErrInvalidParam)
	}
	if p.ErrMode == ErrModeNone { // not set, as in C without the bit of the field
		p.ErrMode = req.ErrMode()
	}
	c := &connection{id: p.ClientID, sendID: p.ClientID != 0}
	ep, err := w.newConnEndpoint(p, c)
	if err == nil {
		ep.life.Patient = true
		if err = ep.acceptCall(req); err == nil {
			return ep, nil
		}
		ep.destroy(err)
	}
	req.uct.Reject() // unless it is consumed there
	return nil, err
}

func (ep *Endpoint) acceptCall(req *ConnRequest) error {
	c := ep.pair.conn
	d := &req.data
	if ErrMode(d.ErrMode) != ep.errMode && d.ErrMode <= proto.ErrModePeer {
		return fmt.Errorf("ucp: the client's endpoint has error mode %d, this one %d: %w", d.ErrMode, ep.errMode, ucs.ErrUnsupported)
	}
	var m uct.ConnManager
	for k, l := range ep.w.connManagers() {
		if l.name == req.manager {
			m, c.manager = l.uct, k
		}
	}
	if m == nil {
		return errNoManager(ep.w.connManagers())
	}
	c.device = req.uct.Device
	rules := laneRules{cm: true, ends: &d.Address, local: req.uct.LocalAddr.Addr(), device: req.uct.Device, origin: uct.OriginManager, messages: d.Address.Flags&proto.AddressAMOnly != 0}
	if err := ep.connectBy(d.Address.WithoutEnds(), rules); err != nil {
		return err
	}
	numbers, err := ep.match(&d.Address)
	if err != nil {
		return err
	}
	theirs := func(lane int) uint8 { return numbers[lane] }
	if err := ep.join(&d.Address, theirs, nil); err != nil {
		return err
	}
	c.all = ep.w.agreeDevices(d)
	private, err := ep.packConn(d, theirs)
	if err != nil {
		return err
	}
	if c.uct, err = m.Accept(req.uct, uct.AcceptParams{
		Private:        private,
		OnNotify:       ep.onNotify,
		OnDisconnected: ep.onDisconnected,
	}); err != nil {
		c.uct = nil
		return err
	}
	ep.connected(d.EpID)
	return nil
}

// onNotify is told that the client has connected its lanes.
func (ep *Endpoint) onNotify(_ uct.ConnEndpoint, err error) {
	c := ep.conn()
	if c == nil || ep.gone() != nil {
		return
	}
	if err != nil {
		ep.fail(err)
		return
	}
	c.stage = connShared
	if !c.all {
		ep.paired()
		return
	}
	all := ep.w.describe(ep.offered)
	err = ep.addEnds(&all, allLanes, ep.pair.number) // the client keeps what leads there
	if err == nil {
		err = ep.sendWireup(proto.WireupPreRequest, ep.remoteID, all)
	}
	if err != nil {
		ep.fail(err)
	}
}
