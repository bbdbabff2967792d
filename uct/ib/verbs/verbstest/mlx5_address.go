//go:build linux

package verbstest

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// address reads the datagram segment: where the datagram goes to (prov/verbs.c,
// mlx5_create_ah).
func (p *parse) address() {
	w, s := p.w, p.s
	a := &s.to
	copy(raw(a), p.next(len(raw(a)), "address"))
	dqp := a.DqpDct.Get()
	w.qkey, w.qpn = a.Qkey.Get(), dqp&(1<<24-1)
	if dqp&^(1<<24-1) != abi.MLX5_EXTENDED_UD_AV {
		p.fail("the queue pair %#x, without the bit of an address or with others", dqp)
	}
	p.zero(a.Reserved[:], "address")
	p.zero(a.Reserved0[:], "address")
	from := s.q.f.k.port(uint64(s.q.attr.PortNum))
	if from == nil {
		p.fail("no port")
		return
	}
	a.Qkey, a.DqpDct = abi.BE32{}, abi.BE32{}
	if *a == s.av && s.way.from == from {
		w.to = &s.way
	}
	gid := a.GrhGidFl.Get()
	to := abi.QpDest{Dgid: a.Rgid, FlowLabel: gid & 0xfffff, SgidIndex: uint8(gid >> 20), HopLimit: a.HopLimit, TrafficClass: a.Tclass,
		Dlid: a.Rlid.Get(), Sl: a.StatRateSl & 0xf, SrcPathBits: a.FlMlid, IsGlobal: uint8(gid >> 30 & 1), PortNum: from.num}
	if from.InfiniBand {
		p.zero(a.Rmac[:], "address")
		if gid>>31 != 0 || gid>>28&3 != 0 || to.IsGlobal == 0 && (gid != 0 || a.Tclass|a.HopLimit != 0 || a.Rgid != [16]byte{}) {
			p.fail("the address % x, which is not global", raw(a))
		}
	} else {
		p.ethernet(a, from, &to)
	}
	if w.to != nil || p.err != "" {
		return
	}
	way, ok := s.q.f.k.newWay(&to)
	if !ok {
		p.fail("the address % x leads nowhere", raw(a))
		return
	}
	s.way, s.av = way, *a
	w.to = &s.way
}

// ethernet checks what is particular with an Ethernet port, and makes to what the kernel
// would be told.
func (p *parse) ethernet(a *abi.Mlx5WqeAv, from *port, to *abi.QpDest) {
	const firstPort = 0xc000 // of RoCE v2
	gid := a.GrhGidFl.Get()
	if gid>>28 != 0 {
		p.fail("bits %#x in an address of Ethernet", gid>>28)
	}
	e, ok := from.entry(gid >> 20 & 0xff)
	if !ok {
		p.fail("GID %d, which is empty", gid>>20&0xff)
		return
	}
	source := binary.BigEndian.Uint16(a.Rlid[:])
	if v2 := e.GidType == abi.IB_UVERBS_GID_TYPE_ROCE_V2; v2 != (source >= firstPort) || !v2 && source != 0 {
		p.fail("the source port %#x, with a GID of type %d", source, e.GidType)
	} else if fl := gid & 0xfffff; v2 && fl != 0 && source != firstPort|uint16(fl&0x3fff^fl>>14) {
		p.fail("the source port %#x with flow label %#x", source, fl)
	}
	if hop := nextHop(a.Rgid); a.Rmac != hop {
		p.fail("the next hop %#x, which the kernel has said to be %#x", a.Rmac, hop)
	}
	if a.FlMlid != 0 || a.StatRateSl&1 != 0 {
		p.fail("path bits %#x, rate and service level %#x in an address of Ethernet", a.FlMlid, a.StatRateSl)
	}
	to.Sl, to.Dlid, to.SrcPathBits, to.IsGlobal = a.StatRateSl>>1&7, 0, 0, 1
}

// packetKind implements personality: a bit for UDP, and what is behind Ethernet's header,
// as UCX has it from the adapter's reference (src/uct/ib/ud/base/ud_iface.h,
// uct_ud_iface_check_grh).
func (mlx5) packetKind(p *packet) uint8 {
	const udp, ipv6, ipv4 = 8, 1, 2
	switch {
	case p.v1:
		return 0
	case p.ipv4:
		return udp | ipv4
	}
	return udp | ipv6
}
