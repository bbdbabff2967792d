package ucp

// This file uses unsafe only for the sizes of structs; it accesses no memory.

import "unsafe"

// requestSize is the size of a Request in bytes. Context.Attr reports it.
const requestSize = int(unsafe.Sizeof(Request{}))

// messageSize is the memory, in bytes, that an unexpected message takes in addition to its data.
const messageSize = int(unsafe.Sizeof(TagMessage{}))

// chunkSize is the memory, in bytes, that a chunk of unread stream data takes in addition to the
// data.
const chunkSize = int(unsafe.Sizeof(chunk{}))
