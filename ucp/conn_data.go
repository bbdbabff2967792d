package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// packConn writes what an endpoint says about itself and its lanes over a connection
// manager. like is what the other side has said, nil for the client, which speaks first.
func (ep *Endpoint) packConn(like *proto.CMData, number func(lane int) uint8) ([]byte, error) {
	w := ep.w
	addr, err := ep.laneAddress(allLanes, number)
	if err != nil {
		return nil, err
	}
	addr.Version = proto.AddressV1 // of which there is a form that all releases read
	addr.Flags, addr.UUID, addr.Name = 0, 0, ""
	for k := range addr.Devices {
		addr.Devices[k].Addr = nil // the manager tells it
	}
	d := proto.CMData{
		Version: proto.CMVersion(w.ctx.settings.SADataVersion),
		EpID:    ep.localID,
		ErrMode: proto.ErrMode(ep.errMode),
		Both:    w.ctx.settings.CMUseAllDevices,
	}
	if like != nil {
		d.Version, d.RscIndex, d.Both = like.Version, like.RscIndex, false
	}
	if c := ep.pair.conn; c.sendID {
		addr.Flags |= proto.AddressHasClientID
		addr.ClientID = c.id
	}
	d.Address = addr
	return d.Append(nil)
}

// parseConn reads what the other side has said. device is its address as the manager
// knows it.
func parseConn(private, device []byte) (proto.CMData, error) {
	d, err := proto.ParseCMData(private)
	if err != nil {
		return d, err
	}
	if d.EpID == 0 {
		return d, fmt.Errorf("ucp: the connection's data names no endpoint: %w", ucs.ErrInvalidAddr)
	}
	if d.Address.NumIfaces() == 0 {
		return d, fmt.Errorf("ucp: the connection's data names no transport: %w", ucs.ErrUnreachable)
	}
	d.Address = *d.Address.Clone()
	for k := range d.Address.Devices {
		d.Address.Devices[k].Addr = device
	}
	return d, nil
}
