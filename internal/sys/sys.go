// Package sys makes the few system calls of the hot path without informing Go's scheduler, which in a process
// that was idle would wake its monitor thread: that costs several times as much as such a call. Each is
// used only where the kernel does not block: with nonblocking descriptors and zero timeouts. (A datagram to a
// socket of this machine may still be held up by old kernels while some process has more than 16,000 descriptors
// under way in such sockets.) Calls on sockets are repeated if they are interrupted; results are errno numbers
// instead of errors, so nothing is allocated.
//
// It also has functions for other paths: ReadFile, which reads small files when something is
// opened, and WithLimit, which explains errors.
//
// A call of the hot path occupies its processor until it returns, and a garbage collection that
// wants to start waits for it, so callers bound the amount of data of one call.
package sys
