// Package cma is the transport of Linux cross-memory attach: zero-copy put and
// get between processes of one machine, by process_vm_writev and
// process_vm_readv. The kernel copies once, from one process's memory to the
// other's; the target runs no code and need not progress.
//
// # What guards the target
//
// Any address of the peer may be read and written; nothing needs to be
// registered and a remote key carries nothing. The target cannot restrict that
// to some of its memory: who may access whom is decided by the kernel alone,
// with the permission that ptrace needs (PTRACE_MODE_ATTACH_REALCREDS in
// ptrace(2)): the same user, a target that is dumpable, and what security
// modules add. A process that opens the domain gives its peers nothing that
// they would not have anyway, with one exception: where Yama's ptrace_scope is
// 1 only ancestors may attach, so opening the domain allows every process that
// passes the other checks (prctl PR_SET_PTRACER with PR_SET_PTRACER_ANY). It
// stays allowed, as peers may use the address at any time. Where the scope is 0
// the call is not needed and not made.
//
// An access outside the peer's mapped memory fails with ucs.ErrInvalidAddr; as
// every failed access it ends the endpoint. Parts of an operation that were
// copied before stay.
//
// # What guards the initiator
//
// A target can make whoever accesses its memory wait without end, inside a call
// of the kernel (userfaultfd). Processes of one user could do worse to each
// other; a privileged one leaves those of other users alone, unless
// UCX_CMA_OTHER_USERS says otherwise.
//
// # How it works
//
// A call copies at most UCX_CMA_SEG_SIZE bytes. An operation that is small and
// has none before it is carried out inside the call that starts it. Others wait
// in the queue of their endpoint, in order; each round of progress copies
// UCX_CMA_TX_QUOTA pieces, from the endpoints in turn, so a round stays short
// while many peers are served. What the kernel copies short is continued.
//
// A peer is its process number and start time. The pair is checked when the
// endpoint is made, by Check, when a copy fails, and before the first copy of
// each second, so a number that is used again does not lead to another process.
//
// C UCX's transport of that name is in src/uct/sm/scopy. Peers of it must be
// able to reach this process, and are reached, under the same rules; it accesses
// processes of any user that the kernel lets it.
package cma
