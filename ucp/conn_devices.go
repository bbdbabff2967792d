package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

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
func (w *Worker) agreeDevices(d *proto.CMData) (all bool) {
	all, known := d.AllDevices()
	switch {
	case w.packedBoth(d):
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
func (w *Worker) packedBoth(d *proto.CMData) (both bool) {
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
func (w *Worker) followDevices(d *proto.CMData) bool {
	all, known := d.AllDevices()
	return w.ctx.settings.CMUseAllDevices && (all || !known)
}

// refuseDevices handles PRE_REQUEST for an endpoint that does not wait for it. If that is because
// it is to use one device, the server waits for an answer that never comes, and the endpoint fails.
func (w *Worker) refuseDevices(src *uct.Source, m *proto.Wireup) {
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || ep.gone() != nil || ep.conn() == nil || m.SrcEp != ep.remoteID || w.foreign(src, ep) {
		return
	}
	if c := ep.conn(); c.client && !c.all && c.stage == connOpen {
		ep.fail(fmt.Errorf("the server uses all devices and this end one: UCX_CM_USE_ALL_DEVICES must be the same at both ends: %w", ucs.ErrUnsupported))
	}
}
