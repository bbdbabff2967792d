//go:build linux

package mlx5

// Soundness: as in queue_unsafe.go; an index is masked, and there are as many entries
// as a mask lets through. Entries are bytes, but for their last word, which is aligned.

import (
	"sync/atomic"
	"unsafe"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// entries is a queue of completions.
type entries struct {
	base unsafe.Pointer
	mask uint32
}

// newEntries is for a mapping of at least n entries, a power of two.
func newEntries(mem []byte, n uint32) entries {
	return entries{unsafe.Pointer(unsafe.SliceData(mem[:int(n)*cqeSize])), n - 1}
}

func (e *entries) at(i uint32) *abi.Mlx5Cqe64 {
	return (*abi.Mlx5Cqe64)(unsafe.Add(e.base, uintptr(i&e.mask)*cqeSize))
}

// last are the last 4 bytes, which end with the operation and the owner.
func (e *entries) last(i uint32) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(e.base, uintptr(i&e.mask)*cqeSize+cqeSize-4)))
}
