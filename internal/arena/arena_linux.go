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
	Address  uint64 // wanted address, 0 for any
	Fixed    bool   // exactly at Address or not at all
	Populate bool   // have all pages from the start
	Huge     Huge
	DontFork bool // a child process has nothing there: a device that writes keeps its pages
}

// Huge says what kind of pages to use.
type Huge uint8

// Kinds of pages.
const (
	SmallPages       Huge = iota
	TransparentPages      // huge where the kernel finds them
	HugePages             // from the pool of huge pages, or not at all
)

// PageSize is the size of a small page.
var PageSize = os.Getpagesize()

// HugePageSize is the size that huge mappings are rounded to.
const HugePageSize = 2 << 20

// Map maps zeroed memory of at least length bytes, rounded up to pages, that no
// other process shares. The caller gives it back with Unmap.
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
		// Kernels before 4.17 take the address for a hint.
		Unmap(b)
		return nil, fmt.Errorf("arena: %#x is in use: %w", o.Address, ucs.ErrBusy)
	}
	if o.DontFork {
		if err := unix.Madvise(b, unix.MADV_DONTFORK); err != nil {
			Unmap(b)
			return nil, fmt.Errorf("arena: keeping %d bytes from children: %w: %w", length, err, ucs.ErrNoMemory)
		}
	}
	if o.Huge == TransparentPages {
		unix.Madvise(b, unix.MADV_HUGEPAGE) // a wish
		if o.Populate {
			WillNeed(b, 0, len(b))
		}
	}
	return b, nil
}

// Unmap gives back what Map returned.
func Unmap(b []byte) error {
	if err := unmap(b); err != nil {
		return fmt.Errorf("arena: munmap: %w", err)
	}
	return nil
}

// WillNeed has the pages of b[off:off+n] of an arena present before they are
// used, where the kernel can.
func WillNeed(b []byte, off, n int) {
	if n <= 0 {
		return
	}
	from := off / PageSize * PageSize
	if err := unix.Madvise(b[from:off+n], unix.MADV_POPULATE_WRITE); err != nil {
		unix.Madvise(b[from:off+n], unix.MADV_WILLNEED) // a wish
	}
}
