package identity

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/ucx-go/ucx/proto"
)

// EntryID identifies an entry of an address: a transport, a device, and an interface of the
// device. It does not cover attributes, which peers may round. It is a hash for which peers cannot
// choose collisions.
type EntryID uint64

// maxEntries bounds the entries that are remembered of a peer. An address has at most as many
// entries as C UCX has resources.
const maxEntries = 128

// entrySeed is the seed of all EntryIDs. It is shared by all workers, because memory rights go
// beyond a worker.
var entrySeed = maphash.MakeSeed()

// EntryOf returns the EntryID of an entry, from the addresses of its device and its interface.
func EntryOf(t proto.TransportID, dev, iface []byte) EntryID {
	var h maphash.Hash
	h.SetSeed(entrySeed)
	var head [6]byte
	binary.LittleEndian.PutUint16(head[:], uint16(t))
	binary.LittleEndian.PutUint32(head[2:], uint32(len(dev)))
	h.Write(head[:])
	h.Write(dev)
	h.Write(iface)
	return EntryID(h.Sum64())
}

// EntriesOf returns the first entries of an address, at most 128.
func EntriesOf(addr *proto.WorkerAddress) []EntryID {
	list := make([]EntryID, 0, min(addr.NumIfaces(), maxEntries))
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		list = append(list, EntryOf(f.Transport, d.Addr, f.Addr))
		return len(list) < maxEntries
	})
	return list
}

// Contains reports whether all has every entry of part.
func Contains(all, part []EntryID) bool {
	return !slices.ContainsFunc(part, func(e EntryID) bool { return !slices.Contains(all, e) })
}

// shares reports whether two lists have an entry in common.
func shares(a, b []EntryID) bool {
	return slices.ContainsFunc(a, func(e EntryID) bool { return slices.Contains(b, e) })
}
