package ucp

// Looks at a word of the user's as bytes, which need no alignment and hold no
// pointers; the slice keeps the word alive.

import "unsafe"

// wordSize is the size of a word in bytes, a constant of each type.
func wordSize[T Word]() uintptr { return unsafe.Sizeof(*new(T)) }

func bytesOf[T Word](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), wordSize[T]()) }
