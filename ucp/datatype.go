package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// DatatypeClass is the kind of a Buffer (enum ucp_dt_type).
type DatatypeClass uint8

// Datatype classes, with C's numbers.
const (
	DatatypeContig  DatatypeClass = 0
	DatatypeIOV     DatatypeClass = 2
	DatatypeGeneric DatatypeClass = 7
)

// Buffer describes the memory of an operation where a plain []byte is not enough. Bytes,
// Elements, IOV and Generic make one. The zero Buffer means that none was given.
type Buffer struct {
	class   DatatypeClass
	set     bool
	elem    int
	bytes   []byte
	list    [][]byte
	generic *GenericType
	object  any
	count   int
}

// Bytes is contiguous memory.
func Bytes(b []byte) Buffer { return Buffer{set: true, class: DatatypeContig, elem: 1, bytes: b} }

// Elements is contiguous memory made of elements of size bytes each. If the buffer is not a
// whole number of elements, or size is below 1, the operation fails with
// ucs.ErrInvalidParam.
func Elements(b []byte, size int) Buffer {
	return Buffer{set: true, class: DatatypeContig, elem: size, bytes: b}
}

// IOV is memory in several pieces, in order. Pieces may be empty. The list and the pieces
// belong to the library until the operation is done.
func IOV(pieces ...[]byte) Buffer { return Buffer{set: true, class: DatatypeIOV, list: pieces} }

// Generic is count objects that an application-defined datatype packs and unpacks.
func Generic(t *GenericType, object any, count int) Buffer {
	return Buffer{set: true, class: DatatypeGeneric, generic: t, object: object, count: count}
}

// IsZero reports whether the Buffer is zero: no buffer was given.
func (b *Buffer) IsZero() bool { return !b.set }

// Class returns the kind of the buffer.
func (b *Buffer) Class() DatatypeClass { return b.class }

// PackedSize returns the number of bytes that the buffer takes in a message. For a generic
// datatype it starts and finishes a packing.
func (b *Buffer) PackedSize() (int, error) {
	var p payload
	if err := p.initSend(nil, b); err != nil {
		return 0, err
	}
	n := p.length
	p.finish()
	return n, nil
}

// GenericOps packs and unpacks objects of an application-defined datatype (struct
// ucp_generic_dt_ops). Every state that is started is finished exactly once, even if the
// operation fails or is canceled. The methods run on the goroutine that starts or
// progresses the operation. If a method panics, the operation ends with an error, the state
// is finished, and the library call that the method ran in panics with a CallbackPanic.
type GenericOps interface {
	// StartPack begins to pack count objects. A nil state without an error fails the
	// operation with ucs.ErrInvalidParam; the same holds for StartUnpack.
	StartPack(object any, count int) (PackState, error)

	// StartUnpack begins to unpack up to count objects.
	StartUnpack(object any, count int) (UnpackState, error)
}

// PackState is one packing in progress.
type PackState interface {
	// PackedSize returns the number of bytes of the whole packed message. It does not
	// change.
	PackedSize() int

	// Pack writes bytes of the packed message from offset on and returns the number
	// written. It may write fewer than len(dst) bytes; to write none before the end is an
	// error.
	Pack(offset int, dst []byte) int

	// Finish ends the packing.
	Finish()
}

// UnpackState is one unpacking in progress.
type UnpackState interface {
	// PackedSize returns the number of bytes that can be unpacked. A longer message is
	// truncated.
	PackedSize() int

	// Unpack takes bytes of the packed message that begin at offset. Offsets may come in
	// any order. An error fails the receive, and Unpack is not called again.
	Unpack(offset int, src []byte) error

	// Finish ends the unpacking.
	Finish()
}

// GenericType is an application-defined datatype.
type GenericType struct{ ops GenericOps }

// NewGeneric makes a datatype from its operations.
func NewGeneric(ops GenericOps) *GenericType { return &GenericType{ops: ops} }

// checkContig validates an element size.
func (b *Buffer) checkContig() error {
	if b.elem < 1 || len(b.bytes)%b.elem != 0 {
		return fmt.Errorf("ucp: a buffer of %d bytes is not a whole number of elements of %d bytes: %w", len(b.bytes), b.elem, ucs.ErrInvalidParam)
	}
	return nil
}
