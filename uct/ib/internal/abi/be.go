//go:build linux

package abi

import "encoding/binary"

// Big-endian numbers, as devices read and write them. They are byte arrays: memory of any alignment
// may hold one, and access to one is not atomic.
type (
	BE16 [2]byte
	BE32 [4]byte
	BE64 [8]byte
)

// Put stores the number.
func (b *BE16) Put(v uint16) { binary.BigEndian.PutUint16(b[:], v) }

// Get returns the number.
func (b *BE16) Get() uint16 { return binary.BigEndian.Uint16(b[:]) }

// Put stores the number.
func (b *BE32) Put(v uint32) { binary.BigEndian.PutUint32(b[:], v) }

// Get returns the number.
func (b *BE32) Get() uint32 { return binary.BigEndian.Uint32(b[:]) }

// Put stores the number.
func (b *BE64) Put(v uint64) { binary.BigEndian.PutUint64(b[:], v) }

// Get returns the number.
func (b *BE64) Get() uint64 { return binary.BigEndian.Uint64(b[:]) }
