//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// datagram sends one message of an unreliable datagram queue pair.
func (q *qp) datagram(w *request) uint32 {
	a := w.to
	if a == nil || a.from.num != q.attr.PortNum {
		return wcLocQPOp
	}
	if w.length > a.from.mtu() {
		return wcLocLen
	}
	p := &q.f.k.net.desk.packet
	*p = packet{
		dgid: a.dgid, qpn: w.qpn, qkey: w.qkey, pkey: q.pkey(), solicited: w.solicited,
		wc: abi.Wc{Opcode: abi.IB_WC_RECV, ByteLen: w.length + grhLength, SrcQp: q.num},
	}
	if w.op == abi.IB_UVERBS_WR_SEND_WITH_IMM {
		p.wc.WcFlags = abi.IB_WC_WITH_IMM
		p.wc.Ex = w.ex
	}
	if a.from.InfiniBand {
		p.wc.Slid, p.wc.Sl = a.from.LID, a.sl
		p.wc.DlidPathBits = uint8(a.dlid & (1<<a.from.LMC - 1))
	}
	if a.global {
		p.route(a)
	}
	if p.multicast = a.global && isMulticast(p.dgid); p.multicast {
		q.multicast(w, a, p)
	} else {
		q.carry(w, a.end(), p)
	}
	return wcSuccess
}

// route writes the global route header: of IPv6, or an IPv4 header in its second half.
func (p *packet) route(w *way) {
	from, grh := &w.source().ID, &p.grh
	p.global, p.v1 = true, w.source().V1
	if [12]byte(p.dgid[:]) == [12]byte{10: 0xff, 11: 0xff} {
		p.ipv4 = true
		grh[20] = 0x45
		grh[29] = 17
		copy(grh[32:], from[12:])
		copy(grh[36:], p.dgid[12:])
		return
	}
	grh[0] = 0x60
	grh[6], grh[7] = 17, w.hops
	copy(grh[8:], from[:])
	copy(grh[24:], p.dgid[:])
}

// multicast sends a packet to all who are in its group.
func (q *qp) multicast(w *request, by *way, p *packet) {
	if !by.from.up() {
		return
	}
	for _, k := range q.f.k.net.kernels {
		for _, to := range k.order {
			if !to.groups[p.dgid] {
				continue
			}
			if end := k.port(uint64(to.attr.PortNum)); end != nil && end.InfiniBand == by.from.InfiniBand {
				p.qpn = to.num
				q.carry(w, end, p)
			}
		}
	}
}

// isMulticast reports whether a GID is that of a group: of IPv6, or of IPv4 mapped
// into it (rdma_is_multicast_addr, ib_addr.h).
func isMulticast(gid [16]byte) bool {
	v4 := [12]byte{10: 0xff, 11: 0xff}
	return gid[0] == 0xff || [12]byte(gid[:12]) == v4 && gid[12]&0xf0 == 0xe0
}
