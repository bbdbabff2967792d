//go:build linux

package verbstest

import (
	"math/bits"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Creation of queues, in memory that the program provides. The memory is pinned.

// memory pins n bytes of the program's memory at addr and returns them.
func (x *mlx5File) memory(addr uint64, n int) (piece, syscall.Errno) {
	if !x.f.reaches(addr, uint64(n)) {
		return piece{}, syscall.EFAULT
	}
	if e := x.f.k.pin(pages(addr, uint64(n))); e != 0 {
		return piece{}, e
	}
	p := within(x.f.space, addr, n)
	p.addr = addr
	return p, 0
}

// unpin unpins what memory has pinned.
func (x *mlx5File) unpin(p piece) {
	if p.n > 0 {
		x.f.k.pin(-pages(p.addr, uint64(p.n)))
	}
}

// record returns a doorbell record of the program: n bytes within a page. The page is pinned once
// for all records in it.
func (x *mlx5File) record(addr uint64, n int, of string) (piece, syscall.Errno) {
	page := addr &^ (pageSize - 1)
	if addr%uint64(n) != 0 {
		x.f.broke("misaligned doorbell record of a %s at %#x", of, addr)
		return piece{}, syscall.EINVAL
	}
	if !x.f.reaches(addr, uint64(n)) {
		return piece{}, syscall.EFAULT
	}
	if x.records[page] == 0 {
		if e := x.f.k.pin(pageSize); e != 0 {
			return piece{}, e
		}
	}
	x.records[page]++
	p := within(x.f.space, addr, n)
	p.addr = addr
	for off := 0; off < n; off += 4 {
		if v := p.be32(off); v != 0 {
			x.f.broke("doorbell record of a new %s contains %#08x, expected 0", of, v)
		}
	}
	return p, 0
}

// unrecord releases a doorbell record, and unpins its page with the last record in it.
func (x *mlx5File) unrecord(p piece) {
	page := p.addr &^ (pageSize - 1)
	if x.records[page]--; x.records[page] == 0 {
		delete(x.records, page)
		x.f.k.pin(-pageSize)
	}
}

// uidx reports whether v is a valid user index, the number by which completions refer to their
// queue (qp.c, get_qp_user_index).
func (x *mlx5File) uidx(v uint32) bool {
	const none = 1<<24 - 1
	if x.version == 0 {
		return v == none
	}
	return v < none
}

// number returns a new queue number.
func (x *mlx5File) number() uint32 {
	x.nextNum++
	return x.nextNum
}

func (x *mlx5File) newCQ(c *cq, cqe uint32, d uhw) syscall.Errno {
	in := load[abi.Mlx5CreateCq](d.in)
	const least, known = 22, abi.MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD | abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX
	if !fits(d.in, least, 32) || in.CqeSize != 64 && in.CqeSize != 128 || in.Flags&^known != 0 || in.Reserved0 != 0 || in.Reserved1 != 0 {
		return syscall.EINVAL
	}
	if in.CqeCompEn != 0 {
		x.f.k.net.say(x.f.k.cfg.Name + ": compressed completions are refused")
		return syscall.EOPNOTSUPP
	}
	page := (*uar)(nil)
	switch {
	case in.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX != 0:
		page = x.pageFor(uint32(in.UarPageIndex))
	case !x.dynamic:
		page = x.uars[0]
	}
	if page == nil {
		return syscall.EINVAL
	}
	buf, entries, e := x.completions(in.BufAddr, cqe, int(in.CqeSize))
	if e != 0 {
		return e
	}
	rec, e := x.record(in.DbAddr, 8, "completion queue")
	if e != 0 {
		x.unpin(buf)
		return e
	}
	q := &mlx5CQ{c: c, num: x.number(), version: x.version, buf: buf, rec: rec, entries: entries, size: int(in.CqeSize), page: page}
	q.freed = func() {
		x.unpin(q.buf)
		x.unrecord(q.rec)
		x.freeUnused()
	}
	page.cqs = append(page.cqs, q)
	c.queue, c.cqe = q, entries-1
	store(d.out, abi.Mlx5CreateCqResp{Cqn: q.num})
	x.made("completion queue", d)
	return 0
}

// completions returns memory for at least cqe completions. The program must have marked all entries
// as invalid.
func (x *mlx5File) completions(addr uint64, cqe uint32, size int) (buf piece, entries uint32, e syscall.Errno) {
	entries = 1 << bits.Len32(cqe)
	if addr%64 != 0 {
		return piece{}, 0, syscall.EINVAL
	}
	if buf, e = x.memory(addr, int(entries)*size); e == 0 && !blank(buf, entries, size) {
		x.f.broke("memory for %d completions, not all of which are marked as invalid", entries)
	}
	return buf, entries, e
}

func (x *mlx5File) resizeCQ(c *cq, cqe uint32, d uhw) syscall.Errno {
	in, q := load[abi.Mlx5ResizeCq](d.in), c.queue.(*mlx5CQ)
	if !fits(d.in, 16, 16) || in.Reserved0 != 0 || in.Reserved1 != 0 || int(in.CqeSize) != q.size {
		return syscall.EINVAL
	}
	if 1<<bits.Len32(cqe) == q.entries {
		return 0 // like the kernel, which ignores the memory in this case
	}
	buf, entries, e := x.completions(in.BufAddr, cqe, q.size)
	if e != 0 {
		return e
	}
	old := q.buf
	if !q.resize(buf, entries) {
		x.unpin(buf)
		return syscall.EINVAL
	}
	x.unpin(old)
	c.cqe = entries - 1
	x.made("resized completion queue", d)
	return 0
}

func (x *mlx5File) newSRQ(s *srq, wr uint32, d uhw) syscall.Errno {
	in := load[abi.Mlx5CreateSrq](d.in)
	if !fits(d.in, 16, 32) || in.Reserved0 != 0 || in.Reserved1 != 0 || in.Flags != 0 {
		return syscall.EINVAL
	}
	entries := uint32(1) << bits.Len32(wr)
	size := 1 << bits.Len32(max(32, segment+segment*s.maxSGE)-1)
	buf, e := x.memory(in.BufAddr, int(entries)*size)
	if e != 0 {
		return e
	}
	rec, e := x.record(in.DbAddr, 4, "shared receive queue")
	if e != 0 {
		x.unpin(buf)
		return e
	}
	s.num = x.number()
	s.maxWR, s.maxSGE = entries-1, uint32(size/segment-1)
	s.queue = &mlx5SRQ{s: s, buf: buf, rec: rec, n: entries, size: size, freed: func() {
		x.unpin(buf)
		x.unrecord(rec)
	}}
	store(d.out, abi.Mlx5CreateSrqResp{Srqn: s.num})
	x.made("shared receive queue", d)
	return 0
}

// qpPage returns the page of a queue pair's doorbell, nil if there is none, and the number of the
// register, -1 if the queue pair may use any register of the page.
func (x *mlx5File) qpPage(in *abi.Mlx5CreateQp) (page *uar, reg int) {
	switch {
	case in.Flags&abi.MLX5_QP_FLAG_UAR_PAGE_INDEX != 0:
		return x.pageFor(in.BfregIndex), -1
	case x.dynamic || in.Flags&abi.MLX5_QP_FLAG_BFREG_INDEX != 0:
		return nil, -1
	}
	reg = x.takeReg()
	return x.uars[reg/regsPerUAR], reg
}

// newQP makes the receive queue and the send queue, which follows it in memory (qp.c,
// _create_user_qp).
func (x *mlx5File) newQP(q *qp, d uhw) syscall.Errno {
	in := load[abi.Mlx5CreateQp](d.in)
	const (
		least = 40
		known = abi.MLX5_QP_FLAG_SCATTER_CQE | abi.MLX5_QP_FLAG_ALLOW_SCATTER_CQE | abi.MLX5_QP_FLAG_UAR_PAGE_INDEX | abi.MLX5_QP_FLAG_BFREG_INDEX |
			abi.MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC | abi.MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC | abi.MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE
		mostBlocks = 1 << 15
	)
	if !fits(d.in, least, 56) || in.Flags&^known != 0 || !x.uidx(in.Uidx) {
		return syscall.EINVAL
	}
	n, receives, shift := in.SqWqeCount, in.RqWqeCount, in.RqWqeShift
	if q.srq != nil || q.cap.MaxRecvWr == 0 {
		receives, shift = 0, 4
	}
	if n&(n-1) != 0 || n > mostBlocks || receives&(receives-1) != 0 || receives > mostBlocks || shift < 4 || shift > 9 {
		return syscall.EINVAL
	}
	page, reg := x.qpPage(&in)
	if page == nil {
		return syscall.EINVAL
	}
	if in.BufAddr%64 != 0 {
		return syscall.EINVAL
	}
	head, buf, e := int(receives)<<shift, piece{}, syscall.Errno(0)
	if size := head + int(n)*block; size > 0 {
		if buf, e = x.memory(in.BufAddr, size); e != 0 {
			return e
		}
	}
	rec, e := x.record(in.DbAddr, 8, "queue pair")
	if e != 0 {
		x.unpin(buf)
		return e
	}
	s := &mlx5SQ{q: q, uidx: in.Uidx, buf: buf.from(head), rec: rec, blocks: uint16(n), page: page, reg: reg, reportedAt: -1}
	s.freed = func() {
		if reg >= 0 {
			x.regs[reg]--
		}
		x.unpin(buf)
		x.unrecord(rec)
		x.freeUnused()
	}
	if reg >= 0 {
		x.regs[reg]++
	}
	for _, o := range page.sends {
		if reg < 0 || o.reg < 0 || reg == o.reg {
			s.shared, o.shared = true, true
		}
	}
	page.sends = append(page.sends, s)
	q.sq = s
	resp := abi.Mlx5CreateQpResp{BfregIndex: ^uint32(0)}
	if reg >= 0 {
		const regsOfUAR = 4 // including those that programs do not get
		resp.BfregIndex = uint32(reg/regsPerUAR*regsOfUAR + reg%regsPerUAR)
	}
	if q.srq == nil {
		q.cap.MaxRecvWr, q.cap.MaxRecvSge = receives, 0
		if receives > 0 {
			q.cap.MaxRecvSge = 1 << shift / segment
		}
		q.rq = &mlx5RQ{q: q, buf: buf, rec: rec, n: uint16(receives), shift: uint(shift)}
	}
	store(d.out, resp)
	x.made("queue pair", d)
	return 0
}
