package main

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
)

// A table is an array of slots. A key is in the first slot from its hash on that was free
// when it came, and stays there.
//
//	version (8 bytes)   odd while somebody writes; 0: free
//	checksum (8 bytes)  of all else
//	length of the key, length of the value (2 bytes each), key, value
//
// Who writes takes the slot by changing its version from even to odd, by compare and swap,
// writes the rest, and makes the version the next even one. Who reads takes no lock: one
// read brings all of the slot, and the checksum tells whether it was being written. A client
// that dies while it writes leaves the slot taken.
const (
	slotSize   = 256
	headSize   = 20
	longestKey = 64
)

// entry is what a slot holds.
type entry struct {
	version    uint64
	key, value []byte
}

var (
	errTorn    = errors.New("the slot is being written")
	errLength  = errors.New("a key has 1 to 64 bytes, and with its value room in a slot")
	polynomial = crc64.MakeTable(crc64.ECMA)
)

// check says whether a slot has room for the entry.
func (e *entry) check() error {
	if len(e.key) == 0 || len(e.key) > longestKey || headSize+len(e.key)+len(e.value) > slotSize {
		return errLength
	}
	return nil
}

// bytes is the slot with the entry, which has the right length.
func (e *entry) bytes() []byte {
	b := make([]byte, slotSize)
	binary.LittleEndian.PutUint64(b, e.version)
	binary.LittleEndian.PutUint16(b[16:], uint16(len(e.key)))
	binary.LittleEndian.PutUint16(b[18:], uint16(len(e.value)))
	n := copy(b[headSize:], e.key)
	copy(b[headSize+n:], e.value)
	binary.LittleEndian.PutUint64(b[8:], checksum(b))
	return b
}

// parseSlot reads a slot: an entry of version 0 if it is free, errTorn if it was read while
// somebody wrote. Clients can write anything.
func parseSlot(b []byte) (entry, error) {
	version := binary.LittleEndian.Uint64(b)
	switch {
	case version == 0:
		return entry{}, nil
	case version%2 == 1 || binary.LittleEndian.Uint64(b[8:]) != checksum(b):
		return entry{}, errTorn
	}
	k, v := int(binary.LittleEndian.Uint16(b[16:])), int(binary.LittleEndian.Uint16(b[18:]))
	if headSize+k+v > slotSize {
		return entry{}, errLength
	}
	return entry{version, b[headSize:][:k], b[headSize+k:][:v]}, nil
}

func checksum(slot []byte) uint64 {
	return crc64.Update(crc64.Checksum(slot[:8], polynomial), polynomial, slot[16:])
}

// home is where to begin to look for a key.
func home(key []byte, slots uint64) uint64 { return crc64.Checksum(key, polynomial) % slots }
