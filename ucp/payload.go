package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// copyPiece is the most that is copied while nothing else goes on.
const copyPiece = cpu.Piece

// copyMessage is cpu.Copy for a whole message, to memory that has room for it.
func copyMessage(dst, src []byte) {
	if len(src) == 8 { // as costs no call
		*(*[8]byte)(dst) = [8]byte(src)
		return
	}
	cpu.Copy(dst, src)
}

// payload is the user's memory of one operation, as a run of packed bytes that
// can be read or written in fragments at any offset.
type payload struct {
	w      *Worker // whose operation it is, nil of none
	class  DatatypeClass
	piece  int32  // of the list: position of the last access, fragments mostly come in order
	length int    // bytes to send, or room to receive into
	buf    []byte // DatatypeContig
	list   [][]byte
	state  state // DatatypeGeneric: a PackState to be sent, an UnpackState to receive into

	pieceOff int // offset of piece in the packed bytes
}

// initSend prepares b, or buf where b is zero or nil, as a source.
func (p *payload) initSend(buf []byte, b *Buffer) error { return p.init(buf, b, true) }

// initRecv prepares b, or buf where b is zero or nil, as a destination.
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

// startPack begins the packing of a generic datatype.
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

// startUnpack begins the unpacking of a generic datatype.
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

// finish ends a datatype state and forgets the user's memory. It is idempotent.
func (p *payload) finish() {
	if p.class == DatatypeContig {
		p.buf = nil // all that a contiguous payload sets but its length
		return
	}
	if p.state != nil {
		p.w.finishState(p.state)
	}
	*p = payload{w: p.w}
}

// packAt copies packed bytes from offset on into dst and returns how many. Less
// than asked for before the end means that a generic datatype gave up.
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

// unpackAt stores src at offset off. The caller has checked that it fits.
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

// gather lists the memory of up to limit packed bytes from offset on, in at most
// len(dst) entries. It returns the entries used and the bytes they cover. It is
// for contiguous memory and lists only.
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

// seek makes piece the list entry that holds offset off; false at the end.
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
