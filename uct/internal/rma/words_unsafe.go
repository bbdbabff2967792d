package rma

// Soundness: word32 and word64 touch only memory inside the slice they are
// given (cutting it checks the length, and reads nothing that others may be
// writing), and their callers check the alignment: a Table's addresses are real
// ones, so an aligned remote address is an aligned pointer. addressOf only reads
// a pointer's value; it is never made a pointer again.

import "unsafe"

// addressOf is the address of the first byte of b, which must not be empty.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func word32(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(unsafe.SliceData(b[:4]))) }

func word64(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(b[:8]))) }
