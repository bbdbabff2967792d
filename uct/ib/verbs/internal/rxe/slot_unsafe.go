//go:build linux

package rxe

// Soundness: slots lie in a mapping that Go's runtime does not manage and that stays
// until the ring is unmapped, when its slots are forgotten with it. newSlots is given
// a mapping of a header and mask+1 elements of 1<<log2 bytes, which ring.mmap has
// checked; an index is masked. Elements are as large as the struct asked for, with
// the pieces asked for behind it, which ring.mmap has checked too. All these structs
// are plain numbers, at offsets that are multiples of 8.

import (
	"unsafe"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

const (
	headerSize = int(unsafe.Sizeof(abi.RxeQueueBuf{}))
	sendSize   = int(unsafe.Sizeof(abi.RxeSendWqe{}))
	recvSize   = int(unsafe.Sizeof(abi.RxeRecvWqe{}))
	wcSize     = int(unsafe.Sizeof(abi.Wc{}))
	sgeSize    = int(unsafe.Sizeof(abi.RxeSge{}))
)

// slots are the elements of a ring.
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

// offset is where a slot is in the mapping.
func (s *slots) offset(i uint32) int { return headerSize + int(i&s.mask)<<(s.log2&31) }

func (s *slots) at(i uint32) unsafe.Pointer {
	return unsafe.Add(s.data, uintptr(i&s.mask)<<(s.log2&31))
}

// sendAt is the send at an offset.
func (s *slots) sendAt(n int) *abi.RxeSendWqe {
	return (*abi.RxeSendWqe)(unsafe.Add(s.data, n-headerSize))
}

func (s *slots) send(i uint32) *abi.RxeSendWqe { return (*abi.RxeSendWqe)(s.at(i)) }
func (s *slots) recv(i uint32) *abi.RxeRecvWqe { return (*abi.RxeRecvWqe)(s.at(i)) }
func (s *slots) wc(i uint32) *abi.Wc           { return (*abi.Wc)(s.at(i)) }
