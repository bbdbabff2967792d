//go:build linux

package mlx5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
)

// Doorbell pages. A UAR is 4 KiB of registers of the adapter: one on which completion
// queues are armed, and two on which queue pairs ring. The kernel either gives a fixed
// number of them with the device (static), and says for each queue pair which to use, or
// makes pages on request (dynamic, from Linux 5.7), and is told; providers/mlx5/mlx5.c.
//
// Each register of the two has two halves, which are used in turn. A bell is one store of
// 64 bits that names its queue: queue pairs that share a register need no lock. Of what
// is written as BlueFlame the adapter takes an entry out of the register, so there sharing
// needs one. Pages for BlueFlame combine writes; without it they are mapped uncached.
const registersPerUAR = 4 // as they are counted; two of them are for the kernel's fast path

// register is where queue pairs ring.
type register struct {
	bells [2]*uint64     // the halves
	flame [2][][8]uint64 // the same in blocks, of BlueFlame
	page  uint32         // its number; dynamic
	users int            // queue pairs that share it; under pages.mu

	mu   sync.Mutex
	half uint32 // under mu: which is next, of BlueFlame
}

// pages are the doorbell pages of a device.
type pages struct {
	mapped  [][]byte
	arm     *uint64 // where completion queues are armed
	dynamic bool
	armPage uint32 // of completion queues and, without BlueFlame, of queue pairs; dynamic

	perPage int // UARs in a page
	regSize int // bytes of a register; 0: they do not combine writes
	blue    bool
	mostOwn int // registers that are given to one queue pair each
	mostAll int // registers in all; dynamic

	mu    sync.Mutex
	plain *register            // under mu: on the page of armPage
	fixed map[uint32]*register // under mu: static, by the kernel's number
	own   []*register          // under mu: free ones, for one queue pair each
	mixed []*register          // under mu: shared ones
	made  int                  // under mu: those in own and mixed, and those of one queue pair
}

// registers is what the kernel is asked for: 16, of which 4 are not shared, and more
// where pages are larger (providers/mlx5/mlx5.c, get_total_uuars).
func registers() (all, own uint32) {
	const usual, shared = 16, 12
	all = max(usual, uint32(arena.PageSize/abi.MLX5_ADAPTER_PAGE_SIZE*2))
	return all, all - shared
}

// open maps what is there from the beginning.
func (p *pages) open(c *context) error {
	r := &c.answer
	p.perPage, p.regSize = int(r.NumUarsPerPage), int(r.BfRegSize)
	size := 1 << (r.LogUarSize & 31)
	if r.LogUarSize == 0 && r.NumUarsPerPage == 0 { // old: the page is one
		p.perPage, size = 1, arena.PageSize
	}
	if size < abi.MLX5_ADAPTER_PAGE_SIZE || p.perPage < 1 || p.perPage > arena.PageSize/abi.MLX5_ADAPTER_PAGE_SIZE ||
		p.regSize&(p.regSize-1) != 0 || p.regSize != 0 && p.regSize < 16 || abi.MLX5_BF_OFFSET+2*p.regSize > abi.MLX5_ADAPTER_PAGE_SIZE {
		return fmt.Errorf("verbs: %s: %d doorbell pages of 2^%d bytes in a page, with registers of %d bytes: %w",
			c.dev.Name(), r.NumUarsPerPage, r.LogUarSize, r.BfRegSize, ucs.ErrIO)
	}
	p.blue = blueFlame() && p.regSize >= 2*blockSize
	all, own := registers()
	p.mostAll, p.mostOwn = int(all), int(own)
	p.fixed = make(map[uint32]*register)
	if r.TotBfregs != 0 {
		return p.openStatic(c)
	}
	p.dynamic = true
	page, number, err := p.make(c, abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
	if err != nil {
		return err
	}
	p.arm, p.armPage = bellAt(page, abi.MLX5_CQ_DOORBELL), number
	p.plain = p.register(page, 0, 0, number, false)
	p.plain.bells[1] = p.plain.bells[0]
	return nil
}

// maxPages bounds what is mapped of a static device (MLX5_MAX_UARS, providers/mlx5/mlx5.h).
const maxPages = 256

func (p *pages) openStatic(c *context) error {
	n := int(c.answer.TotBfregs) / (2 * p.perPage)
	if n < 1 || n > maxPages {
		return fmt.Errorf("verbs: %s: %d registers, %d to a page: %w", c.dev.Name(), c.answer.TotBfregs, 2*p.perPage, ucs.ErrIO)
	}
	for i := range n {
		page, err := p.mapFixed(c, i)
		if err != nil {
			return err
		}
		p.mapped = append(p.mapped, page)
	}
	p.arm = bellAt(p.mapped[0], abi.MLX5_CQ_DOORBELL)
	return nil
}

// mapFixed maps one of the pages that came with the device. Old kernels do not know
// uncached ones.
func (p *pages) mapFixed(c *context, i int) ([]byte, error) {
	offset := func(command int) uint64 {
		return uint64(arena.PageSize) * uint64(i>>8<<16|command<<8|i&0xff)
	}
	if !p.blue {
		if page, err := c.dev.Map(offset(abi.MLX5_IB_MMAP_NC_PAGE), arena.PageSize); err == nil {
			return page, nil
		}
	}
	page, err := c.dev.Map(offset(abi.MLX5_IB_MMAP_REGULAR_PAGE), arena.PageSize)
	return page, refused(err, unmapped)
}

// What may be the matter with doorbell pages, of which there is no work without one.
const (
	unmapped = "it is a doorbell page of the adapter; a limit of mappings (vm.max_map_count, ulimit -v), a sandbox, or a virtual machine without the adapter's registers may be in the way"
	unmade   = "the adapter has only so many doorbell pages: let fewer processes have it open, or none with VERBS_BLUEFLAME=1"
)

// refused adds to the error of a call what may help, if it is one of too little or of no right.
func refused(err error, hint string) error {
	var e *uverbs.Error
	if errors.As(err, &e) && e.Hint == "" && slices.Contains(scant, e.Errno) {
		e.Hint = hint
	}
	return err
}

var scant = []syscall.Errno{syscall.ENOMEM, syscall.ENOSPC, syscall.EAGAIN, syscall.EPERM, syscall.EACCES}

// make has the kernel make a page, and maps it.
func (p *pages) make(c *context, kind uint64) (page []byte, number uint32, err error) {
	var handle uint32
	var offset [8]byte
	var length, id [4]byte
	err = c.dev.Do(uverbs.NewCall(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC).
		New(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, &handle).
		Const(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, kind).
		Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset[:]).
		Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length[:]).
		Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, id[:]))
	if err != nil {
		return nil, 0, refused(err, unmade)
	}
	if n := binary.NativeEndian.Uint32(length[:]); n < uint32(p.perPage)*abi.MLX5_ADAPTER_PAGE_SIZE || n > uint32(arena.PageSize) {
		err = fmt.Errorf("verbs: %s: a doorbell page of %d bytes: %w", c.dev.Name(), n, ucs.ErrIO)
	} else {
		page, err = c.dev.Map(binary.NativeEndian.Uint64(offset[:]), int(n))
		err = refused(err, unmapped)
	}
	if err != nil {
		c.dev.Do(uverbs.NewCall(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_DESTROY).
			Destroy(abi.MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, handle))
		return nil, 0, err
	}
	p.mapped = append(p.mapped, page)
	return page, binary.NativeEndian.Uint32(id[:]), nil
}

// register is the k-th of a UAR in a page.
func (p *pages) register(page []byte, uar, k int, number uint32, blue bool) *register {
	at := uar*abi.MLX5_ADAPTER_PAGE_SIZE + abi.MLX5_BF_OFFSET + k*p.regSize
	r := &register{page: number}
	for i := range r.bells {
		r.bells[i] = bellAt(page, at+i*p.regSize/2)
		if blue {
			r.flame[i] = flameAt(page, at+i*p.regSize/2, p.regSize/2)
		}
	}
	return r
}

// static is the register that the kernel has chosen for a queue pair. The first one has
// but one half, and nothing but bells.
func (p *pages) static(c *context, number uint32) (*register, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.fixed[number]; r != nil {
		return r, nil
	}
	uar, k := number/registersPerUAR, number%registersPerUAR
	page := uar / uint32(p.perPage)
	if page >= uint32(len(p.mapped)) || k > 1 {
		return nil, fmt.Errorf("verbs: %s: register %d of %d doorbell pages: %w", c.dev.Name(), number, len(p.mapped), ucs.ErrIO)
	}
	r := p.register(p.mapped[page], int(uar)%p.perPage, int(k), 0, p.blue && number != 0)
	if number == 0 {
		r.bells[1] = r.bells[0]
	}
	p.fixed[number] = r
	return r, nil
}

// get is a register for a new queue pair of a device whose pages are dynamic, as
// rdma-core chooses it (providers/mlx5/verbs.c, mlx5_get_qp_uar): the first have one each,
// those after them share as evenly as there are.
func (p *pages) get(c *context) (*register, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.blue {
		return p.plain, nil
	}
	if len(p.own) == 0 && p.made < p.mostAll {
		page, number, err := p.make(c, abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF)
		if err != nil {
			return nil, err
		}
		for i := range 2 * p.perPage {
			r := p.register(page, i/2, i%2, number+uint32(i/2), true)
			if p.made < p.mostOwn {
				p.own = append(p.own, r)
			} else {
				p.mixed = append(p.mixed, r)
			}
			p.made++
		}
	}
	if len(p.own) > 0 {
		r := p.own[0]
		p.own = p.own[1:]
		return r, nil
	}
	best := p.mixed[0]
	for _, r := range p.mixed {
		if r.users < best.users {
			best = r
		}
	}
	best.users++
	return best, nil
}

// put takes a register back that get has returned.
func (p *pages) put(r *register) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r == p.plain:
	case r.users > 0:
		r.users--
	default:
		p.own = append(p.own, r)
	}
}

func (p *pages) close(c *context) {
	for _, page := range p.mapped {
		c.dev.File.Munmap(page)
	}
	p.mapped = nil
}
