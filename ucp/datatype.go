package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucs"
)

// DatatypeClass is the kind of memory that a Buffer describes (enum ucp_dt_type).
type DatatypeClass uint8

// Datatype classes, with C's numbers.
const (
	DatatypeContig  = DatatypeClass(datatype.Contig)
	DatatypeIOV     = DatatypeClass(datatype.IOV)
	DatatypeGeneric = DatatypeClass(datatype.Generic)
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

// Bytes returns a Buffer of contiguous memory.
func Bytes(b []byte) Buffer { return Buffer{set: true, class: DatatypeContig, elem: 1, bytes: b} }

// Elements returns a Buffer of contiguous memory made of elements of size bytes each. If the buffer
// is not a whole number of elements, or size is below 1, the operation fails with
// ucs.ErrInvalidParam.
func Elements(b []byte, size int) Buffer {
	return Buffer{set: true, class: DatatypeContig, elem: size, bytes: b}
}

// IOV returns a Buffer of memory in several pieces, in order. Pieces may be empty. The list and the
// pieces belong to the library until the operation is done.
func IOV(pieces ...[]byte) Buffer { return Buffer{set: true, class: DatatypeIOV, list: pieces} }

// Generic returns a Buffer of count objects that an application-defined datatype packs and unpacks.
func Generic(t *GenericType, object any, count int) Buffer {
	return Buffer{set: true, class: DatatypeGeneric, generic: t, object: object, count: count}
}

// IsZero reports whether the Buffer is zero: no buffer was given.
func (b *Buffer) IsZero() bool { return !b.set }

// Class returns the kind of the buffer.
func (b *Buffer) Class() DatatypeClass { return b.class }

// PackedSize returns the number of bytes that the buffer takes in a message. For a generic
// datatype PackedSize starts and finishes a packing.
func (b *Buffer) PackedSize() (int, error) {
	var p datatype.Payload
	if !b.set {
		return 0, nil
	}
	if err := initBuffer(nil, &p, b, true); err != nil {
		return 0, err
	}
	n := p.Length
	p.Finish()
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
	// PackedSize returns the number of bytes of the whole packed message, which does not
	// change.
	PackedSize() int

	// Pack writes bytes of the packed message from offset on and returns the number written.
	// Pack may write fewer than len(dst) bytes; to write none before the end is an error.
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

// checkContig returns an error if the buffer is not a whole number of elements.
func (b *Buffer) checkContig() error {
	if b.elem < 1 || len(b.bytes)%b.elem != 0 {
		return fmt.Errorf("ucp: a buffer of %d bytes is not a whole number of elements of %d bytes: %w", len(b.bytes), b.elem, ucs.ErrInvalidParam)
	}
	return nil
}

// The methods of datatypes are called as all functions of the application are (Worker.run): a panic
// ends the operation with an error, and the outermost library call then panics. If the worker is
// nil, because no worker has started the operation, a panic of the datatype passes straight through.

// errDatatype is the error of an operation whose datatype has panicked.
var errDatatype = fmt.Errorf("ucp: the datatype has panicked: %w", ucs.ErrCanceled)

// setBuffer makes b, which is not zero, the source or the destination of the request's operation.
func (r *Request) setBuffer(b *Buffer, send bool) error { return initBuffer(r.w, &r.data, b, send) }

// initBuffer makes the memory that b describes the memory of the payload p. send says whether p is
// sent or received. w is nil if no worker has started an operation.
func initBuffer(w *Worker, p *datatype.Payload, b *Buffer, send bool) error {
	switch b.class {
	case DatatypeGeneric:
		return initGeneric(w, p, b, send)
	case DatatypeIOV:
		p.SetList(b.list)
		return nil
	}
	if err := b.checkContig(); err != nil {
		return err
	}
	p.SetBytes(b.bytes)
	return nil
}

// initGeneric starts the packing or the unpacking of an application-defined datatype.
func initGeneric(w *Worker, p *datatype.Payload, b *Buffer, send bool) (err error) {
	if b.generic == nil || b.generic.ops == nil || b.count < 0 {
		return fmt.Errorf("ucp: Generic with a nil datatype, or a count of %d, wanted 0 or more: %w", b.count, ucs.ErrInvalidParam)
	}
	var st datatype.State
	method := "StartPack"
	err = errDatatype
	w.run(func() {
		if send {
			if s, e := b.generic.ops.StartPack(b.object, b.count); s != nil {
				st, err = s, e
			} else {
				err = e
			}
			return
		}
		method = "StartUnpack"
		if s, e := b.generic.ops.StartUnpack(b.object, b.count); s != nil {
			st, err = s, e
		} else {
			err = e
		}
	})
	switch {
	case err != nil:
		return err
	case st == nil:
		return fmt.Errorf("ucp: %s of the datatype has returned neither a state nor an error: %w", method, ucs.ErrInvalidParam)
	}
	n, err := 0, errDatatype
	w.run(func() { n, err = st.PackedSize(), nil })
	if err == nil && send && n < 0 {
		err = fmt.Errorf("ucp: packed size %d of a generic datatype: %w", n, ucs.ErrInvalidParam)
	}
	if err != nil {
		w.run(st.Finish)
		return err
	}
	p.SetState(st, max(n, 0))
	return nil
}

// packData copies packed bytes of the request's data, from offset off on, into dst, and returns
// their number (datatype.Payload.PackAt).
func packData(r *Request, dst []byte, off int) (n int) {
	if r.data.Class != datatype.Generic {
		return r.data.PackAt(dst, off)
	}
	r.w.run(func() { n = r.data.PackAt(dst, off) })
	return n
}

// unpackData stores src at offset off of the request's buffer. The caller has checked that src fits.
func unpackData(r *Request, src []byte, off int) (err error) {
	switch r.data.Class {
	case datatype.Contig: // UnpackAt without a call
		cpu.Copy(r.data.Buf[off:], src)
		return nil
	case datatype.IOV:
		return r.data.UnpackAt(src, off)
	}
	err = errDatatype
	r.w.run(func() { err = r.data.UnpackAt(src, off) })
	return err
}

// finishData finishes the state of the request's datatype and forgets the application's memory.
func finishData(r *Request) {
	if r.data.Class == datatype.Contig { // Payload.Finish without a call
		r.data.Buf = nil
		return
	}
	finishOther(r)
}

//go:noinline
func finishOther(r *Request) {
	if r.data.Class == datatype.Generic {
		r.w.run(r.data.Finish)
		return
	}
	r.data.Finish()
}

// RecvLength returns the number of bytes that a receive got, and Err. For a stream receive that
// ended with an error, the number is that of the bytes in the buffer; for other receives with an
// error the number means nothing.
func (r *Request) RecvLength() (int, error) {
	switch {
	case r == nil:
		return 0, errNoRequest
	case !r.Done():
		return 0, ucs.InProgress
	}
	return r.info.Length, r.err
}
