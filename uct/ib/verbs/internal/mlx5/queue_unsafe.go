//go:build linux

package mlx5

// Soundness: queues are mappings that the Go runtime does not manage. They stay until their object
// is detached, which clears the accessors. Sizes are powers of two, and a mask keeps every offset
// inside the mapping, at a multiple of the size of the accessed element. Elements consist of bytes,
// except for the words, which are aligned.

import (
	"unsafe"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// segments is the memory of a queue in units of 16 bytes. An entry may wrap around the end.
type segments struct {
	base unsafe.Pointer
	mask uintptr // size of the memory in bytes less 1
}

// newSegments returns the queue in the first size bytes of a mapping; size is a power of two, at
// least 64.
func newSegments(mem []byte, size int) segments {
	return segments{unsafe.Pointer(unsafe.SliceData(mem[:size])), uintptr(size - 1)}
}

// at returns the segment of 16 bytes at an offset in bytes. word returns the first 8 bytes of that
// segment, block the block of 64 bytes that contains it.
func (s *segments) at(off uint32) *[16]byte {
	return (*[16]byte)(unsafe.Add(s.base, uintptr(off)&s.mask&^15))
}
func (s *segments) word(off uint32) *uint64 { return (*uint64)(unsafe.Pointer(s.at(off))) }
func (s *segments) block(off uint32) unsafe.Pointer {
	return unsafe.Add(s.base, uintptr(off)&s.mask&^63)
}
func (s *segments) words(off uint32) *[8]uint64 { return (*[8]uint64)(s.block(off)) }
func (s *segments) av(off uint32) *abi.Mlx5WqeAv {
	return (*abi.Mlx5WqeAv)(unsafe.Add(s.block(off), 16))
}
func (s *segments) umr(off uint32) *umrBlock   { return (*umrBlock)(s.block(off)) }
func (s *segments) mkey(off uint32) *mkeyBlock { return (*mkeyBlock)(s.block(off)) }
func (s *segments) klm(off uint32) *klmBlock   { return (*klmBlock)(s.block(off)) }
func (s *segments) link(off uint32) *abi.Mlx5WqeSrqNextSeg {
	return (*abi.Mlx5WqeSrqNextSeg)(unsafe.Pointer(s.at(off)))
}
