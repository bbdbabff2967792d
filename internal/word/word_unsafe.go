package word

// Soundness: the words lie inside the slice that is given (cutting it checks the
// length, and reads nothing that others may be writing); callers check the
// alignment.

import "unsafe"

func word32(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(unsafe.SliceData(b[:4]))) }

func word64(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(b[:8]))) }
