// Package self is the transport of a worker to itself: active messages, remote memory
// access and atomics within one iface.
//
// A message is copied once, into a buffer of the iface, and its handler runs inside the
// send. A handler that sends is nested; beyond a fixed depth messages go to a backlog that
// the next progress round delivers, so no chain of handlers can grow the stack. The backlog
// keeps the order: while it is not empty every message of the iface is appended to it. It
// is bounded: when it is full a send gets ucs.ErrNoResource and may be queued as pending.
//
// An endpoint leads only to the iface that it was created on: another iface of the same
// process, on another worker, is not reachable, as in C UCX (src/uct/sm/self/self.c,
// uct_self_iface_is_reachable_v2).
//
// Remote memory is the memory registered with the domain, at its real addresses, and a key
// opens one registration. C UCX accesses any address; here an access outside the memory
// that the key opens, or without permission, gives ucs.ErrInvalidAddr.
package self
