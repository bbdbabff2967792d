package ucp

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// dial makes an endpoint that connects to where a server listens.
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

// tryManager connects by the next manager that there is; the error is why not, that of
// the one before if there was one.
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

// packClient makes the lanes of the device that leads to the server, and packs them. The
// server is taken to have the same transports.
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

// onConnected is told what the server has said, or why it will not.
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

// joinServer connects the lanes with the ends that the server has made.
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

// replaceLanes chooses the lanes toward an address, where it is that of a request for the ends in
// it. Those that lead there already are kept. If that for messages is none of them it carries
// the wireup messages until the peer is done with them, too.
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

// onPreRequest is told by a server what it has, and asks for lanes to that.
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

// onConnRequest is asked by a client for lanes.
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

// callingEndpoint returns the endpoint that a wireup message of its peer is for, nil if it is for
// none that waits for it.
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

// UCX_CM_USE_ALL_DEVICES of the two ends of a connection by socket address. With y the server
// sends PRE_REQUEST behind the notification, and the client waits for it; with n neither happens.
// C UCX does what its own setting says: a client with y waits for ever for a server with n, and
// one with n aborts when a server with y sends PRE_REQUEST (ucp_wireup_process_pre_request in
// src/ucp/wireup/wireup.c). Here each end does what the other one expects, where the data that
// they exchange shows what that is:
//
//	data                                        sender                  setting
//	resource indices                            1.14 and later          y
//	packed for both readings                    this library            y
//	none, and no capabilities of domains        1.19 and later, or this n
//	none, layout v2 of a client                 1.16 and later          n
//	none, else                                  1.13 with either, or 1.14 and 1.15 with n
//
// Of the last row the end's own setting decides, and so it does for a client in layout v2 where
// UCX_PEER_RELEASE says that peers are of 1.13, whose default that is not.

// agreeDevices decides for a server whether the client is to be sent PRE_REQUEST. A client that
// packed for both readings is answered with indices then, which tell it the same.
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

// packedBoth reports whether a client's data were packed to be read with and without resource
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

// offered reports whether PRE_REQUEST names an interface: all of them, unless this end is to use
// one device, which is that of the connection.
func (ep *Endpoint) offered(i *iface) bool {
	return ep.w.ctx.settings.CMUseAllDevices || i.attr.Resource.Device == ep.pair.conn.device
}

// followDevices decides for a client whether to wait for PRE_REQUEST, by the server's answer. To a
// client with n, whose data had no indices, a server that sends it answers without them, or
// rejects.
func (cs *connState) followDevices(d *proto.CMData) bool {
	w := cs.w
	all, known := d.AllDevices()
	return w.ctx.settings.CMUseAllDevices && (all || !known)
}

// refuseDevices handles PRE_REQUEST for an endpoint that does not wait for it. If that is because
// it is to use one device, the server waits for an answer that never comes, and the endpoint fails.
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
