//go:build linux

package rxe

// Soundness: slots are in a mapping that the Go runtime does not manage. It stays until the ring is
// unmapped, which also clears the accessors. newSlots gets a mapping of a header and mask+1
// elements of 1<<log2 bytes, which ring.mmap has checked; an index is masked. ring.mmap has also
// checked that an element is large enough for the accessed struct and the scatter/gather elements
// after it. All these structs consist of numbers, at offsets that are multiples of 8.

import (
	"unsafe"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

const (
	headerSize = int(unsafe.Sizeof(abi.RxeQueueBuf{}))
	sendSize   = int(unsafe.Sizeof(abi.RxeSendWqe{}))
	recvSize   = int(unsafe.Sizeof(abi.RxeRecvWqe{}))
	wcSize     = int(unsafe.Sizeof(abi.Wc{}))
	sgeSize    = int(unsafe.Sizeof(abi.RxeSge{}))
)

// slots gives access to the elements of a ring.
type slots struct {
	data unsafe.Pointer
	log2 uint32
	mask uint32
}

func newSlots(mem []byte, log2, mask uint32) slots {
	return slots{unsafe.Pointer(&mem[headerSize]), log2, mask}
}

func header(mem []byte) *abi.RxeQueueBuf {
	return (*abi.RxeQueueBuf)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// offset returns the offset in bytes of slot i in the mapping.
func (s *slots) offset(i uint32) int { return headerSize + int(i&s.mask)<<(s.log2&31) }

func (s *slots) at(i uint32) unsafe.Pointer {
	return unsafe.Add(s.data, uintptr(i&s.mask)<<(s.log2&31))
}

// sendAt returns the send request at offset n in the mapping.
func (s *slots) sendAt(n int) *abi.RxeSendWqe {
	return (*abi.RxeSendWqe)(unsafe.Add(s.data, n-headerSize))
}

func (s *slots) send(i uint32) *abi.RxeSendWqe { return (*abi.RxeSendWqe)(s.at(i)) }
func (s *slots) recv(i uint32) *abi.RxeRecvWqe { return (*abi.RxeRecvWqe)(s.at(i)) }
func (s *slots) wc(i uint32) *abi.Wc           { return (*abi.Wc)(s.at(i)) }
