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
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Doorbell pages. A UAR is 4 KiB of registers of the adapter: one register arms completion queues,
// and two are doorbell registers of queue pairs. A device is static or dynamic. For a static device
// the kernel allocates a fixed number of UARs when the device is opened, and chooses the register
// of each queue pair. For a dynamic device (from Linux 5.7) the kernel allocates pages on request,
// and this package chooses the page of each queue pair; providers/mlx5/mlx5.c.
//
// Each of the two registers has two halves, which are used alternately. A doorbell is one 64-bit
// store that contains the number of its queue, so queue pairs that share a register need no lock.
// With BlueFlame the adapter takes a whole entry from the register, so sharing needs a lock.
// BlueFlame pages are mapped write-combining; without BlueFlame pages are mapped uncached.
const registersPerUAR = 4 // in the kernel's numbering; two of the four are for the kernel's fast path

// register is a doorbell register of queue pairs.
type register struct {
	bells [2]*uint64     // the first word of each half
	flame [2][][8]uint64 // the blocks of each half; empty without BlueFlame
	page  uint32         // the kernel's number of its UAR; dynamic devices only
	users int            // number of queue pairs that share it; under pages.mu

	mu   sync.Mutex
	half uint32 // under mu: the half to use next; with BlueFlame only
}

// pages are the doorbell pages of a device.
type pages struct {
	mapped  [][]byte
	arm     *uint64 // the register that arms completion queues
	dynamic bool    // the device is dynamic, not static
	armPage uint32  // UAR of completion queues and, without BlueFlame, of queue pairs; dynamic only

	perPage      int  // number of UARs in a page
	regSize      int  // bytes of a register; 0: registers do not combine writes
	blue         bool // BlueFlame is used
	maxExclusive int  // largest number of registers that serve one queue pair each
	maxRegisters int  // largest number of all registers; dynamic only

	mu        sync.Mutex
	plain     *register            // under mu: the register on armPage
	byNumber  map[uint32]*register // under mu: registers by the kernel's number; static only
	exclusive []*register          // under mu: free registers that serve one queue pair each
	mixed     []*register          // under mu: shared registers
	made      int                  // under mu: number of registers created, except plain; dynamic only
}

// registers returns the number of doorbell registers to request from the kernel, and how many of
// them are for one queue pair each: 16 and 4, or more if memory pages are larger
// (providers/mlx5/mlx5.c, get_total_uuars).
func registers() (all, own uint32) {
	const usual, shared = 16, 12
	all = max(usual, uint32(arena.PageSize/abi.MLX5_ADAPTER_PAGE_SIZE*2))
	return all, all - shared
}

// open maps the first doorbell pages: all of a static device, one of a dynamic device.
func (p *pages) open(c *context) error {
	r := &c.answer
	p.perPage, p.regSize = int(r.NumUarsPerPage), int(r.BfRegSize)
	size := 1 << (r.LogUarSize & 31)
	if r.LogUarSize == 0 && r.NumUarsPerPage == 0 { // an old kernel: a page is one UAR
		p.perPage, size = 1, arena.PageSize
	}
	if size < abi.MLX5_ADAPTER_PAGE_SIZE || p.perPage < 1 || p.perPage > arena.PageSize/abi.MLX5_ADAPTER_PAGE_SIZE ||
		p.regSize&(p.regSize-1) != 0 || p.regSize != 0 && p.regSize < 16 || abi.MLX5_BF_OFFSET+2*p.regSize > abi.MLX5_ADAPTER_PAGE_SIZE {
		return fmt.Errorf("verbs: %s: invalid layout of doorbells: %d pages of 2^%d bytes in a page, registers of %d bytes: %w",
			c.dev.Name(), r.NumUarsPerPage, r.LogUarSize, r.BfRegSize, ucs.ErrIO)
	}
	p.blue = blueFlame() && p.regSize >= 2*blockSize
	all, own := registers()
	p.maxRegisters, p.maxExclusive = int(all), int(own)
	p.byNumber = make(map[uint32]*register)
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

// maxPages bounds the number of pages of a static device (MLX5_MAX_UARS, providers/mlx5/mlx5.h).
const maxPages = 256

func (p *pages) openStatic(c *context) error {
	n := int(c.answer.TotBfregs) / (2 * p.perPage)
	if n < 1 || n > maxPages {
		return fmt.Errorf("verbs: %s: invalid number of doorbell registers: %d, with %d in a page: %w", c.dev.Name(), c.answer.TotBfregs, 2*p.perPage, ucs.ErrIO)
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

// mapFixed maps page i of a static device. Old kernels do not support uncached mappings.
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

// Hints for errors of mapping or allocating doorbell pages. Without a doorbell page a device cannot
// be used.
const (
	unmapped = "the mapping is a doorbell page of the adapter; a limit of mappings (vm.max_map_count, ulimit -v), a sandbox, or a virtual machine without the adapter's registers may prevent it"
	unmade   = "all doorbell pages of the adapter are in use: open it in fewer processes, and in none with VERBS_BLUEFLAME=1"
)

// refused adds a hint to the error of a call that lacked a resource or a permission.
func refused(err error, hint string) error {
	var e *uverbs.Error
	if errors.As(err, &e) && e.Hint == "" && slices.Contains(resourceErrnos, e.Errno) {
		e.Hint = hint
	}
	return err
}

// resourceErrnos lists the errnos that mean a lack of resources or of permission.
var resourceErrnos = []syscall.Errno{syscall.ENOMEM, syscall.ENOSPC, syscall.EAGAIN, syscall.EPERM, syscall.EACCES}

// make has the kernel allocate a doorbell page of a dynamic device, and maps it. number is the
// kernel's number of the page's first UAR.
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

// register returns doorbell register k of a UAR. uar is the index of the UAR in the page, number
// its number in the kernel, and blue says whether BlueFlame is used.
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

// static returns the register that the kernel has chosen for a queue pair. Register 0 has only one
// half, and takes only doorbells.
func (p *pages) static(c *context, number uint32) (*register, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.byNumber[number]; r != nil {
		return r, nil
	}
	uar, k := number/registersPerUAR, number%registersPerUAR
	page := uar / uint32(p.perPage)
	if page >= uint32(len(p.mapped)) || k > 1 {
		return nil, fmt.Errorf("verbs: %s: doorbell register %d is not in the %d mapped pages: %w", c.dev.Name(), number, len(p.mapped), ucs.ErrIO)
	}
	r := p.register(p.mapped[page], int(uar)%p.perPage, int(k), 0, p.blue && number != 0)
	if number == 0 {
		r.bells[1] = r.bells[0]
	}
	p.byNumber[number] = r
	return r, nil
}

// get returns a register for a new queue pair of a dynamic device, chosen as in rdma-core
// (providers/mlx5/verbs.c, mlx5_get_qp_uar): the first queue pairs have a register each, later ones
// share registers evenly.
func (p *pages) get(c *context) (*register, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.blue {
		return p.plain, nil
	}
	if len(p.exclusive) == 0 && p.made < p.maxRegisters {
		page, number, err := p.make(c, abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF)
		if err != nil {
			return nil, err
		}
		for i := range 2 * p.perPage {
			r := p.register(page, i/2, i%2, number+uint32(i/2), true)
			if p.made < p.maxExclusive {
				p.exclusive = append(p.exclusive, r)
			} else {
				p.mixed = append(p.mixed, r)
			}
			p.made++
		}
	}
	if len(p.exclusive) > 0 {
		r := p.exclusive[0]
		p.exclusive = p.exclusive[1:]
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

// put takes back a register that get has returned.
func (p *pages) put(r *register) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r == p.plain:
	case r.users > 0:
		r.users--
	default:
		p.exclusive = append(p.exclusive, r)
	}
}

func (p *pages) close(c *context) {
	for _, page := range p.mapped {
		c.dev.File.Munmap(page)
	}
	p.mapped = nil
}
