package main

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
)

// A table is an array of slots. The search for a key begins at the slot that the key's hash
// selects. A new key is stored in the first free slot from there on, and stays in it.
//
//	version (8 bytes)   odd while a client writes; 0: free
//	checksum (8 bytes)  of the rest of the slot
//	length of the key, length of the value (2 bytes each), key, value
//
// A writer locks a slot by changing its version from even to odd, by compare and swap, writes the
// rest, and sets the version to the next even number. A reader takes no lock: one read copies the
// whole slot, and the checksum shows whether it was being written. A client that dies while it
// writes leaves the slot locked.
const (
	slotSize   = 256
	headSize   = 20
	longestKey = 64
)

// entry is the contents of a slot.
type entry struct {
	version    uint64
	key, value []byte
}

var (
	errTorn    = errors.New("the slot is being written")
	errLength  = errors.New("a key has 1 to 64 bytes, and with its value room in a slot")
	polynomial = crc64.MakeTable(crc64.ECMA)
)

// check returns an error if the entry does not fit in a slot.
func (e *entry) check() error {
	if len(e.key) == 0 || len(e.key) > longestKey || headSize+len(e.key)+len(e.value) > slotSize {
		return errLength
	}
	return nil
}

// bytes returns the contents of a slot with the entry. The entry must have passed check.
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

// parseSlot parses a slot. It returns an entry of version 0 if the slot is free, and errTorn if it
// was being written. The contents are untrusted, because clients can write anything.
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

// home returns the index at which the search for a key begins.
func home(key []byte, slots uint64) uint64 { return crc64.Checksum(key, polynomial) % slots }
