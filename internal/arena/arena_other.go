//go:build !linux

package arena

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Options say where and how memory is mapped.
type Options struct {
	Address  uint64
	Fixed    bool
	Populate bool
	Huge     Huge
}

// Huge says what kind of pages to use.
type Huge uint8

// Kinds of pages.
const (
	SmallPages Huge = iota
	TransparentPages
	HugePages
)

// PageSize and HugePageSize are the sizes of pages.
var PageSize = 4096

const HugePageSize = 2 << 20

// Map is for Linux only.
func Map(length int, o Options) ([]byte, error) {
	return nil, fmt.Errorf("arena: not on this system: %w", ucs.ErrUnsupported)
}

// Unmap gives back what Map returned.
func Unmap([]byte) error { return nil }

// WillNeed does nothing.
func WillNeed([]byte, int, int) {}

// PageSizes returns the smallest and the largest size of the pages of memory.
func PageSizes([]byte) (smallest, largest int) { return PageSize, PageSize }
