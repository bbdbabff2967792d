//go:build linux

package mlx5

// Soundness: as in queue_unsafe.go. An index is masked, and the mapping has an entry for each value
// of the mask. Entries consist of bytes, except for their last word, which is aligned.

import (
	"sync/atomic"
	"unsafe"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// entries gives access to the memory of a completion queue.
type entries struct {
	base unsafe.Pointer
	mask uint32
}

// newEntries returns the first n entries of a mapping; n is a power of two.
func newEntries(mem []byte, n uint32) entries {
	return entries{unsafe.Pointer(unsafe.SliceData(mem[:int(n)*cqeSize])), n - 1}
}

func (e *entries) at(i uint32) *abi.Mlx5Cqe64 {
	return (*abi.Mlx5Cqe64)(unsafe.Add(e.base, uintptr(i&e.mask)*cqeSize))
}

// last returns the last 4 bytes of an entry, which end with the operation and the owner bit.
func (e *entries) last(i uint32) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(e.base, uintptr(i&e.mask)*cqeSize+cqeSize-4)))
}
