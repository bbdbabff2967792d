//go:build linux

package verbstest

import (
	"encoding/binary"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/internal/word"
)

// Doorbell pages. The pages of a device are parts of a file, each at the offset that a
// program maps it at. A doorbell is found by looking for it and is taken out.

// regsPerUAR is how many registers of a UAR programs may have.
const regsPerUAR = 2

// Offsets of pages that are objects are those of a command behind the others; enum
// mlx5_ib_mmap_cmd and MLX5_IB_MMAP_OFFSET_START, mlx5_ib.h.
const (
	objectCommand = 9
	mostObjects   = 1 << 8
	pagesEnd      = (objectCommand + 1) << 8 * pageSize
)

// pageOffset is what a page is mapped at.
func pageOffset(command, index int) int64 { return int64(command<<8|index&0xff) * pageSize }

// uar is a page of registers. It lives on while queues have it.
type uar struct {
	x      *mlx5File
	id     uint32
	offset int64
	mems   [][]byte // by each name that it is mapped at
	gone   bool     // the object is
	sends  []*mlx5SQ
	cqs    []*mlx5CQ
}

// newUAR makes a page, nil if there is no room for it.
func (x *mlx5File) newUAR(offset int64) *uar {
	u := &uar{x: x, id: x.nextUAR, offset: offset}
	if !u.as(offset) {
		return nil
	}
	x.nextUAR++
	x.uars = append(x.uars, u)
	return u
}

// newStatic is newUAR of a page that has several names. Who maps it in another process
// does not say by which.
func (x *mlx5File) newStatic(i int) *uar {
	u := x.newUAR(pageOffset(abi.MLX5_IB_MMAP_REGULAR_PAGE, i))
	if u != nil && x.f.space != nil && !(u.as(pageOffset(abi.MLX5_IB_MMAP_WC_PAGE, i)) && u.as(pageOffset(abi.MLX5_IB_MMAP_NC_PAGE, i))) {
		return nil
	}
	return u
}

// as has the page looked for at an offset.
func (u *uar) as(offset int64) bool {
	mem, err := unix.Mmap(u.x.fd, offset, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		u.mems = append(u.mems, mem)
	}
	return err == nil
}

// end gives the page back.
func (u *uar) end() {
	for _, mem := range u.mems {
		unix.Munmap(mem)
	}
	u.mems = nil
}

// kind is what the page is as an object of its own.
func (u *uar) kind() uint16 { return abi.MLX5_IB_OBJECT_UAR }

// destroy ends the object.
func (u *uar) destroy() {
	u.gone = true
	u.x.tidy()
}

// tidy forgets the pages that nobody has any more.
func (x *mlx5File) tidy() {
	x.uars = slices.DeleteFunc(x.uars, func(u *uar) bool {
		u.sends = slices.DeleteFunc(u.sends, func(s *mlx5SQ) bool { return s.ended })
		u.cqs = slices.DeleteFunc(u.cqs, func(c *mlx5CQ) bool { return c.ended })
		if !u.gone || len(u.sends)+len(u.cqs) > 0 {
			return false
		}
		u.stray(x)
		u.end()
		return true
	})
}

// allocUAR makes a page that is an object.
func (x *mlx5File) allocUAR(typ uint64) (*uar, syscall.Errno) {
	if x.cfg.StaticUARs || x.cfg.OldUARs {
		return nil, syscall.EPROTONOSUPPORT
	}
	if typ != abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && typ != abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC {
		return nil, syscall.EOPNOTSUPP
	}
	if typ == abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && x.cfg.NoWC {
		return nil, syscall.EOPNOTSUPP
	}
	for i := range mostObjects {
		offset := pageOffset(objectCommand, i)
		if slices.ContainsFunc(x.uars, func(u *uar) bool { return u.offset == offset }) {
			continue
		}
		if u := x.newUAR(offset); u != nil {
			return u, 0
		}
		break
	}
	return nil, syscall.ENOMEM
}

// mmap maps a page; main.c, mlx5_ib_mmap. A static one has several names.
func (x *mlx5File) mmap(offset uint64, length int) ([]byte, syscall.Errno) {
	if length != pageSize || offset%pageSize != 0 || offset >= pagesEnd {
		return nil, syscall.EINVAL
	}
	at := int64(offset)
	switch command := offset / pageSize >> 8; command {
	case abi.MLX5_IB_MMAP_WC_PAGE, abi.MLX5_IB_MMAP_NC_PAGE:
		at = pageOffset(abi.MLX5_IB_MMAP_REGULAR_PAGE, int(offset/pageSize))
	}
	i := slices.IndexFunc(x.uars, func(u *uar) bool { return u.offset == at && !u.gone })
	if i < 0 {
		return nil, syscall.EINVAL
	}
	if at != int64(offset) && !x.uars[i].as(int64(offset)) {
		return nil, syscall.ENOMEM
	}
	b, err := unix.Mmap(x.fd, int64(offset), length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, syscall.ENOMEM
	}
	return b, 0
}

// pageFor is the page that a queue has been given by its number.
func (x *mlx5File) pageFor(id uint32) *uar {
	for _, u := range x.uars {
		if u.id == id && !u.gone && u.offset >= pageOffset(objectCommand, 0) {
			return u
		}
	}
	return nil
}

// takeReg gives a queue pair a static register: one to itself if there is one left of
// these, else one of the others in turn, and not the first if there is another (qp.c,
// alloc_bfreg).
func (x *mlx5File) takeReg() int {
	first, n := len(x.regs)-x.lowLat, len(x.regs)
	if x.lowLat < 0 { // a program that knows of one only
		first, n = 0, 1
	}
	for i := first; i < n; i++ {
		if x.regs[i] == 0 {
			return i
		}
	}
	least := 0
	for i := 1; i < first; i++ {
		if least == 0 || x.regs[i] < x.regs[least] {
			least = i
		}
	}
	return least
}

// regSize is the size of a register in bytes, both halves.
func (x *mlx5File) regSize() uint32 {
	if x.cfg.NoWC {
		return 0
	}
	return 512
}

// regAt is where a register is in its page.
func (x *mlx5File) regAt(reg int) int {
	return abi.MLX5_BF_OFFSET + reg%regsPerUAR*int(x.regSize())
}

// look finds the doorbells that have rung.
func (x *mlx5File) look() (any bool) {
	for _, u := range x.uars {
		if len(u.sends)+len(u.cqs) > 0 && u.look() {
			any = true
		}
	}
	return any
}

// take takes a doorbell out of memory, 0 for none.
func take(b []byte) uint64 {
	if word.Load64(b) == 0 {
		return 0
	}
	uverbs.RaceReceived()
	var v [8]byte
	binary.NativeEndian.PutUint64(v[:], word.Swap64(b, 0))
	return binary.BigEndian.Uint64(v[:])
}

// look finds the doorbells of a page.
func (u *uar) look() (any bool) {
	regs, half := regsPerUAR, int(u.x.regSize())/2
	if half == 0 {
		regs = 1
	}
	for _, mem := range u.mems {
		if v := take(mem[abi.MLX5_CQ_DOORBELL:][:8]); v != 0 {
			any = true
			u.rang(abi.MLX5_CQ_DOORBELL, v)
			u.arm(uint32(v>>32), uint32(v))
		}
		for reg := range regs {
			off := u.x.regAt(reg)
			first, second := take(mem[off:][:8]), uint64(0)
			if half > 0 {
				second = take(mem[off+half:][:8])
			}
			if first|second != 0 {
				any = true
				u.rang(off, first)
				u.rang(off+half, second)
				u.rung(reg, first, second)
			}
		}
	}
	return any
}

// rung is doorbells in the halves of a register, 0 for none. As one may have been stored
// over another's, all that have the register are looked at.
func (u *uar) rung(reg int, bells ...uint64) {
	for _, s := range u.sends {
		s.noticed()
	}
	for _, v := range bells {
		if v != 0 {
			u.ring(v, reg)
		}
	}
	for _, s := range u.sends {
		if s.named || s.reg < 0 || s.reg%regsPerUAR == reg || u.x.regSize() == 0 {
			s.told()
		}
	}
}

// ring is a doorbell in a register.
func (u *uar) ring(v uint64, reg int) {
	qpn := uint32(v) >> 8
	for _, s := range u.sends {
		if s.q.num != qpn || s.ended {
			continue
		}
		if s.reg >= 0 && s.reg%regsPerUAR != reg && u.x.regSize() != 0 {
			u.x.f.broke("QP %#x: a doorbell in register %d of its page, not %d", qpn, reg, s.reg%regsPerUAR)
		}
		s.rung(v)
		return
	}
	u.x.f.broke("a doorbell %#016x of QP %#x, which does not have this page", v, qpn)
}

// arm is a doorbell of completion queues.
func (u *uar) arm(w, cqn uint32) {
	found := false
	for _, c := range u.cqs {
		if c.ended {
			continue
		}
		switch {
		case c.num == cqn:
			found = true
			c.rung(w)
		case c.rec.be32(4) != c.seen, !c.known && c.c.channel != nil && c.rec.be32(0) == 0:
			// One that has never been armed, and of which nothing was taken, may just have
			// been, with a word of 0: to take it for armed makes at most an event too many.
			c.arm(c.rec.be32(4))
		}
	}
	if !found {
		u.x.f.broke("a doorbell %#08x of completion queue %#x, which does not have this page", w, cqn)
	}
}

// stray reports what lies where no doorbell is.
func (u *uar) stray(x *mlx5File) {
	const regsEnd = abi.MLX5_BF_OFFSET + regsPerUAR*512
	for _, mem := range u.mems {
		for off := 0; off < pageSize; off += 8 {
			if off == abi.MLX5_CQ_DOORBELL || off >= abi.MLX5_BF_OFFSET && off < regsEnd {
				continue
			}
			if v := word.Load64(mem[off : off+8]); v != 0 {
				x.f.broke("%#x was stored at offset %#x of a doorbell page", v, off)
			}
		}
	}
}
