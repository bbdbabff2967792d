// Package cma is the transport of Linux cross-memory attach: zero-copy put and get between
// processes of one machine, by process_vm_writev and process_vm_readv. The kernel copies
// once, from one process's memory to the other's; the target runs no code and need not
// progress.
//
// # What protects the target
//
// Any address of the peer may be read and written; nothing needs to be registered, and a
// remote key carries nothing. The target cannot restrict access to a part of its memory.
// Only the kernel decides which process may access which, with the permission that ptrace
// needs (PTRACE_MODE_ATTACH_REALCREDS in ptrace(2)): the same user, a target that is
// dumpable, and what security modules add. A process that opens the domain gives its peers
// nothing that they would not have anyway, with one exception: if Yama's ptrace_scope is 1
// only ancestors may attach, so opening the domain allows every process that passes the
// other checks (prctl PR_SET_PTRACER with PR_SET_PTRACER_ANY). It stays allowed, as peers
// may use the address at any time. If the scope is 0 the call is not needed and not made.
//
// An access outside the peer's mapped memory fails with ucs.ErrInvalidAddr; like every
// failed access it ends the endpoint. Parts of an operation that were copied before stay.
//
// # What protects the initiator
//
// A target can block a process that accesses its memory for any time, inside a system call
// (userfaultfd). Processes of one user could do worse to each other. A privileged process
// does not access processes of other users, unless UCX_CMA_OTHER_USERS permits it.
//
// # How it works
//
// A call copies at most UCX_CMA_SEG_SIZE bytes. A small operation with no operation before
// it is carried out inside the call that starts it. Others wait in the queue of their
// endpoint, in order; each round of progress copies UCX_CMA_TX_QUOTA pieces, from the
// endpoints in turn, so a round stays short while many peers are served. If the kernel
// copies only a part, the copy is continued.
//
// A peer is identified by its process id and start time. The pair is checked when the
// endpoint is made, by Check, when a copy fails, and before the first copy of each second,
// so a reused process id does not lead to another process.
//
// C UCX's transport of that name is in src/uct/sm/scopy. Its peers reach this process, and
// are reached, under the same rules; C UCX itself accesses processes of any user that the
// kernel permits.
package cma
