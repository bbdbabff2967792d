//go:build linux

package verbstest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Decoding of the entries of send queues: a control segment followed by the segments that the
// operation needs, in order, with exactly the length that the control segment gives. An entry that
// a real device would misinterpret is reported as a broken rule, once, and fails.

// mlx5Ops maps the opcodes of mlx5 to enum ib_uverbs_wr_opcode.
var mlx5Ops = map[uint8]uint32{
	abi.MLX5_OPCODE_SEND_INVAL: abi.IB_UVERBS_WR_SEND_WITH_INV, abi.MLX5_OPCODE_RDMA_WRITE: abi.IB_UVERBS_WR_RDMA_WRITE,
	abi.MLX5_OPCODE_RDMA_WRITE_IMM: abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, abi.MLX5_OPCODE_SEND: abi.IB_UVERBS_WR_SEND,
	abi.MLX5_OPCODE_SEND_IMM: abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.MLX5_OPCODE_RDMA_READ: abi.IB_UVERBS_WR_RDMA_READ,
	abi.MLX5_OPCODE_ATOMIC_CS: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.MLX5_OPCODE_ATOMIC_FA: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD,
}

// read decodes the next entry into w, without removing it, and reports the first rule that the
// entry breaks.
func (s *mlx5SQ) read(w *request) {
	n, op := sent(s.first(s.next))
	p := parse{s: s, w: w}
	if n == 0 {
		p.fail("no segments")
		n = 1
	}
	if n*segment > int(s.blocks)*block {
		p.fail("%d segments, in a queue of %d blocks", n, s.blocks)
		n = 1
	}
	p.b = s.copyEntry(s.next, n*segment)
	w.tag = tag{index: s.next, op: op}
	p.control(op)
	switch op {
	case abi.MLX5_OPCODE_NOP:
		w.nothing = true
		p.b = nil // padding may be anything
	case abi.MLX5_OPCODE_UMR:
		p.window()
	default:
		p.operation(op)
	}
	if p.err == "" && len(p.b) > 0 {
		p.fail("%d segments more than it needs", len(p.b)/segment)
	}
	if p.err == "" {
		return
	}
	w.status = wcLocQPOp
	if s.reportedAt != int(s.next) {
		s.reportedAt = int(s.next)
		s.broke("the entry at block %#x, operation %#x with %d segments: %s", s.next, op, n, p.err)
	}
}

// control decodes the control segment.
func (p *parse) control(op uint8) {
	var c abi.Mlx5WqeCtrlSeg
	copy(raw(&c), p.next(segment, "control segment"))
	s, w, flags := p.s, p.w, c.FmCeSe
	first := c.OpmodIdxOpcode.Get()
	if first>>24 != 0 {
		p.fail("invalid modifier %#x", first>>24)
	}
	if index := uint16(first >> 8); index != s.next {
		p.fail("the index field is block %#x", index)
	}
	if qpn := c.QpnDs.Get() >> 8; qpn != s.q.num {
		p.fail("the QP field is %#x", qpn)
	}
	if low := c.QpnDs.Get() & 0xc0; low != 0 {
		p.fail("invalid bits %#x in the length field", low)
	}
	if !s.q.loose() && (c.Signature != 0 || c.DciStreamChannelId.Get() != 0) {
		p.fail("nonzero signature %#x or stream %#x", c.Signature, c.DciStreamChannelId.Get())
	}
	const known = abi.MLX5_WQE_CTRL_CQ_UPDATE | abi.MLX5_WQE_CTRL_SOLICITED | abi.MLX5_WQE_CTRL_FENCE | abi.MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE
	if flags&^known != 0 {
		p.fail("invalid flags %#x", flags)
	}
	if s.fence && flags&(abi.MLX5_WQE_CTRL_FENCE|abi.MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE) == 0 {
		p.fail("no fence after an entry that changes a key")
	}
	w.signaled, w.solicited = flags&abi.MLX5_WQE_CTRL_CQ_UPDATE != 0, flags&abi.MLX5_WQE_CTRL_SOLICITED != 0
	switch op {
	case abi.MLX5_OPCODE_SEND_IMM, abi.MLX5_OPCODE_RDMA_WRITE_IMM:
		w.ex = u32(c.Imm[:]) // in the byte order of the entry
	case abi.MLX5_OPCODE_SEND_INVAL, abi.MLX5_OPCODE_UMR:
		w.ex = c.Imm.Get()
	default:
		p.zero(c.Imm[:], "control segment")
	}
}

// operation decodes the segments after the control segment, for all operations except those that
// change keys.
func (p *parse) operation(op uint8) {
	known := false
	p.w.op, known = mlx5Ops[op]
	if !known {
		p.fail("unknown operation")
		return
	}
	if p.s.q.typ == abi.IB_UVERBS_QPT_UD {
		p.address()
	}
	switch op {
	case abi.MLX5_OPCODE_RDMA_WRITE, abi.MLX5_OPCODE_RDMA_WRITE_IMM, abi.MLX5_OPCODE_RDMA_READ:
		p.remote()
	case abi.MLX5_OPCODE_ATOMIC_CS, abi.MLX5_OPCODE_ATOMIC_FA:
		p.remote()
		b := p.next(segment, "operands")
		p.w.add = binary.BigEndian.Uint64(b)
		if op == abi.MLX5_OPCODE_ATOMIC_CS {
			p.w.swap, p.w.add = p.w.add, binary.BigEndian.Uint64(b[8:])
		}
		const word = 8
		if len(p.b) != segment {
			p.fail("%d pieces of memory for the result", len(p.b)/segment)
		} else if n := binary.BigEndian.Uint32(p.b); n != word {
			p.fail("%d bytes for the result", n)
		}
	}
	for len(p.b) > 0 && p.err == "" {
		p.piece()
	}
	p.w.list = p.w.sges[:p.list]
}

// remote decodes the remote address segment.
func (p *parse) remote() {
	var r abi.Mlx5WqeRaddrSeg
	copy(raw(&r), p.next(segment, "remote address"))
	p.w.addr, p.w.rkey = r.Raddr.Get(), r.Rkey.Get()
	p.zero(r.Reserved[:], "remote address")
}

// piece decodes a data segment or an inline data segment.
func (p *parse) piece() {
	w := p.w
	n := binary.BigEndian.Uint32(p.b)
	if p.list == len(w.sges) {
		p.fail("more than %d pieces", p.list)
		return
	}
	if n&abi.MLX5_INLINE_SEG == 0 {
		var d abi.Mlx5WqeDataSeg
		copy(raw(&d), p.next(segment, "data"))
		if n == 0 {
			p.fail("a piece of 0 bytes, which means 2 GiB")
		}
		p.add(sge{addr: d.Addr.Get(), length: n, lkey: d.Lkey.Get()})
		return
	}
	n &^= abi.MLX5_INLINE_SEG
	if n == 0 {
		p.fail("inline data of 0 bytes")
	}
	if n > maxEntry {
		p.fail("inline data of %d bytes", n)
		return
	}
	const length = 4
	b := p.next((length+int(n)+segment-1)/segment*segment, "inline data")
	if p.err != "" {
		return
	}
	copy(w.data[p.data:], b[length:][:n])
	w.inline = true
	p.add(sge{addr: uint64(p.data), length: n, inline: true})
	p.data += int(n)
}

func (p *parse) add(s sge) {
	p.w.sges[p.list] = s
	p.list++
	if total := uint64(p.w.length) + uint64(s.length); total < 1<<32 {
		p.w.length = uint32(total)
	} else {
		p.fail("more than 4 GiB")
	}
}

// parse decodes an entry of a send queue, segment by segment, into a request.
type parse struct {
	s    *mlx5SQ
	b    []byte // the rest of the entry
	data int    // bytes of inline data so far
	list int    // number of pieces of memory so far
	w    *request
	err  string
}

// fail records an error, if it is the first.
func (p *parse) fail(format string, args ...any) {
	if p.err == "" {
		p.err = fmt.Sprintf(format, args...)
	}
}

// loose reports whether reserved fields may have any value.
func (q *qp) loose() bool { return q.f.k.cfg.MLX5.Loose }

// next returns the next n bytes of the entry. If fewer are left, it returns zeros and records an
// error that contains the name what.
func (p *parse) next(n int, what string) []byte {
	if len(p.b) < n {
		p.fail("it ends before its %s", what)
		p.b = nil
		return make([]byte, n)
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

// zero records an error if reserved bytes are not zero. The parameter what is the name of the
// segment.
func (p *parse) zero(b []byte, what string) {
	if p.s.q.loose() {
		return
	}
	for _, v := range b {
		if v != 0 {
			p.fail("reserved bytes %s set in its %s", hex.EncodeToString(b), what)
			return
		}
	}
}

// address decodes the datagram segment, which has the destination (prov/verbs.c, mlx5_create_ah).
func (p *parse) address() {
	w, s := p.w, p.s
	a := &s.to
	copy(raw(a), p.next(len(raw(a)), "address"))
	dqp := a.DqpDct.Get()
	w.qkey, w.qpn = a.Qkey.Get(), dqp&(1<<24-1)
	if dqp&^(1<<24-1) != abi.MLX5_EXTENDED_UD_AV {
		p.fail("queue pair word %#x without the address bit, or with unknown bits", dqp)
	}
	p.zero(a.Reserved[:], "address")
	p.zero(a.Reserved0[:], "address")
	from := s.q.f.k.port(uint64(s.q.attr.PortNum))
	if from == nil {
		p.fail("the queue pair's port does not exist")
		return
	}
	a.Qkey, a.DqpDct = abi.BE32{}, abi.BE32{}
	if *a == s.av && s.path.from == from {
		w.to = &s.path
	}
	gid := a.GrhGidFl.Get()
	to := abi.QpDest{Dgid: a.Rgid, FlowLabel: gid & 0xfffff, SgidIndex: uint8(gid >> 20), HopLimit: a.HopLimit, TrafficClass: a.Tclass,
		Dlid: a.Rlid.Get(), Sl: a.StatRateSl & 0xf, SrcPathBits: a.FlMlid, IsGlobal: uint8(gid >> 30 & 1), PortNum: from.num}
	if from.InfiniBand {
		p.zero(a.Rmac[:], "address")
		if gid>>31 != 0 || gid>>28&3 != 0 || to.IsGlobal == 0 && (gid != 0 || a.Tclass|a.HopLimit != 0 || a.Rgid != [16]byte{}) {
			p.fail("the address % x is not global", raw(a))
		}
	} else {
		p.ethernet(a, from, &to)
	}
	if w.to != nil || p.err != "" {
		return
	}
	way, ok := s.q.f.k.newPath(&to)
	if !ok {
		p.fail("no route to the address % x", raw(a))
		return
	}
	s.path, s.av = way, *a
	w.to = &s.path
}

// ethernet checks the fields that are specific to Ethernet ports, and completes to, the address as
// the program would pass it to the kernel.
func (p *parse) ethernet(a *abi.Mlx5WqeAv, from *port, to *abi.QpDest) {
	const firstPort = 0xc000 // lowest UDP source port of RoCE v2
	gid := a.GrhGidFl.Get()
	if gid>>28 != 0 {
		p.fail("invalid bits %#x in an Ethernet address", gid>>28)
	}
	e, ok := from.entry(gid >> 20 & 0xff)
	if !ok {
		p.fail("the source GID %d is empty", gid>>20&0xff)
		return
	}
	source := binary.BigEndian.Uint16(a.Rlid[:])
	if v2 := e.GidType == abi.IB_UVERBS_GID_TYPE_ROCE_V2; v2 != (source >= firstPort) || !v2 && source != 0 {
		p.fail("the source port %#x, with a GID of type %d", source, e.GidType)
	} else if fl := gid & 0xfffff; v2 && fl != 0 && source != firstPort|uint16(fl&0x3fff^fl>>14) {
		p.fail("the source port %#x with flow label %#x", source, fl)
	}
	if hop := nextHop(a.Rgid); a.Rmac != hop {
		p.fail("the next hop %#x differs from the kernel's answer %#x", a.Rmac, hop)
	}
	if a.FlMlid != 0 || a.StatRateSl&1 != 0 {
		p.fail("invalid path bits %#x, rate and service level %#x in an Ethernet address", a.FlMlid, a.StatRateSl)
	}
	to.Sl, to.Dlid, to.SrcPathBits, to.IsGlobal = a.StatRateSl>>1&7, 0, 0, 1
}

// packetKind implements personality. It returns a bit for UDP and the network protocol, in the
// encoding that UCX takes from the adapter's reference (src/uct/ib/ud/base/ud_iface.h,
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

// Accesses of the device to a program's memory. A word of a doorbell record in this process is read
// atomically.

// be32 returns the big-endian 32-bit word at an offset.
func (p *piece) be32(off int) uint32 {
	var b [4]byte
	if p.space == nil {
		binary.NativeEndian.PutUint32(b[:], word.Load32(p.mem[off:off+4]))
		uverbs.RaceReceived()
		return binary.BigEndian.Uint32(b[:])
	}
	return p.farWord(off)
}

// farWord is be32 for another process's memory.
func (p *piece) farWord(off int) uint32 {
	var b [4]byte
	p.space.Read(p.addr+uint64(off), b[:])
	return binary.BigEndian.Uint32(b[:])
}

// pageSize is the size of a page of memory, in bytes.
const pageSize = 4096
