// Package sys makes the few system calls of the hot path without telling Go's
// scheduler. Each is used only where the kernel cannot sleep: non-blocking
// descriptors, zero timeouts. Interrupted calls are repeated; an empty result
// is reported as a number, not as an error, so nothing is allocated.
package sys
