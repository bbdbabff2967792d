//go:build linux

package rxe

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// ring is one ring; struct rxe_queue_buf. A slot belongs to one side at a time: the
// index that hands it over is stored after its bytes and loaded before them.
type ring struct {
	slots
	dev  provider.Device
	mem  []byte           // nil before mmap and after unmap
	head *abi.RxeQueueBuf // at the beginning of mem
	own  uint32           // the index this side writes
	peer uint32           // the other, when it was last looked at
}

// mmap maps the ring that the kernel has named, with elements of at least size
// bytes. What the header says is read once and checked against the length of the
// mapping.
func (r *ring) mmap(d provider.Device, mi abi.Mminfo, size int) error {
	if int(mi.Size) < headerSize || int64(mi.Size) > 1<<31-1 {
		return fmt.Errorf("verbs: %s: a ring of %d bytes: %w", d.Name(), mi.Size, ucs.ErrIO)
	}
	mem, err := d.Map(mi.Offset, int(mi.Size))
	if err != nil {
		return err
	}
	h := header(mem)
	log2, mask := h.Log2ElemSize, h.IndexMask
	if log2 > 20 || 1<<log2 < size || mask&(mask+1) != 0 || uint64(headerSize)+(uint64(mask)+1)<<log2 > uint64(len(mem)) {
		d.File.Munmap(mem)
		return fmt.Errorf("verbs: %s: a ring of %d bytes with elements of 2^%d and mask %#x: %w", d.Name(), len(mem), log2, mask, ucs.ErrIO)
	}
	*r = ring{slots: newSlots(mem, log2, mask), dev: d, mem: mem, head: h}
	return nil
}

func (r *ring) unmap() {
	if r.mem != nil {
		r.dev.File.Munmap(r.mem)
		*r = ring{}
	}
}

// next is the index behind own.
func (r *ring) next() uint32 { return (r.own + 1) & r.mask }

// room reports whether a producer has a slot left at own.
func (r *ring) room() bool {
	next := r.next()
	if next != r.peer {
		return true
	}
	r.peer = atomic.LoadUint32(&r.head.ConsumerIndex) & r.mask
	return next != r.peer
}

// held counts the slots of a producer that the other side has not taken yet.
func (r *ring) held() int {
	if r.mem == nil {
		return 0
	}
	return int((r.own - atomic.LoadUint32(&r.head.ConsumerIndex)) & r.mask)
}

// publish hands the slots before own to the kernel.
func (r *ring) publish() {
	uverbs.RaceSent()
	word.StoreRelease32(&r.head.ProducerIndex, r.own)
}

// published is what the kernel has been told of a producer's slots.
func (r *ring) published() uint32 { return atomic.LoadUint32(&r.head.ProducerIndex) & r.mask }
