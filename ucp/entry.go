package ucp

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// entryID stands for an entry of an address: a transport, a device and an interface
// there. Attributes, which peers may round, do not matter. It is a hash that peers
// cannot aim at.
type entryID uint64

// maxEntries bounds the entries that are remembered of a peer. Addresses have as
// many at most, as C UCX has resources.
const maxEntries = 128

// entrySeed is that of all entryIDs: memory rights go beyond a worker.
var entrySeed = maphash.MakeSeed()

// idOf returns the ID of an entry.
func idOf(t proto.TransportID, dev, iface []byte) entryID {
	var h maphash.Hash
	h.SetSeed(entrySeed)
	var head [6]byte
	binary.LittleEndian.PutUint16(head[:], uint16(t))
	binary.LittleEndian.PutUint32(head[2:], uint32(len(dev)))
	h.Write(head[:])
	h.Write(dev)
	h.Write(iface)
	return entryID(h.Sum64())
}

// entriesOf lists the entries of an address.
func entriesOf(addr *proto.WorkerAddress) []entryID {
	list := make([]entryID, 0, addr.NumIfaces())
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		list = append(list, idOf(f.Transport, d.Addr, f.Addr))
		return len(list) < maxEntries
	})
	return list
}

// shares reports whether two lists have an entry in common.
func shares(a, b []entryID) bool {
	return slices.ContainsFunc(a, func(e entryID) bool { return slices.Contains(b, e) })
}

// contains reports whether a list has all of another one.
func contains(all, part []entryID) bool {
	return !slices.ContainsFunc(part, func(e entryID) bool { return !slices.Contains(all, e) })
}

// whereabouts is where an endpoint leads.
type whereabouts struct {
	address *proto.WorkerAddress // that its lanes were chosen from
	why     uint64               // digest of the reasons for the choice
	lanes   []entryID            // to which entry of the address each leads
	scopes  []uct.Scope          // the peer, as the domains of Worker.scopers know it
	back    bool                 // nowhere but to who has asked (wayback.go)
}

// whereabouts describes the lanes that were chosen for an address. Endpoints that are
// made one after the other toward a peer share it.
func (w *Worker) whereabouts(addr *proto.WorkerAddress, lanes []proto.Lane, why uint64) *whereabouts {
	list := make([]entryID, len(lanes))
	for k := range lanes {
		dev, f := addr.Entry(lanes[k].Remote)
		list[k] = idOf(f.Transport, dev.Addr, f.Addr)
	}
	if last := w.lastWhere; last == nil || last.address != addr || last.why != why || !slices.Equal(last.lanes, list) {
		w.lastWhere = &whereabouts{address: addr, why: why, lanes: list, scopes: w.scopesOf(addr)}
	}
	return w.lastWhere
}

// leadsTo reports whether an address has all that the endpoint's lanes lead to.
func (ep *Endpoint) leadsTo(addr *proto.WorkerAddress) bool {
	return !ep.where.back && contains(entriesOf(addr), ep.where.lanes)
}
