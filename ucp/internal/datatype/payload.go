// Package datatype reads and writes the memory of one operation as a sequence of packed bytes.
//
// The memory is of one of three classes: one buffer, a list of buffers, or objects that an
// application-defined datatype packs and unpacks. Messages leave and arrive in fragments, in any
// order when several lanes carry them, so a Payload is accessed at offsets. A list remembers the
// entry of the last access, because fragments mostly arrive in order.
//
// A Payload is a value within a request. It has no lock: only the goroutine that owns the worker
// may use it. The memory belongs to the application. Package ucp prepares payloads from the public
// type Buffer, and guards the calls of application-defined datatypes, which may panic.
package datatype

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/uct"
)

// Piece is the largest number of bytes that one round of progress copies for an operation, so that
// long copies do not hold up other operations.
const Piece = cpu.Piece

// Copy copies a whole message to memory that has room for it.
func Copy(dst, src []byte) {
	if len(src) == 8 { // the common length, without a call
		*(*[8]byte)(dst) = [8]byte(src)
		return
	}
	cpu.Copy(dst, src)
}

// Class is the kind of the memory (enum ucp_dt_type, with its numbers).
type Class uint8

// Classes of memory.
const (
	Contig  Class = 0 // one buffer
	IOV     Class = 2 // a list of buffers
	Generic Class = 7 // objects of an application-defined datatype
)

// State is the state of packing or unpacking an application-defined datatype for one operation: a
// Packer or an Unpacker.
type State interface {
	PackedSize() int // size of the packed data in bytes
	Finish()         // called once, at the end of the operation
}

// Packer is the state of a payload that is sent.
type Packer interface {
	State

	// Pack fills dst with packed bytes that begin at an offset of the packed data, and returns
	// the number of bytes written. 0 means that packing has failed.
	Pack(offset int, dst []byte) int
}

// Unpacker is the state of a payload that is received.
type Unpacker interface {
	State

	// Unpack unpacks src, bytes that begin at an offset of the packed data.
	Unpack(offset int, src []byte) error
}

// Payload is the memory of one operation. The zero Payload is an empty buffer.
type Payload struct {
	Class  Class
	piece  int32    // index of the entry of List that was accessed last
	Length int      // number of bytes to send, or room for bytes to receive
	Buf    []byte   // the memory if Class is Contig
	List   [][]byte // the memory if Class is IOV
	state  State    // the datatype's state if Class is Generic

	pieceOff int // offset of the entry List[piece] in the packed bytes
}

// SetBytes makes the payload one buffer. The payload has to be zero or finished.
func (p *Payload) SetBytes(b []byte) { p.Class, p.Buf, p.Length = Contig, b, len(b) }

// SetList makes the payload a list of buffers, in order.
func (p *Payload) SetList(list [][]byte) {
	p.Class, p.List, p.Length, p.piece, p.pieceOff = IOV, list, 0, 0, 0
	for _, e := range list {
		p.Length += len(e)
	}
}

// SetState makes the payload n packed bytes of an application-defined datatype. Finish calls
// s.Finish.
func (p *Payload) SetState(s State, n int) { p.Class, p.state, p.Length = Generic, s, n }

// Finish calls State.Finish if there is a state, and drops the references to the application's
// memory. It is idempotent.
func (p *Payload) Finish() {
	if p.Class == Contig {
		p.Buf = nil // the only field besides Length that a contiguous payload sets
		return
	}
	p.finish()
}

func (p *Payload) finish() {
	st := p.state
	*p = Payload{}
	if st != nil {
		st.Finish()
	}
}

// PackAt copies packed bytes from offset off on into dst, and returns their number. If dst is not
// full and the end is not reached, the application-defined datatype has failed to pack.
func (p *Payload) PackAt(dst []byte, off int) int {
	switch p.Class {
	case Contig:
		return cpu.Copy(dst, p.Buf[off:])
	case IOV:
		n := 0
		for n < len(dst) && p.seek(off+n) {
			n += cpu.Copy(dst[n:], p.List[p.piece][off+n-p.pieceOff:])
		}
		return n
	default:
		dst = dst[:min(len(dst), p.Length-off)]
		n := 0
		for n < len(dst) {
			k := p.state.(Packer).Pack(off+n, dst[n:])
			if k <= 0 || k > len(dst)-n {
				break
			}
			n += k
		}
		return n
	}
}

// UnpackAt stores src at offset off of the packed bytes. The caller has checked that src fits. Only
// an application-defined datatype can fail.
func (p *Payload) UnpackAt(src []byte, off int) error {
	switch p.Class {
	case Contig:
		cpu.Copy(p.Buf[off:], src)
		return nil
	case IOV:
		n := 0
		for n < len(src) && p.seek(off+n) {
			n += cpu.Copy(p.List[p.piece][off+n-p.pieceOff:], src[n:])
		}
		return nil
	default:
		return p.state.(Unpacker).Unpack(off, src)
	}
}

// Gather lists the memory of up to limit packed bytes from offset off on, in at most len(dst)
// entries. It returns the number of entries used and of the bytes that they cover. It must not be
// called for generic datatypes.
func (p *Payload) Gather(dst []uct.IOV, off, limit int) (entries, n int) {
	limit = min(limit, p.Length-off)
	if p.Class == Contig {
		dst[0] = uct.IOV{Data: p.Buf[off : off+limit]}
		return 1, limit
	}
	for n < limit && entries < len(dst) && p.seek(off+n) {
		e := p.List[p.piece][off+n-p.pieceOff:]
		e = e[:min(len(e), limit-n)]
		dst[entries] = uct.IOV{Data: e}
		entries++
		n += len(e)
	}
	return entries, n
}

// seek sets piece to the index of the list entry that holds offset off. It returns false at the
// end.
func (p *Payload) seek(off int) bool {
	if off < p.pieceOff {
		p.piece, p.pieceOff = 0, 0
	}
	for int(p.piece) < len(p.List) {
		if n := len(p.List[p.piece]); off < p.pieceOff+n {
			return true
		}
		p.pieceOff += len(p.List[p.piece])
		p.piece++
	}
	return false
}
