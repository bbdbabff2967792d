package connect

import (
	"iter"

	"github.com/ucx-go/ucx/proto"
)

// Devices is what a side of a connection by socket address contributes to the decision about
// devices.
type Devices struct {
	All        bool // UCX_CM_USE_ALL_DEVICES of this side
	Release113 bool // UCX_PEER_RELEASE says that peers are of release 1.13
}

// Accept decides for a server, from the client's data d. Both says that the data can be read with
// and without resource indices (PackedBoth). The result all reports that PRE_REQUEST follows the
// notification. The result index reports that the server's data must have resource indices, which
// tell the client that PRE_REQUEST follows.
func (s Devices) Accept(d *proto.CMData, both bool) (all, index bool) {
	if both {
		return true, true
	}
	all, known := d.AllDevices()
	switch {
	case known:
		return all, d.RscIndex
	case d.Version == proto.CMDataV2 && !s.Release113:
		return false, d.RscIndex
	}
	return s.All, d.RscIndex
}

// Follow decides for a client, from the server's data d. It reports whether the client waits for
// PRE_REQUEST. A client with UCX_CM_USE_ALL_DEVICES=n never waits: its data had no resource
// indices, and a server that would send PRE_REQUEST replies without indices or rejects the client.
func (s Devices) Follow(d *proto.CMData) (all bool) {
	all, known := d.AllDevices()
	return s.All && (all || !known)
}

// PackedBoth reports whether a client has packed its data so that the data can be read both with
// and without resource indices. The parameter interfaces yields the transport of each interface of
// this side, and the length in bytes of its address.
func PackedBoth(d *proto.CMData, interfaces iter.Seq2[proto.TransportID, int]) (both bool) {
	if d.RscIndex {
		return false
	}
	d.Address.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
		for transport, length := range interfaces {
			both = both || transport == f.Transport && f.PackedBoth(length)
		}
		return !both
	})
	return both
}
