//go:build linux

package verbstest

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/internal/word"
)

// What the device reads of a program's memory and writes there. Words of records are
// read at once where they are in this process.

// be32 is the big endian word at an offset.
func (p *piece) be32(off int) uint32 {
	var b [4]byte
	if p.far == nil {
		binary.NativeEndian.PutUint32(b[:], word.Load32(p.mem[off:off+4]))
		uverbs.RaceReceived()
		return binary.BigEndian.Uint32(b[:])
	}
	return p.farWord(off)
}

// farWord is be32 of another process's memory.
func (p *piece) farWord(off int) uint32 {
	var b [4]byte
	p.far.Read(p.addr+uint64(off), b[:])
	return binary.BigEndian.Uint32(b[:])
}

// pageSize is that of memory.
const pageSize = 4096
