//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/word"

// piece is a part of a program's memory: bytes of this process, or a place in a Space.
type piece struct {
	mem  []byte
	far  Space // nil: mem is it
	addr uint64
	n    int
}

// within is n bytes of a program's memory, which must be there; a nil space is that of
// this process.
func within(s Space, addr uint64, n int) piece {
	if s == nil {
		return piece{mem: memory(addr, n), n: n}
	}
	return piece{far: s, addr: addr, n: n}
}

// local is memory of this process.
func local(b []byte) piece { return piece{mem: b, n: len(b)} }

// from is what is behind the first n bytes.
func (p piece) from(n int) piece {
	if p.far == nil {
		return local(p.mem[n:])
	}
	return piece{far: p.far, addr: p.addr + uint64(n), n: p.n - n}
}

// read fills b from an offset. What is not there any more is left as it was: registered
// memory may not go.
func (p *piece) read(off int, b []byte) {
	if p.far == nil {
		copy(b, p.mem[off:])
		return
	}
	p.far.Read(p.addr+uint64(off), b)
}

// write stores b at an offset.
func (p *piece) write(off int, b []byte) {
	if p.far == nil {
		copy(p.mem[off:], b)
		return
	}
	p.far.Write(p.addr+uint64(off), b)
}

// bounce is where bytes stop that go from one far place to another.
type bounce [64 << 10]byte

// copyPiece copies as much as both have and returns how much that is.
func (b *bounce) copyPiece(to, from piece) int {
	n := min(to.n, from.n)
	switch {
	case to.far == nil && from.far == nil:
		copy(to.mem, from.mem)
	case to.far == nil:
		from.read(0, to.mem[:n])
	case from.far == nil:
		to.write(0, from.mem[:n])
	default:
		n = min(n, len(b))
		from.read(0, b[:n])
		to.write(0, b[:n])
	}
	return n
}

// move copies a message from the pieces of one list to those of another, as much as
// there is room for.
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

// gather copies pieces to one.
func (b *bounce) gather(to piece, from []piece) {
	for i := range from {
		for src := from[i]; src.n > 0 && to.n > 0; {
			n := b.copyPiece(to, src)
			to, src = to.from(n), src.from(n)
		}
	}
}

// scatter copies one piece to others.
func (b *bounce) scatter(to []piece, from piece) {
	for i := range to {
		for dst := to[i]; dst.n > 0 && from.n > 0; {
			n := b.copyPiece(dst, from)
			dst, from = dst.from(n), from.from(n)
		}
	}
}

// skip is what is in pieces behind the first n bytes. It changes the list.
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

// update changes the 8 bytes of p at once and returns what was there. In another
// process that is so for other operations of the network only.
func (b *bounce) update(p piece, to func(old uint64) uint64) uint64 {
	if p.far != nil {
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

// pieces are parts of memory that make up a message. The list is used again and again.
type pieces struct{ list []piece }

func (p *pieces) clear()      { p.list = p.list[:0] }
func (p *pieces) add(m piece) { p.list = append(p.list, m) }

// size is how many bytes there are.
func (p *pieces) size() (n int) {
	for i := range p.list {
		n += p.list[i].n
	}
	return n
}
