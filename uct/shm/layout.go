//go:build linux

package shm

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// A ring's segment (uct_mm_fifo_ctl_t and uct_mm_fifo_element_t in
// src/uct/sm/mm/base/mm_iface.h), with 64-byte cache lines:
//
//	  0  u64 head, bit 63: wake the receiver     first line: senders
//	  8  u32 length of the wakeup address
//	 12  sockaddr_un
//	128  u64 tail                                third line: the receiver
//	136  i32 process id of the owner
//	144  u32 mark of this library, in padding
//	148  u32 notes (notes.go), in padding
//	192  elements
const (
	headOffset    = 0
	addrLenOffset = 8
	addrOffset    = 12
	tailOffset    = 128
	pidOffset     = 136
	markOffset    = 144
	notesOffset   = 148
	elemsOffset   = 192

	cacheLine = 64

	// sockaddrLen is the size of struct sockaddr_un.
	sockaddrLen = 110
)

// Bits of head. C UCX takes all bits but armed for one number, the count of claimed elements. Every
// release treats a ring whose head is far ahead of its tail as full; release 1.13 compares the
// lower 32 bits as a signed number.
const (
	armed  = 1 << 63       // UCT_MM_IFACE_FIFO_HEAD_EVENT_ARMED
	beyond = 1<<62 | 1<<30 // added to the head of a closed ring, which then looks full
)

// mark, in the padding, says that the ring's owner uses this library. Endpoints of this
// library take the length of a peer's ring from the peer's segment.
const mark = 0x4f47_4355 // "UCGO"

// An element:
//
//	 0  u8 flags, u8 active message id, u16 length     the sender, last
//	 4  u64 segment, u32 its size, u32 offset          the receiver: descriptor
//	20  u64 private to the receiver
//	28  inline payload
const (
	elemDesc     = 4
	elemDescSize = 12
	elemDescOff  = 16
	elemPayload  = 28

	flagPhase  = 1 << 0 // UCT_MM_FIFO_ELEM_FLAG_OWNER
	flagInline = 1 << 1 // UCT_MM_FIFO_ELEM_FLAG_INLINE
)

// Limits of the settings.
const (
	minRing     = 2
	maxRing     = 1 << 20
	minElemSize = 64
	maxElemSize = 1 << 14
	maxBcopy    = 1<<16 - 1 // an element's length has 16 bits
	maxChunk    = 1 << 30   // a descriptor's offset has 32 bits
	minSegSize  = 8
	maxSegSize  = maxChunk
)

// ringSize returns the size in bytes of a segment for n elements of elem bytes
// (UCT_MM_GET_FIFO_SIZE).
func ringSize(n, elem int) int { return elemsOffset + n*elem + cacheLine - 1 }

// ringLen returns the largest number of elements that a ring in a segment of size bytes can have:
// the largest power of two that fits. For a default length and pages of 4 KiB this is the length of
// the ring. countElements finds out whether a ring is shorter.
func ringLen(size, elem int) (int, error) {
	room := (size - ringSize(0, elem)) / elem
	if size > ringSize(maxRing, elem) || room < minRing {
		return 0, fmt.Errorf("a ring of elements of %d bytes does not have %d bytes: %w", elem, size, ucs.ErrUnreachable)
	}
	n := minRing
	for n*2 <= room {
		n *= 2
	}
	return n, nil
}

// descriptor locates the receive buffer for the payload of a buffered message.
type descriptor struct {
	seg    uint64 // id of the segment that contains the buffer
	size   uint32 // bytes of the segment
	offset uint32 // offset of the buffer in the segment, in bytes
}

// put writes d into an element.
func (d *descriptor) put(elem []byte) {
	_ = elem[elemPayload]
	binary.LittleEndian.PutUint64(elem[elemDesc:], d.seg)
	binary.LittleEndian.PutUint32(elem[elemDescSize:], d.size)
	binary.LittleEndian.PutUint32(elem[elemDescOff:], d.offset)
}

// readDescriptor reads the descriptor that the owner of a ring wrote into an element.
func readDescriptor(elem []byte) descriptor {
	_ = elem[elemPayload]
	return descriptor{
		seg:    binary.LittleEndian.Uint64(elem[elemDesc:]),
		size:   binary.LittleEndian.Uint32(elem[elemDescSize:]),
		offset: binary.LittleEndian.Uint32(elem[elemDescOff:]),
	}
}

// elementWord returns the first word of an element.
func elementWord(flags uint32, id uint8, length int) uint32 {
	return flags | uint32(id)<<8 | uint32(length)<<16
}
