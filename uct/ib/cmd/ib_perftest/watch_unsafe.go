//go:build linux

package main

// Soundness: a cell points into a mapping of the session, which is page-aligned, has a length that
// is a multiple of 4, and stays until the loops are over. The device writes to it; the loads are
// atomic, of the aligned word that holds the byte.

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// deviceByte is a byte of registered memory that the device writes. It is read through the aligned word
// that contains it.
type deviceByte struct {
	word  *uint32
	shift uint
}

// lastByte returns the cell of the last byte of b.
func lastByte(b []byte) deviceByte {
	p := unsafe.Pointer(&b[len(b)-1])
	at := uint(uintptr(p) & 3)
	c := deviceByte{word: (*uint32)(unsafe.Add(p, -int(at))), shift: 8 * at}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		c.shift = 24 - 8*at
	}
	return c
}

func (c deviceByte) load() byte { return byte(atomic.LoadUint32(c.word) >> c.shift) }
