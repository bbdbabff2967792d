//go:build !linux

package arena

import (
	"fmt"
	"math"
	"os"

	"github.com/ucx-go/ucx/ucs"
)

// Options say where and how memory is mapped. On this system Fixed and HugePages are unsupported
// and the other options are ignored.
type Options struct {
	Address  uint64
	Fixed    bool
	Populate bool
	Huge     Huge
	DontFork bool
}

// Huge says what kind of pages to use.
type Huge uint8

// Kinds of pages.
const (
	SmallPages Huge = iota
	TransparentPages
	HugePages
)

// PageSize is the size of a small page.
var PageSize = os.Getpagesize()

// HugePageSize is the size to which huge mappings are rounded up.
const HugePageSize = 2 << 20

// Map returns zeroed memory of at least length bytes, rounded up to pages. The memory is allocated
// by Go, whose garbage collector does not move it, and lives as long as the slice is referenced.
func Map(length int, o Options) ([]byte, error) {
	if length <= 0 || length > maxLength {
		return nil, fmt.Errorf("arena: %d bytes: %w", length, ucs.ErrInvalidParam)
	}
	if o.Fixed || o.Huge == HugePages {
		return nil, fmt.Errorf("arena: no memory at a fixed address or of huge pages on this system: %w", ucs.ErrUnsupported)
	}
	return make([]byte, (length+PageSize-1)/PageSize*PageSize), nil
}

// maxLength is the most that Map tries to allocate: running out of Go heap ends the program.
const maxLength = min(64<<30, math.MaxInt/2)

// Unmap does nothing: the garbage collector frees the memory.
func Unmap([]byte) error { return nil }

// WillNeed does nothing.
func WillNeed([]byte, int, int) {}

// PageSizes returns the smallest and the largest size of the pages of the memory.
func PageSizes([]byte) (smallest, largest int) { return PageSize, PageSize }
