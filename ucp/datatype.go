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

// Buffer describes the memory of an operation where a plain []byte is not
// enough. Make one with Bytes, Elements, IOV or Generic. The zero Buffer stands
// for "none given".
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

// Elements is contiguous memory made of elements of size bytes each. A buffer
// that is no whole number of elements, or a size below 1, makes the operation
// fail with ucs.ErrInvalidParam.
func Elements(b []byte, size int) Buffer {
	return Buffer{set: true, class: DatatypeContig, elem: size, bytes: b}
}

// IOV is memory in pieces, in order. Empty pieces are allowed anywhere. The
// list and the pieces belong to the library until the operation is done.
func IOV(pieces ...[]byte) Buffer { return Buffer{set: true, class: DatatypeIOV, list: pieces} }

// Generic is count objects that an application-defined datatype packs and
// unpacks.
func Generic(t *GenericType, object any, count int) Buffer {
	return Buffer{set: true, class: DatatypeGeneric, generic: t, object: object, count: count}
}

// IsZero reports whether no buffer was given.
func (b *Buffer) IsZero() bool { return !b.set }

// Class returns the kind of the buffer.
func (b *Buffer) Class() DatatypeClass { return b.class }

// PackedSize returns the bytes the buffer takes in a message. A generic
// datatype is started and finished to find out.
func (b *Buffer) PackedSize() (int, error) {
	var p payload
	if err := p.initSend(nil, b); err != nil {
		return 0, err
	}
	n := p.length
	p.finish()
	return n, nil
}

// GenericOps packs and unpacks objects of an application-defined datatype
// (struct ucp_generic_dt_ops). Every state that is started is finished exactly
// once, also when the operation fails or is canceled. The methods run on the
// goroutine that starts or progresses the operation. One that panics ends the
// operation with an error, and the call of the library that it ran in panics with a
// CallbackPanic; the state is finished all the same.
type GenericOps interface {
	// StartPack begins the packing of count objects. nil without an error fails the
	// operation with ucs.ErrInvalidParam, as in StartUnpack.
	StartPack(object any, count int) (PackState, error)

	// StartUnpack begins the unpacking of up to count objects.
	StartUnpack(object any, count int) (UnpackState, error)
}

// PackState is one packing in progress.
type PackState interface {
	// PackedSize is the number of bytes of the whole packed message. It does not
	// change.
	PackedSize() int

	// Pack writes bytes of the packed message from offset on and returns how
	// many; fewer than len(dst) is fine, none before the end is an error.
	Pack(offset int, dst []byte) int

	// Finish ends the packing.
	Finish()
}

// UnpackState is one unpacking in progress.
type UnpackState interface {
	// PackedSize is the number of bytes that can be unpacked; a longer message
	// is truncated.
	PackedSize() int

	// Unpack takes bytes of the packed message from offset on. Offsets may come
	// in any order. An error fails the receive; it is not called again then.
	Unpack(offset int, src []byte) error

	// Finish ends the unpacking.
	Finish()
}

// GenericType is an application-defined datatype.
type GenericType struct{ ops GenericOps }

// NewGeneric makes a datatype of its operations.
func NewGeneric(ops GenericOps) *GenericType { return &GenericType{ops: ops} }

// checkContig validates an element size.
func (b *Buffer) checkContig() error {
	if b.elem < 1 || len(b.bytes)%b.elem != 0 {
		return fmt.Errorf("ucp: a buffer of %d bytes is no whole number of elements of %d bytes: %w", len(b.bytes), b.elem, ucs.ErrInvalidParam)
	}
	return nil
}
