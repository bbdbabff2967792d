//go:build linux

package verbstest

import (
	"encoding/binary"
	"maps"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Doorbell pages (UARs). The pages of a device are parts of a file, each at the offset at which a
// program maps it. The device polls for doorbells, and replaces each with 0.

// regsPerUAR is the number of registers of a UAR that programs may use.
const regsPerUAR = 2

// An mmap offset has a command number and an index. The command number of pages that are objects is
// above the others; enum mlx5_ib_mmap_cmd and MLX5_IB_MMAP_OFFSET_START, mlx5_ib.h.
const (
	objectCommand = 9
	mostObjects   = 1 << 8
	pagesEnd      = (objectCommand + 1) << 8 * pageSize
)

// pageOffset returns the mmap offset of a page.
func pageOffset(command, index int) int64 { return int64(command<<8|index&0xff) * pageSize }

// uar is a page of doorbell registers. A page that is an object exists until the object is
// destroyed and no queue uses the page any more. A static page exists until the file is closed.
type uar struct {
	x      *mlx5File
	id     uint32
	offset int64
	mems   [][]byte // mappings of the page, one for each offset at which programs map it
	gone   bool     // the object is destroyed
	sends  []*mlx5SQ
	cqs    []*mlx5CQ
}

// newUAR makes a doorbell page. It returns nil if the page cannot be mapped.
func (x *mlx5File) newUAR(offset int64) *uar {
	u := &uar{x: x, id: x.nextUAR, offset: offset}
	if !u.addOffset(offset) {
		return nil
	}
	x.nextUAR++
	x.uars = append(x.uars, u)
	return u
}

// newStatic makes the static page i, which can be mapped at several offsets. A program in another
// process maps it without a call, so all offsets are polled from the beginning.
func (x *mlx5File) newStatic(i int) *uar {
	u := x.newUAR(pageOffset(abi.MLX5_IB_MMAP_REGULAR_PAGE, i))
	if u != nil && x.f.space != nil && !(u.addOffset(pageOffset(abi.MLX5_IB_MMAP_WC_PAGE, i)) && u.addOffset(pageOffset(abi.MLX5_IB_MMAP_NC_PAGE, i))) {
		return nil
	}
	return u
}

// addOffset adds an offset at which the page is polled. It reports false if the page cannot be mapped.
func (u *uar) addOffset(offset int64) bool {
	mem, err := unix.Mmap(u.x.fd, offset, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		u.mems = append(u.mems, mem)
	}
	return err == nil
}

// end unmaps the page from this process.
func (u *uar) end() {
	for _, mem := range u.mems {
		unix.Munmap(mem)
	}
	u.mems = nil
}

// kind returns the uverbs object type of a page.
func (u *uar) kind() uint16 { return abi.MLX5_IB_OBJECT_UAR }

// destroy destroys the object. The page stays as long as queues use it.
func (u *uar) destroy() {
	u.gone = true
	u.x.freeUnused()
}

// freeUnused frees the pages that neither an object nor a queue uses any more.
func (x *mlx5File) freeUnused() {
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

// allocUAR makes a page that is an object. The parameter typ is its type, BlueFlame or not cached.
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

// mmap maps a page into this process; main.c, mlx5_ib_mmap. A static page has several offsets.
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
	if at != int64(offset) && !x.uars[i].addOffset(int64(offset)) {
		return nil, syscall.ENOMEM
	}
	b, err := unix.Mmap(x.fd, int64(offset), length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, syscall.ENOMEM
	}
	return b, 0
}

// pageFor returns the page with the number that a new queue requests, nil if there is none.
func (x *mlx5File) pageFor(id uint32) *uar {
	for _, u := range x.uars {
		if u.id == id && !u.gone && u.offset >= pageOffset(objectCommand, 0) {
			return u
		}
	}
	return nil
}

// takeReg assigns a static register to a queue pair: a dedicated one if there is a free one, else
// the least used of the others; the first register is used only if there is no other (qp.c,
// alloc_bfreg).
func (x *mlx5File) takeReg() int {
	first, n := len(x.regs)-x.lowLat, len(x.regs)
	if x.lowLat < 0 { // -1: the program knows the first register only
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

// regSize returns the size of a doorbell register in bytes, both halves.
func (x *mlx5File) regSize() uint32 {
	if x.cfg.NoWC {
		return 0
	}
	return 512
}

// regAt returns the offset of a register in its page.
func (x *mlx5File) regAt(reg int) int {
	return abi.MLX5_BF_OFFSET + reg%regsPerUAR*int(x.regSize())
}

// look handles the doorbells of all pages, and reports whether there were any.
func (x *mlx5File) look() (any bool) {
	for _, u := range x.uars {
		if len(u.sends)+len(u.cqs) > 0 && u.look() {
			any = true
		}
	}
	return any
}

// take reads a doorbell and replaces it with 0; it returns 0 if there is none.
func take(b []byte) uint64 {
	if word.Load64(b) == 0 {
		return 0
	}
	uverbs.RaceReceived()
	var v [8]byte
	binary.NativeEndian.PutUint64(v[:], word.Swap64(b, 0))
	return binary.BigEndian.Uint64(v[:])
}

// look handles the doorbells of a page, and reports whether there were any.
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

// rung handles the doorbells in the halves of a register; 0 is no doorbell. Queue pairs that share
// the register may overwrite each other's doorbells, so the send queues of all of them are checked.
func (u *uar) rung(reg int, bells ...uint64) {
	for _, s := range u.sends {
		s.beginPoll()
	}
	for _, v := range bells {
		if v != 0 {
			u.ring(v, reg)
		}
	}
	for _, s := range u.sends {
		if s.doorbellSeen || s.reg < 0 || s.reg%regsPerUAR == reg || u.x.regSize() == 0 {
			s.endPoll()
		}
	}
}

// ring handles one doorbell in a register.
func (u *uar) ring(v uint64, reg int) {
	qpn := uint32(v) >> 8
	for _, s := range u.sends {
		if s.q.num != qpn || s.ended {
			continue
		}
		if s.reg >= 0 && s.reg%regsPerUAR != reg && u.x.regSize() != 0 {
			u.x.f.broke("QP %#x: a doorbell in register %d of its page, expected %d", qpn, reg, s.reg%regsPerUAR)
		}
		s.rung(v)
		return
	}
	u.x.f.broke("a doorbell %#016x of QP %#x in a page that the QP does not use", v, qpn)
}

// arm handles a doorbell of completion queues: w is the arming word, cqn the number of the queue.
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
			// A queue that has never been armed, with nothing consumed, may just have been armed
			// with a word of 0. Treating it as armed causes at most one superfluous event.
			c.arm(c.rec.be32(4))
		}
	}
	if !found {
		u.x.f.broke("a doorbell %#08x of completion queue %#x in a page that the queue does not use", w, cqn)
	}
}

// stray reports stores to the page outside of its doorbells.
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

// Observation of a program's accesses to an mlx5_ib device, for tests that compare programs.

// MLX5Watch observes what programs pass to an mlx5_ib device and to its driver. Its methods are
// called with the network's lock held: they must not call the network.
type MLX5Watch interface {
	// Made is called when an object was made or resized, with the program's driver-specific data.
	Made(what string, in []byte)
	// Rang is called for a doorbell with its page, counted from 0 in the order of creation for the
	// program, its offset in the page, and its 8 bytes, big endian. Data that is written after the
	// doorbell as BlueFlame is not reported.
	Rang(page, offset int, stored uint64)
}

// WatchMLX5 makes w observe the device. If w is nil, the observation ends.
func (k *Kernel) WatchMLX5(w MLX5Watch) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.watch = w
}

// made reports to the observer that an object was made or resized.
func (x *mlx5File) made(what string, d uhw) {
	if w := x.f.k.watch; w != nil {
		w.Made(what, slices.Clone(d.in))
	}
}

// rang reports a doorbell at an offset of the page to the observer, unless v is 0.
func (u *uar) rang(offset int, v uint64) {
	if w := u.x.f.k.watch; w != nil && v != 0 {
		w.Rang(int(u.id-firstUAR), offset, v)
	}
}

// MLX5Queue is a queue of an mlx5_ib device in a program's memory.
type MLX5Queue struct {
	Kind   string   // "sends", "receives", "shared" or "completions"
	Number uint32   // number of the queue pair, or of the queue itself
	Record []uint32 // the doorbell record when the list was made
	Size   int      // length of the queue in bytes
	Entry  int      // bytes of an entry, or of the unit in which entries are counted
	memory piece
}

// Memory returns a copy of the queue's present contents. The queue must not have been destroyed.
func (q *MLX5Queue) Memory() []byte {
	b := make([]byte, q.Size)
	if q.Size > 0 {
		q.memory.read(0, b)
	}
	return b
}

// MLX5Queues returns the queues of an mlx5_ib device, as programs have made them.
func (k *Kernel) MLX5Queues() (list []MLX5Queue) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	add := func(kind string, number uint32, buf, rec piece, entry int) {
		q := MLX5Queue{Kind: kind, Number: number, Size: buf.n, Entry: entry, memory: buf}
		for off := 0; off < rec.n; off += 4 {
			q.Record = append(q.Record, rec.be32(off))
		}
		list = append(list, q)
	}
	for _, f := range k.files {
		for _, h := range slices.Sorted(maps.Keys(f.objects)) {
			switch o := f.objects[h].(type) {
			case *cq:
				q := o.queue.(*mlx5CQ)
				add("completions", q.num, q.buf, q.rec, q.size)
			case *srq:
				q := o.queue.(*mlx5SRQ)
				add("shared", o.num, q.buf, q.rec, q.size)
			case *qp:
				s := o.sq.(*mlx5SQ)
				add("sends", o.num, s.buf, s.rec, block)
				if r, ok := o.rq.(*mlx5RQ); ok {
					buf := r.buf
					buf.n = int(r.n) << r.shift
					if buf.space == nil {
						buf.mem = buf.mem[:buf.n]
					}
					add("receives", o.num, buf, r.rec, 1<<r.shift)
				}
			}
		}
	}
	return list
}
