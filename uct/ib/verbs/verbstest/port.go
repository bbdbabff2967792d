//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// port is a port of a device. Lock held.
type port struct {
	Port
	k      *Kernel
	num    uint8
	active bool
}

// up reports whether packets can leave the port and arrive.
func (p *port) up() bool { return p.active && !p.k.removed }

// mtu is what a packet holds, in bytes.
func (p *port) mtu() uint32 { return mtuBytes(p.MTU) }

// mtuBytes is a number of enum ib_mtu in bytes.
func mtuBytes(mtu uint8) uint32 { return 128 << mtu }

// port is the port of a number, nil if there is none.
func (k *Kernel) port(num uint64) *port {
	if num < 1 || num > uint64(len(k.ports)) {
		return nil
	}
	return k.ports[num-1]
}

// entry is an entry of the port's table.
func (p *port) entry(index uint32) (abi.GidEntry, bool) {
	if index >= uint32(len(p.GIDs)) || p.GIDs[index].ID == ([16]byte{}) {
		return abi.GidEntry{}, false
	}
	g := &p.GIDs[index]
	e := abi.GidEntry{Gid: g.ID, GidIndex: index, PortNum: uint32(p.num), NetdevIfindex: g.IfIndex}
	switch {
	case p.InfiniBand:
		e.GidType = abi.IB_UVERBS_GID_TYPE_IB
	case g.V1:
		e.GidType = abi.IB_UVERBS_GID_TYPE_ROCE_V1
	default:
		e.GidType = abi.IB_UVERBS_GID_TYPE_ROCE_V2
	}
	return e, true
}

// has reports whether packets to a GID, of a version of RoCE, are the port's.
func (p *port) has(gid [16]byte, v1 bool) bool {
	for i := range p.GIDs {
		if g := &p.GIDs[i]; g.ID == gid && (p.InfiniBand || g.V1 == v1) {
			return gid != [16]byte{}
		}
	}
	return false
}

// way is where packets go to: of an address handle, or of a connected queue pair.
// Lock held.
type way struct {
	from   *port
	sgid   uint8
	dgid   [16]byte
	global bool
	dlid   uint16
	sl     uint8
	hops   uint8

	to  *port  // that it was found to lead to, nil for none
	era uint64 // when
}

// newWay checks an address as the kernel does.
func (k *Kernel) newWay(a *abi.QpDest) (way, bool) {
	from := k.port(uint64(a.PortNum))
	if from == nil || a.IsGlobal != 1 && !from.InfiniBand {
		return way{}, false
	}
	if _, ok := from.entry(uint32(a.SgidIndex)); a.IsGlobal == 1 && !ok {
		return way{}, false
	}
	return way{from: from, sgid: a.SgidIndex, dgid: a.Dgid, global: a.IsGlobal == 1, dlid: a.Dlid, sl: a.Sl, hops: a.HopLimit}, true
}

// source is the GID that packets come from.
func (w *way) source() *GID { return &w.from.GIDs[w.sgid] }

// end is the port that packets get to, nil while they get nowhere. It is looked for
// when something has changed since it was found.
func (w *way) end() *port {
	if n := w.from.k.net; w.era != n.era {
		w.to, w.era = n.find(w), n.era
	}
	return w.to
}

// find looks for the port at the end of a way, first on the device itself: addresses
// of loopback and of links are no other's.
func (n *Fabric) find(w *way) *port {
	if !w.from.up() || w.global && w.source().ID == ([16]byte{}) {
		return nil
	}
	for _, p := range w.from.k.ports {
		if p.ends(w) {
			return p
		}
	}
	for _, k := range n.kernels {
		for _, p := range k.ports {
			if p.ends(w) {
				return p
			}
		}
	}
	return nil
}

// ends reports whether a way leads to the port. In a subnet of InfiniBand it is the
// LID that counts, and between subnets the GID, as if there were a router.
func (p *port) ends(w *way) bool {
	if !p.up() || p.InfiniBand != w.from.InfiniBand {
		return false
	}
	if !p.InfiniBand {
		return p.has(w.dgid, w.source().V1)
	}
	if w.global && [8]byte(w.dgid[:]) != [8]byte(w.source().ID[:]) {
		return p.has(w.dgid, false)
	}
	return w.dlid>>p.LMC == p.LID>>p.LMC && (!w.global || p.has(w.dgid, false))
}

// pkey is the P_Key of the queue pair's packets.
func (q *qp) pkey() uint16 {
	if p := q.f.k.port(uint64(q.attr.PortNum)); p != nil {
		return p.PKeys[q.attr.PkeyIndex]
	}
	return 0
}

// samePartition reports whether packets with the one P_Key are taken by who has the
// other.
func samePartition(a, b uint16) bool {
	const member, number = 0x8000, 0x7fff
	return a&number == b&number && a&number != 0 && (a|b)&member != 0
}
