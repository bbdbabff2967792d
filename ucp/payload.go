package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// copyPiece is the largest number of bytes that one round of progress copies for an operation, so
// that other operations go on.
const copyPiece = cpu.Piece

// copyMessage is cpu.Copy for a whole message, to memory that has room for it.
func copyMessage(dst, src []byte) {
	if len(src) == 8 { // the common length, without a call
		*(*[8]byte)(dst) = [8]byte(src)
		return
	}
	cpu.Copy(dst, src)
}

// payload is the memory of one operation, as a sequence of packed bytes that can be read or
// written in fragments at any offset. The memory belongs to the application.
type payload struct {
	w      *Worker // the worker of the operation, nil if there is none
	class  DatatypeClass
	piece  int32  // index in list of the last access; fragments mostly arrive in order
	length int    // number of bytes to send, or room to receive in bytes
	buf    []byte // DatatypeContig
	list   [][]byte
	state  state // DatatypeGeneric: a PackState to be sent, an UnpackState to receive into

	pieceOff int // offset of piece in the packed bytes
}

// initSend prepares b as the source of an operation, or buf if b is nil or zero.
func (p *payload) initSend(buf []byte, b *Buffer) error { return p.init(buf, b, true) }

// initRecv prepares b as the destination of an operation, or buf if b is nil or zero.
func (p *payload) initRecv(buf []byte, b *Buffer) error { return p.init(buf, b, false) }

func (p *payload) init(buf []byte, b *Buffer, send bool) error {
	switch {
	case b == nil || !b.set:
		p.class, p.buf, p.length = DatatypeContig, buf, len(buf)
		return nil
	case b.class != DatatypeGeneric:
		return p.initMemory(b)
	case b.generic == nil || b.generic.ops == nil || b.count < 0:
		return fmt.Errorf("ucp: Generic with a nil datatype, or a count of %d, wanted 0 or more: %w", b.count, ucs.ErrInvalidParam)
	case send:
		return p.startPack(b)
	}
	return p.startUnpack(b)
}

// startPack starts the packing of a generic datatype.
func (p *payload) startPack(b *Buffer) error {
	st, err := p.w.startPack(b)
	if err != nil {
		return err
	}
	n, err := p.w.packedSize(st)
	if err != nil {
		p.w.finishState(st)
		return err
	}
	if n < 0 {
		p.w.finishState(st)
		return fmt.Errorf("ucp: packed size %d of a generic datatype: %w", n, ucs.ErrInvalidParam)
	}
	p.class, p.state, p.length = DatatypeGeneric, st, n
	return nil
}

// startUnpack starts the unpacking of a generic datatype.
func (p *payload) startUnpack(b *Buffer) error {
	st, err := p.w.startUnpack(b)
	if err != nil {
		return err
	}
	n, err := p.w.packedSize(st)
	if err != nil {
		p.w.finishState(st)
		return err
	}
	p.class, p.state, p.length = DatatypeGeneric, st, max(n, 0)
	return nil
}

// initMemory prepares a contiguous buffer or a list.
func (p *payload) initMemory(b *Buffer) error {
	p.class = b.class
	if b.class == DatatypeContig {
		if err := b.checkContig(); err != nil {
			return err
		}
		p.buf, p.length = b.bytes, len(b.bytes)
		return nil
	}
	p.list, p.length, p.piece, p.pieceOff = b.list, 0, 0, 0
	for _, e := range b.list {
		p.length += len(e)
	}
	return nil
}

// finish finishes the state of a datatype and forgets the application's memory. It is idempotent.
func (p *payload) finish() {
	if p.class == DatatypeContig {
		p.buf = nil // the only field besides length that a contiguous payload sets
		return
	}
	if p.state != nil {
		p.w.finishState(p.state)
	}
	*p = payload{w: p.w}
}

// packAt copies packed bytes from offset off on into dst, and returns how many. If it returns
// fewer than asked for before the end, a generic datatype has failed to pack.
func (p *payload) packAt(dst []byte, off int) int {
	switch p.class {
	case DatatypeContig:
		return cpu.Copy(dst, p.buf[off:])
	case DatatypeIOV:
		n := 0
		for n < len(dst) && p.seek(off+n) {
			n += cpu.Copy(dst[n:], p.list[p.piece][off+n-p.pieceOff:])
		}
		return n
	default:
		dst = dst[:min(len(dst), p.length-off)]
		n := 0
		for n < len(dst) {
			k := p.w.packState(p.state.(PackState), off+n, dst[n:])
			if k <= 0 || k > len(dst)-n {
				break
			}
			n += k
		}
		return n
	}
}

// unpackAt stores src at offset off. The caller has checked that src fits.
func (p *payload) unpackAt(src []byte, off int) error {
	switch p.class {
	case DatatypeContig:
		cpu.Copy(p.buf[off:], src)
		return nil
	case DatatypeIOV:
		n := 0
		for n < len(src) && p.seek(off+n) {
			n += cpu.Copy(p.list[p.piece][off+n-p.pieceOff:], src[n:])
		}
		return nil
	default:
		return p.w.unpackState(p.state.(UnpackState), off, src)
	}
}

// gather lists the memory of up to limit packed bytes from offset off on, in at most len(dst)
// entries. It returns the number of entries used and of the bytes that they cover. It must not be
// called for generic datatypes.
func (p *payload) gather(dst []uct.IOV, off, limit int) (entries, n int) {
	limit = min(limit, p.length-off)
	if p.class == DatatypeContig {
		dst[0] = uct.IOV{Data: p.buf[off : off+limit]}
		return 1, limit
	}
	for n < limit && entries < len(dst) && p.seek(off+n) {
		e := p.list[p.piece][off+n-p.pieceOff:]
		e = e[:min(len(e), limit-n)]
		dst[entries] = uct.IOV{Data: e}
		entries++
		n += len(e)
	}
	return entries, n
}

// seek sets piece to the index of the list entry that holds offset off. It returns false at the
// end.
func (p *payload) seek(off int) bool {
	if off < p.pieceOff {
		p.piece, p.pieceOff = 0, 0
	}
	for int(p.piece) < len(p.list) {
		if n := len(p.list[p.piece]); off < p.pieceOff+n {
			return true
		}
		p.pieceOff += len(p.list[p.piece])
		p.piece++
	}
	return false
}

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
// datatype PackedSize starts and finishes a packing.
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

// checkContig validates an element size.
func (b *Buffer) checkContig() error {
	if b.elem < 1 || len(b.bytes)%b.elem != 0 {
		return fmt.Errorf("ucp: a buffer of %d bytes is not a whole number of elements of %d bytes: %w", len(b.bytes), b.elem, ucs.ErrInvalidParam)
	}
	return nil
}

// The methods of datatypes are called as all functions of the application are: a panic ends the
// operation with an error, and the outermost library call then panics. If w is nil, because no
// worker has started the operation, a panic of the datatype passes straight through.

// errDatatype is the error of an operation whose datatype has panicked.
var errDatatype = fmt.Errorf("ucp: the datatype has panicked: %w", ucs.ErrCanceled)

// startPack starts the packing of b.
func (w *Worker) startPack(b *Buffer) (st PackState, err error) {
	err = errDatatype
	w.run(func() { st, err = b.generic.ops.StartPack(b.object, b.count) })
	if st == nil && err == nil {
		err = errNoState("StartPack")
	}
	return st, err
}

func (w *Worker) startUnpack(b *Buffer) (st UnpackState, err error) {
	err = errDatatype
	w.run(func() { st, err = b.generic.ops.StartUnpack(b.object, b.count) })
	if st == nil && err == nil {
		err = errNoState("StartUnpack")
	}
	return st, err
}

//go:noinline
func errNoState(method string) error {
	return fmt.Errorf("ucp: %s of the datatype has returned neither a state nor an error: %w", method, ucs.ErrInvalidParam)
}

// state is the common part of PackState and UnpackState.
type state interface {
	PackedSize() int
	Finish()
}

func (w *Worker) packedSize(st state) (n int, err error) {
	err = errDatatype
	w.run(func() { n, err = st.PackedSize(), nil })
	return n, err
}

func (w *Worker) finishState(st state) { w.run(st.Finish) }

// packState calls Pack and returns its result, 0 if the datatype panics.
func (w *Worker) packState(st PackState, off int, dst []byte) (n int) {
	w.run(func() { n = st.Pack(off, dst) })
	return n
}

func (w *Worker) unpackState(st UnpackState, off int, src []byte) (err error) {
	err = errDatatype
	w.run(func() { err = st.Unpack(off, src) })
	return err
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
