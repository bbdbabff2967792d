// Package arena maps memory outside of the Go heap, for buffers that must not move or that outlive
// what the Go runtime manages: allocations that peers access by address.
package arena
