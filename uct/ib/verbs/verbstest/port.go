//go:build linux

package verbstest

import "github.com/ucx-go/ucx/uct/ib/internal/abi"

// port is a port of a device. Fabric.mu guards it.
type port struct {
	Port
	k      *Kernel
	num    uint8
	active bool
}

// up reports whether packets can leave the port and reach it.
func (p *port) up() bool { return p.active && !p.k.removed }

// mtu returns the largest payload of a packet, in bytes.
func (p *port) mtu() uint32 { return mtuBytes(p.MTU) }

// mtuBytes converts a value of enum ib_mtu to bytes.
func mtuBytes(mtu uint8) uint32 { return 128 << mtu }

// port returns the port with this number, nil if there is none.
func (k *Kernel) port(num uint64) *port {
	if num < 1 || num > uint64(len(k.ports)) {
		return nil
	}
	return k.ports[num-1]
}

// entry returns an entry of the port's GID table, and false if it is empty.
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

// has reports whether the port accepts packets to a GID, of RoCE v1 or of RoCE v2.
func (p *port) has(gid [16]byte, v1 bool) bool {
	for i := range p.GIDs {
		if g := &p.GIDs[i]; g.ID == gid && (p.InfiniBand || g.V1 == v1) {
			return gid != [16]byte{}
		}
	}
	return false
}

// path is the path to a destination, of an address handle or of a connected queue pair. Fabric.mu
// guards it.
type path struct {
	from   *port
	sgid   uint8
	dgid   [16]byte
	global bool
	dlid   uint16
	sl     uint8
	hops   uint8

	to  *port  // destination port as last resolved; nil for none
	era uint64 // value of Fabric.topologyVersion when the field to was resolved
}

// newPath checks an address vector as the kernel does and returns the path to it, false if the
// address is invalid.
func (k *Kernel) newPath(a *abi.QpDest) (path, bool) {
	from := k.port(uint64(a.PortNum))
	if from == nil || a.IsGlobal != 1 && !from.InfiniBand {
		return path{}, false
	}
	if _, ok := from.entry(uint32(a.SgidIndex)); a.IsGlobal == 1 && !ok {
		return path{}, false
	}
	return path{from: from, sgid: a.SgidIndex, dgid: a.Dgid, global: a.IsGlobal == 1, dlid: a.Dlid, sl: a.Sl, hops: a.HopLimit}, true
}

// source returns the source GID of packets on the path.
func (w *path) source() *GID { return &w.from.GIDs[w.sgid] }

// destination returns the port that packets reach on the path, nil while they reach none. It resolves the
// path again after a change of ports or GIDs.
func (w *path) destination() *port {
	if n := w.from.k.net; w.era != n.topologyVersion {
		w.to, w.era = n.find(w), n.topologyVersion
	}
	return w.to
}

// find returns the destination port of a path, nil if there is none. It tries the source device
// first, because loopback and link-local addresses may occur at several devices.
func (n *Fabric) find(w *path) *port {
	if !w.from.up() || w.global && w.source().ID == ([16]byte{}) {
		return nil
	}
	for _, p := range w.from.k.ports {
		if p.isDestination(w) {
			return p
		}
	}
	for _, k := range n.kernels {
		for _, p := range k.ports {
			if p.isDestination(w) {
				return p
			}
		}
	}
	return nil
}

// isDestination reports whether the port is the destination of a path. Within an InfiniBand subnet the LID
// decides, between subnets the GID, as if there were a router.
func (p *port) isDestination(w *path) bool {
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

// pkey returns the P_Key of the queue pair's packets.
func (q *qp) pkey() uint16 {
	if p := q.f.k.port(uint64(q.attr.PortNum)); p != nil {
		return p.PKeys[q.attr.PkeyIndex]
	}
	return 0
}

// samePartition reports whether a queue pair with one P_Key accepts packets with the other P_Key.
func samePartition(a, b uint16) bool {
	const member, number = 0x8000, 0x7fff
	return a&number == b&number && a&number != 0 && (a|b)&member != 0
}
