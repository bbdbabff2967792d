// Package cma is the transport of Linux cross-memory attach: zero-copy put and get between
// processes of one machine, by process_vm_writev and process_vm_readv. The kernel copies the data
// once, from the memory of one process to that of the other. The target runs no code and need not
// make progress.
//
// # What protects the target
//
// Any address of the peer may be read and written. Memory needs no registration, and remote keys
// are empty. The target cannot restrict access to a part of its memory. Only the kernel decides
// which process may access which, by the rules for attaching with ptrace
// (PTRACE_MODE_ATTACH_REALCREDS in ptrace(2)): both processes belong to the same user, the target
// is dumpable, and no security module denies the access. A process that opens the domain gives its
// peers no new rights, with one exception: if Yama's ptrace_scope is 1, only ancestors of a process
// may attach to it. Opening the domain then allows every process that passes the other checks to
// attach (prctl PR_SET_PTRACER with PR_SET_PTRACER_ANY). The permission is never revoked, because
// peers may use the address at any time. If the scope is 0 the call is not needed and not made.
//
// An access outside the peer's mapped memory fails with ucs.ErrInvalidAddr; like every failed
// access, it makes the endpoint fail. Parts of an operation that were copied earlier are not
// undone.
//
// # What protects the initiator
//
// A target can block a process that accesses its memory for any length of time, inside a system
// call (userfaultfd). Between processes of one user this is no additional risk, because they can
// stop each other by signals. A privileged process does not access processes of other users, unless
// UCX_CMA_OTHER_USERS permits it.
//
// # How it works
//
// A call copies at most UCX_CMA_SEG_SIZE bytes. A small operation is executed inside the call that
// starts it, if no earlier operation of the endpoint is outstanding. Other operations wait in the
// queue of their endpoint, in order. Each round of progress makes UCX_CMA_TX_QUOTA such copies, for
// the endpoints in turn, so that a round stays short while many peers are served. If the kernel
// copies only a part, the rest is copied later.
//
// A peer is identified by its process id and start time. The pair is checked when the endpoint is
// made, by Check, when a copy fails, and before the first copy of each second, so a reused process
// id does not give access to another process.
//
// The transport of the same name in C UCX is in src/uct/sm/scopy. Access to and from processes with
// C UCX follows the same rules, except that C UCX accesses processes of every user that the kernel
// permits.
package cma
