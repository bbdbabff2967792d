package ucp

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// dial makes an endpoint that connects to the socket address of a server.
func (cs *connState) dial(p *EndpointParams) (*Endpoint, error) {
	w := cs.w
	if !p.RemoteAddr.IsValid() || p.RemoteAddr.Port() == 0 {
		return nil, fmt.Errorf("ucp: endpoint to address %v: %w", p.RemoteAddr, ucs.ErrInvalidParam)
	}
	c := &connection{client: true, remote: p.RemoteAddr, local: p.LocalAddr, id: p.ClientID, manager: -1}
	if c.sendID = p.Flags&EndpointSendClientID != 0 || c.id != 0; c.id == 0 {
		c.id = w.params.ClientID
	}
	ep, err := cs.newConnEndpoint(p, c)
	if err != nil {
		return nil, err
	}
	if err := cs.tryManager(ep, nil); err != nil {
		ep.w.ends.destroy(ep, err)
		return nil, err
	}
	return ep, nil
}

// tryManager starts connecting by the next usable connection manager. If none is left, it returns
// before, which is the error of the manager tried last. If before is nil, it returns the first
// manager's error, or says that there is no manager.
func (cs *connState) tryManager(ep *Endpoint, before error) error {
	c := ep.pair.conn
	list := ep.w.conns.connManagers()
	err := before
	for c.manager++; c.manager < len(list); c.manager++ {
		m := list[c.manager].uct
		if m == nil {
			continue
		}
		var failed error
		c.uct, failed = m.Connect(uct.ConnectParams{
			Remote:         c.remote,
			Local:          c.local,
			Pack:           ep.packClient,
			OnConnected:    ep.onConnected,
			OnDisconnected: ep.onDisconnected,
		})
		if failed == nil {
			return nil
		}
		c.uct = nil
		if err == nil {
			err = failed
		}
	}
	if err == nil {
		err = errNoManager(list)
	}
	return err
}

// packClient makes the lanes of the device that leads to the server, and packs the client's data
// into dst. It assumes that the server has the same transports as this worker.
func (ep *Endpoint) packClient(a uct.PackArgs, dst []byte) (int, error) {
	w := ep.w
	mirror := w.own.describe(func(i *iface) bool { return i.attr.Resource.Device == a.Device })
	if len(mirror.Devices) == 0 {
		return 0, fmt.Errorf("ucp: device %s leads to %v, but no transport in use is on it: %w", a.Device, ep.pair.conn.remote, ucs.ErrUnreachable)
	}
	rules := laneRules{cm: true, local: a.LocalAddr.Addr(), device: a.Device, origin: uct.OriginManager}
	for {
		ep.w.ends.closeLanes(ep, false)
		ep.setRefused(nil)
		if err := ep.w.wireups.connectBy(ep, &mirror, rules); err != nil {
			return 0, err
		}
		packed, err := ep.w.conns.packConn(ep, nil, ep.pair.number)
		switch {
		case err != nil:
			return 0, err
		case len(packed) <= len(dst):
			return copy(dst, packed), nil
		case rules.messages:
			return 0, fmt.Errorf("ucp: connection data of %d bytes, the limit is %d: %w", len(packed), len(dst), ucs.ErrBufferTooSmall)
		}
		rules.messages = true
	}
}

// onConnected handles the server's data, or the error if the connection could not be made. Unless
// the server has rejected the client, an error makes the client try the next connection manager.
func (ep *Endpoint) onConnected(u uct.ConnEndpoint, a uct.ConnectedArgs) {
	c := ep.conn()
	if c == nil || ep.gone() != nil {
		return
	}
	err := a.Err
	if err == nil {
		if err = ep.w.conns.joinServer(ep, &a); err != nil {
			err = fmt.Errorf("connecting to %v: %w", c.remote, err)
		}
	} else if u.Close(); !errors.Is(err, ucs.ErrRejected) {
		ep.w.ends.closeLanes(ep, false)
		if err = ep.w.conns.tryManager(ep, err); err == nil {
			return
		}
	}
	if err != nil {
		ep.fail(err)
	}
}

// joinServer connects the lanes with the ends that the server has made, and notifies the server.
func (cs *connState) joinServer(ep *Endpoint, a *uct.ConnectedArgs) error {
	c := ep.pair.conn
	d, err := parseConn(a.Private, a.RemoteDeviceAddr)
	if err != nil {
		return err
	}
	if ErrMode(d.ErrMode) != ep.errMode && d.ErrMode <= proto.ErrModePeer {
		return fmt.Errorf("the server's endpoint has error mode %d, this one %d: %w", d.ErrMode, ep.errMode, ucs.ErrUnsupported)
	}
	if err := ep.w.wireups.join(ep, &d.Address, ep.pair.number, nil); err != nil {
		return err
	}
	if err := c.uct.Notify(); err != nil {
		return err
	}
	c.serverID = d.Address.ClientID
	ep.w.wireups.connected(ep, d.EpID)
	c.stage = connShared
	if c.all = ep.w.conns.followDevices(&d); !c.all {
		ep.w.wireups.paired(ep)
	}
	return nil
}

// replaceLanes chooses the lanes toward addr anew. If addr is the address of a request, ends is
// that address with its ends, and pairwise lanes are chosen for these; otherwise ends is nil. Lanes
// that already lead there are kept. If the lane for messages is not kept, it becomes the auxiliary
// lane, which carries the wireup messages until the peer needs them there no more.
func (cs *connState) replaceLanes(ep *Endpoint, addr, ends *proto.WorkerAddress, origin uct.Origin) error {
	old, am := ep.lanes, ep.amLane()
	rules := laneRules{cm: true, spare: old, ends: ends, mutual: ends == nil, origin: origin}
	ep.setRefused(nil)
	if err := ep.w.wireups.connectBy(ep, addr, rules); err != nil {
		ep.lanes = old
		return err
	}
	for k := range old {
		switch kept := (&laneRules{spare: ep.lanes}).isSpare(old[k]); {
		case kept:
		case uint8(k) == am:
			ep.pair.aux = old[k]
		default:
			old[k].uct.Close()
		}
	}
	return nil
}

// onPreRequest handles PRE_REQUEST, in which a server names all of its resources. The client
// chooses lanes toward them and sends the request for these lanes.
func (cs *connState) onPreRequest(src *uct.Source, m *proto.Wireup, message []byte) {
	w := cs.w
	ep := cs.callingEndpoint(src, m, true, connShared)
	if ep == nil {
		cs.refuseDevices(src, m)
		return
	}
	from := w.accounts.sourceOf(src)
	w.admission.validateAddress(from, &m.Address)
	if w.admission.deferRequest(from, &m.Address, message, false) {
		return
	}
	if err := cs.replaceLanes(ep, m.Address.Clone(), nil, from.origin()); err != nil {
		ep.fail(err)
		return
	}
	ep.pair.conn.stage = connAgreeing
	if err := ep.w.wireups.requestWireup(ep); err != nil {
		ep.fail(err)
	}
}

// onConnRequest handles a client's request for lanes.
func (cs *connState) onConnRequest(src *uct.Source, m *proto.Wireup, message []byte) {
	w := cs.w
	ep := cs.callingEndpoint(src, m, false, connShared)
	if ep == nil {
		return
	}
	from := w.accounts.sourceOf(src)
	w.admission.validateAddressOf(from, &m.Address, true)
	if w.admission.deferRequest(from, &m.Address, message, false) {
		return
	}
	ep.pair.conn.stage = connAgreeing
	err := cs.replaceLanes(ep, m.Address.Clone(), &m.Address, from.origin())
	if err == nil {
		err = ep.w.wireups.answerPairs(ep, m)
	}
	if err != nil {
		ep.fail(err)
	}
}

// callingEndpoint returns the endpoint that a wireup message of its peer is for. It returns nil
// unless such an endpoint waits for the message, as client and stage say.
func (cs *connState) callingEndpoint(src *uct.Source, m *proto.Wireup, client bool, stage connStage) *Endpoint {
	w := cs.w
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || ep.conn() == nil || ep.gone() != nil {
		w.stats.Dropped++
		return nil
	}
	c := ep.conn()
	if c.client != client || c.stage != stage || m.SrcEp != ep.remoteID || m.Address.UUID == 0 {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, ep) {
		return nil
	}
	known := ep.peer.identity
	if known.uuid != 0 && known.uuid != m.Address.UUID {
		w.refused(w.accounts.sourceOf(src), ledger.Claim)
		return nil
	}
	known.uuid = m.Address.UUID
	return ep
}

// UCX_CM_USE_ALL_DEVICES at the two ends of a connection by socket address. With y the server sends
// PRE_REQUEST after the notification, and the client waits for it. With n neither happens. An end
// of C UCX follows its own setting: a client with y waits forever for a server with n, and a client
// with n aborts when a server with y sends PRE_REQUEST (ucp_wireup_process_pre_request in
// src/ucp/wireup/wireup.c). An end of this library does what the other end expects, if the
// exchanged data shows what that is:
//
//	data                                        sender                  setting
//	resource indices                            1.14 and later          y
//	packed for both readings                    this library            y
//	none, and no capabilities of domains        1.19 and later, or this n
//	none, layout v2 of a client                 1.16 and later          n
//	none, else                                  1.13 with either, or 1.14 and 1.15 with n
//
// For data of the last row the end's own setting decides. The own setting also decides for a client
// in layout v2 if UCX_PEER_RELEASE says that peers are of release 1.13, where v2 is not the
// default.

// agreeDevices decides for a server whether to send PRE_REQUEST to the client. If the client packed
// its data for both readings, the reply has resource indices, which tell the client the same.
func (cs *connState) agreeDevices(d *proto.CMData) (all bool) {
	w := cs.w
	all, known := d.AllDevices()
	switch {
	case cs.packedBoth(d):
		d.RscIndex = true
		return true
	case known:
		return all
	case d.Version == proto.CMDataV2 && w.ctx.peerRelease() != PeerRelease113:
		return false
	}
	return w.ctx.settings.CMUseAllDevices
}

// packedBoth reports whether a client packed its data to be read both with and without resource
// indices.
func (cs *connState) packedBoth(d *proto.CMData) (both bool) {
	w := cs.w
	if d.RscIndex {
		return false
	}
	d.Address.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
		for _, i := range w.ifaces {
			both = both || i.id == f.Transport && f.PackedBoth(len(i.published))
		}
		return !both
	})
	return both
}

// offered reports whether PRE_REQUEST names an interface. It names all interfaces, unless this end
// is set to use one device: then it names those of the connection's device.
func (ep *Endpoint) offered(i *iface) bool {
	return ep.w.ctx.settings.CMUseAllDevices || i.attr.Resource.Device == ep.pair.conn.device
}

// followDevices decides for a client whether to wait for PRE_REQUEST, from the server's reply. If
// the client has n, its data had no indices, and a server that sends PRE_REQUEST replies without
// indices or rejects the client.
func (cs *connState) followDevices(d *proto.CMData) bool {
	w := cs.w
	all, known := d.AllDevices()
	return w.ctx.settings.CMUseAllDevices && (all || !known)
}

// refuseDevices handles a PRE_REQUEST for an endpoint that does not wait for it. If the reason is
// that the endpoint uses one device, the server would wait for a reply that never comes, so the
// endpoint fails.
func (cs *connState) refuseDevices(src *uct.Source, m *proto.Wireup) {
	w := cs.w
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || ep.gone() != nil || ep.conn() == nil || m.SrcEp != ep.remoteID || w.admission.spoofed(src, ep) {
		return
	}
	if c := ep.conn(); c.client && !c.all && c.stage == connOpen {
		ep.fail(fmt.Errorf("the server uses all devices and this end one: UCX_CM_USE_ALL_DEVICES must be the same at both ends: %w", ucs.ErrUnsupported))
	}
}
