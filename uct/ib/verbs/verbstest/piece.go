//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/word"

// piece is a range of a program's memory: bytes of this process, or addresses of a Space.
type piece struct {
	mem   []byte
	space Space // memory of another program, from addr on; nil: the memory is mem
	addr  uint64
	n     int
}

// within returns n bytes of a program's memory, which must be mapped; a nil space is this process.
func within(s Space, addr uint64, n int) piece {
	if s == nil {
		return piece{mem: memory(addr, n), n: n}
	}
	return piece{space: s, addr: addr, n: n}
}

// local returns a piece of this process's memory.
func local(b []byte) piece { return piece{mem: b, n: len(b)} }

// from returns the part after the first n bytes.
func (p piece) from(n int) piece {
	if p.space == nil {
		return local(p.mem[n:])
	}
	return piece{space: p.space, addr: p.addr + uint64(n), n: p.n - n}
}

// read fills b from an offset. Memory that is no longer mapped leaves b as it was; the owner of
// registered memory must keep it mapped.
func (p *piece) read(off int, b []byte) {
	if p.space == nil {
		copy(b, p.mem[off:])
		return
	}
	p.space.Read(p.addr+uint64(off), b)
}

// write stores b at an offset.
func (p *piece) write(off int, b []byte) {
	if p.space == nil {
		copy(p.mem[off:], b)
		return
	}
	p.space.Write(p.addr+uint64(off), b)
}

// bounce is the buffer for copies between two pieces that are both in other programs.
type bounce [64 << 10]byte

// copyPiece copies as many bytes as both pieces have, and returns their number. If both are in
// other programs, it copies at most one buffer.
func (b *bounce) copyPiece(to, from piece) int {
	n := min(to.n, from.n)
	switch {
	case to.space == nil && from.space == nil:
		copy(to.mem, from.mem)
	case to.space == nil:
		from.read(0, to.mem[:n])
	case from.space == nil:
		to.write(0, from.mem[:n])
	default:
		n = min(n, len(b))
		from.read(0, b[:n])
		to.write(0, b[:n])
	}
	return n
}

// move copies a message from the pieces of one list to those of another, up to the end of the
// shorter list.
func (b *bounce) move(to, from []piece) {
	var dst, src piece
	for {
		for dst.n == 0 {
			if len(to) == 0 {
				return
			}
			dst, to = to[0], to[1:]
		}
		for src.n == 0 {
			if len(from) == 0 {
				return
			}
			src, from = from[0], from[1:]
		}
		n := b.copyPiece(dst, src)
		dst, src = dst.from(n), src.from(n)
	}
}

// gather copies the pieces of a list to one piece.
func (b *bounce) gather(to piece, from []piece) {
	for i := range from {
		for src := from[i]; src.n > 0 && to.n > 0; {
			n := b.copyPiece(to, src)
			to, src = to.from(n), src.from(n)
		}
	}
}

// scatter copies one piece to the pieces of a list.
func (b *bounce) scatter(to []piece, from piece) {
	for i := range to {
		for dst := to[i]; dst.n > 0 && from.n > 0; {
			n := b.copyPiece(dst, from)
			dst, from = dst.from(n), from.from(n)
		}
	}
}

// skip returns the pieces of a list without the first n bytes. It changes the list.
func skip(list []piece, n int) []piece {
	for len(list) > 0 && n >= list[0].n {
		n -= list[0].n
		list = list[1:]
	}
	if len(list) > 0 {
		list[0] = list[0].from(n)
	}
	return list
}

// update replaces the 8 bytes of p by the result of the function to, atomically, and returns the
// previous value. In another process it is atomic only with respect to other operations of the
// network.
func (b *bounce) update(p piece, to func(old uint64) uint64) uint64 {
	if p.space != nil {
		p.read(0, b[:8])
		old := u64(b[:])
		putU64(b[:], to(old))
		p.write(0, b[:8])
		return old
	}
	for {
		old := word.Load64(p.mem)
		if word.CompareSwap64(p.mem, old, to(old)) == old {
			return old
		}
	}
}

// pieces is the memory of a message. The list is reused.
type pieces struct{ list []piece }

func (p *pieces) clear()      { p.list = p.list[:0] }
func (p *pieces) add(m piece) { p.list = append(p.list, m) }

// size returns the number of bytes.
func (p *pieces) size() (n int) {
	for i := range p.list {
		n += p.list[i].n
	}
	return n
}
