package ucp

// Looks at a word of the user's as bytes, which need no alignment and hold no
// pointers; the slice keeps the word alive.

import "unsafe"

func bytesOf32(p *uint32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), 4) }

func bytesOf64(p *uint64) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), 8) }
