//go:build linux

package verbstest

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// Entries of send queues: a control segment and those that the operation needs, in their
// order, of exactly the length that the first says. What a real device would take for
// something else is a broken rule, once for each entry, which fails then.

// mlx5Ops are the operations, in the numbers of enum ib_uverbs_wr_opcode.
var mlx5Ops = map[uint8]uint32{
	abi.MLX5_OPCODE_SEND_INVAL: abi.IB_UVERBS_WR_SEND_WITH_INV, abi.MLX5_OPCODE_RDMA_WRITE: abi.IB_UVERBS_WR_RDMA_WRITE,
	abi.MLX5_OPCODE_RDMA_WRITE_IMM: abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, abi.MLX5_OPCODE_SEND: abi.IB_UVERBS_WR_SEND,
	abi.MLX5_OPCODE_SEND_IMM: abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.MLX5_OPCODE_RDMA_READ: abi.IB_UVERBS_WR_RDMA_READ,
	abi.MLX5_OPCODE_ATOMIC_CS: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.MLX5_OPCODE_ATOMIC_FA: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD,
}

// read copies the entry that is next, and says what is wrong with it.
func (s *mlx5SQ) read(w *request) {
	n, op := sent(s.first(s.next))
	p := parse{s: s, w: w}
	if n == 0 {
		p.fail("it has no segments")
		n = 1
	}
	if n*segment > int(s.blocks)*block {
		p.fail("%d segments, in a queue of %d blocks", n, s.blocks)
		n = 1
	}
	p.b = s.copyEntry(s.next, n*segment)
	w.tag = tag{place: s.next, op: op}
	p.control(op)
	switch op {
	case abi.MLX5_OPCODE_NOP:
		w.nothing = true
		p.b = nil // whatever it is padded with
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
	if s.judged != int(s.next) {
		s.judged = int(s.next)
		s.broke("the entry at block %#x, operation %#x with %d segments: %s", s.next, op, n, p.err)
	}
}

// control reads the control segment.
func (p *parse) control(op uint8) {
	var c abi.Mlx5WqeCtrlSeg
	copy(raw(&c), p.next(segment, "control segment"))
	s, w, flags := p.s, p.w, c.FmCeSe
	first := c.OpmodIdxOpcode.Get()
	if first>>24 != 0 {
		p.fail("the modifier %#x", first>>24)
	}
	if index := uint16(first >> 8); index != s.next {
		p.fail("it says that it is at block %#x", index)
	}
	if qpn := c.QpnDs.Get() >> 8; qpn != s.q.num {
		p.fail("it says that it is QP %#x's", qpn)
	}
	if low := c.QpnDs.Get() & 0xc0; low != 0 {
		p.fail("a length with %#x", low)
	}
	if !s.q.loose() && (c.Signature != 0 || c.DciStreamChannelId.Get() != 0) {
		p.fail("the signature %#x, the stream %#x", c.Signature, c.DciStreamChannelId.Get())
	}
	const known = abi.MLX5_WQE_CTRL_CQ_UPDATE | abi.MLX5_WQE_CTRL_SOLICITED | abi.MLX5_WQE_CTRL_FENCE | abi.MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE
	if flags&^known != 0 {
		p.fail("flags %#x", flags)
	}
	if s.fence && flags&(abi.MLX5_WQE_CTRL_FENCE|abi.MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE) == 0 {
		p.fail("no fence behind an entry that changes a key")
	}
	w.signaled, w.solicited = flags&abi.MLX5_WQE_CTRL_CQ_UPDATE != 0, flags&abi.MLX5_WQE_CTRL_SOLICITED != 0
	switch op {
	case abi.MLX5_OPCODE_SEND_IMM, abi.MLX5_OPCODE_RDMA_WRITE_IMM:
		w.ex = u32(c.Imm[:]) // as it lies there
	case abi.MLX5_OPCODE_SEND_INVAL, abi.MLX5_OPCODE_UMR:
		w.ex = c.Imm.Get()
	default:
		p.zero(c.Imm[:], "control segment")
	}
}

// operation reads what is behind the control segment of all but those of keys.
func (p *parse) operation(op uint8) {
	known := false
	p.w.op, known = mlx5Ops[op]
	if !known {
		p.fail("there is no such operation")
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

// remote reads the segment of the peer's memory.
func (p *parse) remote() {
	var r abi.Mlx5WqeRaddrSeg
	copy(raw(&r), p.next(segment, "remote address"))
	p.w.addr, p.w.rkey = r.Raddr.Get(), r.Rkey.Get()
	p.zero(r.Reserved[:], "remote address")
}

// piece reads a piece of memory, or data.
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
			p.fail("a piece of 0 bytes, which are 2 GiB")
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
	p.add(sge{addr: uint64(p.data), length: n, held: true})
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
