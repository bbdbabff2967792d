package ucp

// Only asks for a size; touches no memory.

import "unsafe"

// requestSize is reported by Context.Query.
const requestSize = int(unsafe.Sizeof(Request{}))
