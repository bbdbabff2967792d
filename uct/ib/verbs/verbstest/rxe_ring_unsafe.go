//go:build linux

package verbstest

// Soundness: a ring's memory is a mapping of its own that stays until the object
// and, separately, the user's mapping of the same pages are gone; every index is
// masked and the mask is the kernel's own copy. Structs are read from bytes by copying.

import (
	"math/bits"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

const queueHeader = int(unsafe.Sizeof(abi.RxeQueueBuf{}))

// ring is a queue shared with the user, laid out as in rxe_queue.c.
type ring struct {
	mem    []byte // this side's mapping
	fd     int    // file of the memory; -1 once the user has mapped it, or if it has other rings
	offset uint64 // mmap offset for the user
	log2   uint
	mask   uint32
	index  uint32 // index that this side writes: consumer of work, producer of completions
}

// newRing makes a queue of at least n elements of elem bytes, at an offset of a file, or in a new
// file if the parameter file is -1.
func newRing(n uint32, elem, file int, offset uint64) (*ring, syscall.Errno) {
	r := &ring{log2: uint(bits.Len(uint(max(elem, 64) - 1))), mask: 1<<bits.Len32(n) - 1, fd: -1, offset: offset}
	size, at := (queueHeader+int(r.mask+1)<<r.log2+4095)&^4095, int64(offset)
	var err error
	if file < 0 {
		if r.fd, err = unix.MemfdCreate("verbstest", unix.MFD_CLOEXEC); err != nil {
			return nil, syscall.ENOMEM
		}
		file, at = r.fd, 0
	}
	if err = unix.Ftruncate(file, at+int64(size)); err == nil {
		r.mem, err = unix.Mmap(file, at, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		unix.Close(r.fd)
		return nil, syscall.ENOMEM
	}
	h := r.header()
	h.Log2ElemSize, h.IndexMask = uint32(r.log2), r.mask
	return r, 0
}

func (r *ring) header() *abi.RxeQueueBuf {
	return (*abi.RxeQueueBuf)(unsafe.Pointer(unsafe.SliceData(r.mem)))
}

// at returns the memory of element i.
func (r *ring) at(i uint32) []byte {
	off := queueHeader + int(i&r.mask)<<r.log2
	return r.mem[off : off+1<<r.log2]
}

// produced returns the user's producer index.
func (r *ring) produced() uint32 {
	n := atomic.LoadUint32(&r.header().ProducerIndex) & r.mask
	uverbs.RaceReceived()
	return n
}

// consume gives the element at index back to the user.
func (r *ring) consume() {
	r.index = (r.index + 1) & r.mask
	atomic.StoreUint32(&r.header().ConsumerIndex, r.index)
}

// full reports whether the user has left no room for a completion.
func (r *ring) full() bool {
	return (r.index+1)&r.mask == atomic.LoadUint32(&r.header().ConsumerIndex)&r.mask
}

// produce hands the element at index to the user.
func (r *ring) produce() {
	r.index = (r.index + 1) & r.mask
	uverbs.RaceSent()
	atomic.StoreUint32(&r.header().ProducerIndex, r.index)
}

// waiting returns the number of elements that the user has filled.
func (r *ring) waiting() uint32 { return (r.produced() - r.index) & r.mask }

// unread returns the number of completions that the user has not consumed.
func (r *ring) unread() uint32 {
	return (r.index - atomic.LoadUint32(&r.header().ConsumerIndex)) & r.mask
}

// free unmaps the memory; the user's mapping stays.
func (r *ring) free() {
	unix.Munmap(r.mem)
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
}

// view reads a member of the union in a work request.
func view[T abi.RxeRdmaWr | abi.RxeAtomicWr | abi.RxeMwWr | abi.RxeUdWr](wr *abi.RxeSendWr) T {
	return *(*T)(unsafe.Pointer(&wr.Wr))
}
