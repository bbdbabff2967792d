// Package sys makes the few system calls of the hot path without telling Go's
// scheduler. Each is used only where the kernel does not wait: non-blocking
// sockets, zero timeouts. Interrupted calls are repeated; results are numbers,
// not errors, so nothing is allocated.
//
// Beside them are ReadFile, for what is read when something is opened, and WithLimit,
// for errors.
//
// A call of the hot path holds its processor until it returns, and a garbage
// collection that wants to start waits for it: callers bound what they hand over in
// one call.
package sys
