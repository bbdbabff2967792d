// Package arena maps memory of its own for buffers that outlive, or must not
// move with, what the Go runtime manages: allocations that peers reach by
// address.
package arena
