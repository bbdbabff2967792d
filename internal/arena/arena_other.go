//go:build !linux

package arena

import (
	"fmt"
	"math"
	"os"

	"github.com/ucx-go/ucx/ucs"
)

// Options say where and how memory is mapped. Here they are wishes, but for Fixed and
// HugePages, which are not there.
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

// HugePageSize is the size that huge mappings are rounded to.
const HugePageSize = 2 << 20

// Map returns zeroed memory of at least length bytes, rounded up to pages. It is Go's,
// whose collector moves nothing: it stays where it is while the slice is kept.
func Map(length int, o Options) ([]byte, error) {
	if length <= 0 || length > maxLength {
		return nil, fmt.Errorf("arena: %d bytes: %w", length, ucs.ErrInvalidParam)
	}
	if o.Fixed || o.Huge == HugePages {
		return nil, fmt.Errorf("arena: no memory at a fixed address or of huge pages on this system: %w", ucs.ErrUnsupported)
	}
	return make([]byte, (length+PageSize-1)/PageSize*PageSize), nil
}

// maxLength is what is tried at most: a heap ends the program when there is not enough.
const maxLength = min(64<<30, math.MaxInt/2)

// Unmap does nothing: the collector finds out.
func Unmap([]byte) error { return nil }

// WillNeed does nothing.
func WillNeed([]byte, int, int) {}

// PageSizes returns the smallest and the largest size of the pages of memory.
func PageSizes([]byte) (smallest, largest int) { return PageSize, PageSize }
