package arena

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// Options say where and how memory is mapped. The zero value leaves everything
// to the kernel.
type Options struct {
	Address  uint64 // the requested address, 0 for any
	Fixed    bool   // fail unless the memory is exactly at Address
	Populate bool   // allocate all pages when mapping
	Huge     Huge
	DontFork bool // children do not inherit the mapping, so no copy-on-write moves pages that a device writes
}

// Huge says what kind of pages to use.
type Huge uint8

// Kinds of pages.
const (
	SmallPages       Huge = iota
	TransparentPages      // huge if the kernel has free huge pages
	HugePages             // from the pool of huge pages; Map fails if it is exhausted
)

// PageSize is the size of a small page.
var PageSize = os.Getpagesize()

// HugePageSize is the size to which huge mappings are rounded up.
const HugePageSize = 2 << 20

// Map maps zeroed private memory of at least length bytes, rounded up to pages. The caller frees it
// with Unmap.
func Map(length int, o Options) ([]byte, error) {
	page := PageSize
	if o.Huge == HugePages {
		page = HugePageSize
	}
	if length <= 0 || length > math.MaxInt-page || o.Fixed && uint64(uintptr(o.Address)) != o.Address {
		return nil, fmt.Errorf("arena: %d bytes at %#x: %w", length, o.Address, ucs.ErrInvalidParam)
	}
	length = (length + page - 1) / page * page
	flags := unix.MAP_PRIVATE | unix.MAP_ANON
	if o.Populate && o.Huge != TransparentPages {
		flags |= unix.MAP_POPULATE
	}
	if o.Huge == HugePages {
		flags |= unix.MAP_HUGETLB
	}
	if o.Fixed {
		flags |= unix.MAP_FIXED_NOREPLACE
	}
	b, err := mapAt(uintptr(o.Address), length, flags)
	if err != nil {
		status := ucs.ErrNoMemory
		if o.Fixed && err == unix.EEXIST {
			status = ucs.ErrBusy
		}
		return nil, fmt.Errorf("arena: mmap of %d bytes at %#x: %w: %w", length, o.Address, WithLimit(err), status)
	}
	if o.Fixed && address(b) != uintptr(o.Address) {
		// Kernels before 4.17 treat the address as a hint.
		Unmap(b)
		return nil, fmt.Errorf("arena: %#x is in use: %w", o.Address, ucs.ErrBusy)
	}
	if o.DontFork {
		if err := unix.Madvise(b, unix.MADV_DONTFORK); err != nil {
			Unmap(b)
			return nil, fmt.Errorf("arena: madvise(MADV_DONTFORK) of %d bytes: %w: %w", length, err, ucs.ErrNoMemory)
		}
	}
	if o.Huge == TransparentPages {
		unix.Madvise(b, unix.MADV_HUGEPAGE) // a hint, which may fail
		if o.Populate {
			WillNeed(b, 0, len(b))
		}
	}
	return b, nil
}

// Unmap frees memory that Map has returned.
func Unmap(b []byte) error {
	if err := unmap(b); err != nil {
		return fmt.Errorf("arena: munmap: %w", err)
	}
	return nil
}

// WillNeed asks the kernel to allocate the pages of b[off:off+n] of an arena before they are used.
func WillNeed(b []byte, off, n int) {
	if n <= 0 {
		return
	}
	from := off / PageSize * PageSize
	if err := unix.Madvise(b[from:off+n], unix.MADV_POPULATE_WRITE); err != nil {
		unix.Madvise(b[from:off+n], unix.MADV_WILLNEED) // a hint, which may fail
	}
}
