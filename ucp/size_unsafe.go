package ucp

// Only asks for sizes; touches no memory.

import "unsafe"

// requestSize is reported by Context.Attr.
const requestSize = int(unsafe.Sizeof(Request{}))

// messageSize is what an unexpected message takes besides its bytes.
const messageSize = int(unsafe.Sizeof(TagMessage{}))

// chunkSize is what unread bytes of a stream take besides themselves.
const chunkSize = int(unsafe.Sizeof(chunk{}))
