// Package self is the transport of a worker to itself: active messages, remote
// memory access and atomics within one iface.
//
// A message is copied once, into a buffer of the iface, and its handler runs
// inside the send. A handler that sends nests; from a fixed depth on, messages
// go to a backlog that the next progress round delivers, so no chain of
// handlers can grow the stack. The backlog keeps order: while it holds
// something every message of the iface goes behind it. It is bounded: when it
// is full a send gets ucs.ErrNoResource and may be queued as pending.
//
// An endpoint leads to the iface it was created on and nowhere else: another
// iface of the same process, on another worker, is not reachable, as in C UCX
// (src/uct/sm/self/self.c, uct_self_iface_is_reachable_v2).
//
// Remote memory is the memory registered with the domain, at its real
// addresses, and a key opens one registration. C UCX goes wherever an address
// points; here an access outside of what the key opens, or without its permission,
// gives ucs.ErrInvalidAddr.
package self
