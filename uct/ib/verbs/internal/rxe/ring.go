//go:build linux

package rxe

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// ring is a ring of slots that this process and the kernel share; struct rxe_queue_buf. A slot
// belongs either to this process or to the kernel. Its owner hands it over by storing the producer
// or consumer index after the last access to the slot; the other loads that index before it
// accesses the slot.
type ring struct {
	slots
	dev       provider.Device
	mem       []byte           // nil before mmap and after unmap
	head      *abi.RxeQueueBuf // at the beginning of mem
	own       uint32           // the index that this process advances, as producer or as consumer
	peerIndex uint32           // the index that the kernel advances, as last loaded
}

// mmap maps the ring at the location mi that the kernel has returned, and checks that its elements
// have at least size bytes. The header is read once, and checked against the length of the mapping.
func (r *ring) mmap(d provider.Device, mi abi.Mminfo, size int) error {
	if int(mi.Size) < headerSize || int64(mi.Size) > 1<<31-1 {
		return fmt.Errorf("verbs: %s: invalid ring of %d bytes: %w", d.Name(), mi.Size, ucs.ErrIO)
	}
	mem, err := d.Map(mi.Offset, int(mi.Size))
	if err != nil {
		return err
	}
	h := header(mem)
	log2, mask := h.Log2ElemSize, h.IndexMask
	if log2 > 20 || 1<<log2 < size || mask&(mask+1) != 0 || uint64(headerSize)+(uint64(mask)+1)<<log2 > uint64(len(mem)) {
		d.File.Munmap(mem)
		return fmt.Errorf("verbs: %s: invalid ring of %d bytes with elements of 2^%d bytes and mask %#x: %w", d.Name(), len(mem), log2, mask, ucs.ErrIO)
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

// next returns the index after r.own.
func (r *ring) next() uint32 { return (r.own + 1) & r.mask }

// room reports whether this process, as the producer, may fill the slot at index r.own.
func (r *ring) room() bool {
	next := r.next()
	if next != r.peerIndex {
		return true
	}
	r.peerIndex = atomic.LoadUint32(&r.head.ConsumerIndex) & r.mask
	return next != r.peerIndex
}

// unconsumed returns the number of slots that this process, as the producer, has filled and the kernel
// has not consumed yet.
func (r *ring) unconsumed() int {
	if r.mem == nil {
		return 0
	}
	return int((r.own - atomic.LoadUint32(&r.head.ConsumerIndex)) & r.mask)
}

// publish hands the slots before index r.own to the kernel.
func (r *ring) publish() {
	uverbs.RaceSent()
	word.StoreRelease32(&r.head.ProducerIndex, r.own)
}

// published returns the index after the last slot that publish has handed to the kernel.
func (r *ring) published() uint32 { return atomic.LoadUint32(&r.head.ProducerIndex) & r.mask }
