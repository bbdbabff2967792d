//go:build linux

package mlx5

// Soundness: queues are mappings that Go's runtime does not manage, which stay until
// their object is detached; who holds accessors then forgets them. Sizes are powers of
// two, and a mask keeps every offset inside, at a multiple of what lies there. All of it
// is bytes, but for the words, which are aligned.

import (
	"unsafe"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// segments is a queue of entries in units of 16 bytes, which may wrap.
type segments struct {
	base unsafe.Pointer
	mask uintptr // its size less 1
}

// newSegments is for a mapping of at least size bytes, a power of two from 64 on.
func newSegments(mem []byte, size int) segments {
	return segments{unsafe.Pointer(unsafe.SliceData(mem[:size])), uintptr(size - 1)}
}

// at is the segment at an offset, word its first 8 bytes, block the 64 around it.
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
