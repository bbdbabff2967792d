//go:build linux

package uverbs

// Soundness: a Frame's memory is one slice of the heap without pointers, aligned for the structs
// laid over it; Header and Attrs check bounds before they do so. Addresses inside the slice are
// passed to the kernel as numbers only while the slice is pinned (Call.Do), so it is neither moved
// nor freed.

import (
	"runtime"
	"unsafe"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

const (
	headerSize = int(unsafe.Sizeof(abi.IoctlHdr{}))
	attrSize   = int(unsafe.Sizeof(abi.Attr{}))
)

// Frame is the memory of one request: header and attributes, then the data that the attributes
// point to.
type Frame struct {
	words []uint64
}

// NewFrame returns a zeroed frame of at least n bytes.
func NewFrame(n int) *Frame { return &Frame{words: make([]uint64, (n+7)/8)} }

// reset makes f a zeroed frame of at least n bytes.
func (f *Frame) reset(n int) {
	if n = (n + 7) / 8; n > cap(f.words) {
		f.words = make([]uint64, n)
	}
	f.words = f.words[:n]
	clear(f.words)
}

// Bytes returns the memory of the frame.
func (f *Frame) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f.words))), len(f.words)*8)
}

// Base returns the address of the frame.
func (f *Frame) Base() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(f.words)))) }

// pin holds the frame in place until p is unpinned.
func (f *Frame) pin(p *runtime.Pinner) { p.Pin(unsafe.SliceData(f.words)) }

// Header returns the header at the start, nil if the frame has no room for one.
func (f *Frame) Header() *abi.IoctlHdr {
	if len(f.words)*8 < headerSize {
		return nil
	}
	return (*abi.IoctlHdr)(unsafe.Pointer(unsafe.SliceData(f.words)))
}

// Attrs returns the first n attributes, or as many as the frame has room for.
func (f *Frame) Attrs(n int) []abi.Attr {
	n = min(n, (len(f.words)*8-headerSize)/attrSize)
	if n <= 0 {
		return nil
	}
	return unsafe.Slice((*abi.Attr)(unsafe.Pointer(&f.words[headerSize/8])), n)
}

// inline returns the bytes of data in attribute a itself.
func inline(a *abi.Attr) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&a.Data)), 8) }
