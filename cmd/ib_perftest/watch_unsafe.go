//go:build linux

package main

// Soundness: a cell points into a mapping of the session's, page-aligned and a
// multiple of 4 bytes long, that stays until the loops are over. The device writes
// there; the loads are atomic, of the aligned word that holds the byte.

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// cell is a byte that the device writes.
type cell struct {
	word  *uint32
	shift uint
}

// lastByte is the last byte of b.
func lastByte(b []byte) cell {
	p := unsafe.Pointer(&b[len(b)-1])
	at := uint(uintptr(p) & 3)
	c := cell{word: (*uint32)(unsafe.Add(p, -int(at))), shift: 8 * at}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		c.shift = 24 - 8*at
	}
	return c
}

func (c cell) load() byte { return byte(atomic.LoadUint32(c.word) >> c.shift) }
