// Package shm holds the transports "posix" and "sysv": processes on one host exchange
// active messages through rings in shared memory, and directly access memory that was
// allocated from the domain. The bytes in shared memory, in addresses and in keys are those
// of C UCX's mm transports.
//
// # The ring
//
// Each interface owns one ring (layout.go) that all its peers write to. A sender claims an
// element with a compare-and-swap on the ring's head, copies its message into the element,
// or into the receive descriptor that the element names, and publishes it with one store of
// the element's first word. The receiver reads elements in order and from time to time
// publishes its position in the ring's tail. Messages do not name their sender: handlers
// get a nil Source.
//
// A receiver that sleeps has set a flag in the head, and the next sender sends a datagram
// to its socket (wakeup.go). A sender that sleeps until there is room leaves a note in the
// ring, and a receiver of this library answers it with a datagram (notes.go).
//
// The ring's length is not transmitted. A receiver uses the length that its peers of C UCX
// expect (uct.IfaceParams.PeerRelease, UCX_*_FIFO_SIZE); a sender derives it from the size
// of the peer's segment.
//
// # Trust
//
// Peers write to the local rings and descriptors, and peer processes own the segments that
// this process writes to. From a ring the receiver reads each element's first word, once,
// and checks it; it also reads notes, where every number is a valid socket number. The
// locations of the descriptors are kept in private memory. Inline messages are copied
// before a handler sees them. A buffered message is handed over in place, but copied from
// memory that can shrink. Its bytes may change while the handler runs, if the peer is
// hostile, so handlers read each byte once.
//
// Only the receiver may write the tail. It checks from time to time whether a peer has
// written there, and restores it.
//
// A peer can shrink its segment while it is mapped here; touching it is then a fault. Calls
// that touch segments which can shrink run inside a fence (internal/fault) that turns
// faults inside these segments into an error of the endpoint. Memory files of this process
// are sealed and System V segments never shrink: they need no fence, unless they have huge
// pages, which peers can take away.
//
// Keys, descriptors and addresses are names of memory, which this process opens with its
// own rights. Memory is used only if the kernel confirms that the peer has it as well: that
// its descriptor is open for writing (posix), that it has mapped the file (posix with
// names) or created the segment (sysv). The peer's ring tells which process the peer is. An
// address can name the ring of another process; the caller that makes an endpoint from it
// decides whether to trust it. UCX_SHM_ALLOW decides whose memory is opened at all, by the
// user of the file or segment and by that of the process. The kernel decides which
// processes may open this process's memory: the mode is 0600, which admits the same user
// and root.
//
// # Detecting dead senders
//
// A message does not name its sender, so the exit of one sender does not show in the ring.
// Whether all senders are gone the kernel can tell (senders.go): a System V segment has no
// attachment but the owner's; for a file the kernel grants a lease only if no other process
// has it open or mapped for writing.
//
// The event set reports the exit of a process that endpoints lead to, by one descriptor for
// each process and worker (exit.go). What that process has sent is received first. A user
// that only accesses its memory, without progress, checks from time to time. If the kernel
// does not report exits, or descriptors are scarce, the exit is detected by a check
// (uct.Checker).
//
// # Mappings
//
// An endpoint takes at least two mappings, of which a process may have a limited number
// (mappings.go). With each new endpoint some of the others are checked for closed rings,
// and if there is no room for a new one the user of the interface is asked to close some
// (room.go).
//
// # Closed rings
//
// A ring is closed in three cases: its interface is closed, a claimed element stays
// unpublished for long because its sender died, or it holds invalid data. The mark is the
// length of the wakeup address, which is then zero. It lies in the cache line that senders
// claim from, so checking it is free, and C UCX reads it only to wake a receiver. Endpoints
// of this library fail when they see it. In the second and third case the interface opens a
// new ring; posix does so under the same address.
package shm
