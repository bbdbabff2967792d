// Package shm holds the transports "posix" and "sysv": processes on one host exchange
// active messages through rings in shared memory, and directly access memory that was
// allocated from the domain. The bytes in shared memory, in addresses and in keys are those
// of C UCX's mm transports.
//
// # The ring
//
// Each interface owns one ring (layout.go) that all its peers write to. A sender claims an
// element with a compare-and-swap on the ring's head, copies its message into the element,
// or into the receive descriptor that the element names, and publishes the element with one
// store of its first word. The receiver reads elements in order and from time to time
// publishes its position in the ring's tail. Messages do not name their sender: handlers
// get a nil Source.
//
// A receiver that sleeps has set a flag in the head. The next sender sees the flag and sends
// a datagram to the receiver's socket (wakeup.go). A sender that sleeps until there is room
// leaves a note in the ring, and a receiver of this library answers the note with a datagram
// (notes.go).
//
// The ring's length is not transmitted. A receiver uses the length that its peers of C UCX
// expect (uct.IfaceParams.PeerRelease, UCX_*_FIFO_SIZE); a sender derives it from the size
// of the peer's segment.
//
// # Trust
//
// Peers write to the local rings and descriptors, and peer processes own the segments that
// this process writes to. From a ring the receiver reads each element's first word, once,
// and checks it. The receiver also reads notes, where every number is a valid socket number.
// The locations of the descriptors are kept in private memory. Inline messages are copied
// before a handler sees them. A buffered message is delivered in place, or as a copy if its
// memory can shrink. A hostile peer can change the bytes of a message that is delivered in
// place while the handler runs, so handlers read each byte once.
//
// Only the receiver may write the tail. The receiver checks from time to time whether a peer
// has written the tail, and restores it.
//
// A peer can shrink its segment while the segment is mapped here; touching the missing part
// is then a fault. Calls that touch segments which can shrink run inside a fence
// (internal/fault) that turns faults inside these segments into an error of the endpoint.
// Memory files of this process are sealed and System V segments never shrink: neither needs
// a fence, except segments with huge pages, which peers can take away.
//
// Keys, descriptors and addresses contain names of memory, which this process opens with its own
// rights. Memory is used only if the kernel confirms that the peer has that memory as well: that
// the peer's descriptor is open for writing (posix), that the peer has mapped the file (posix with
// names) or that the peer created the segment (sysv). The peer's ring tells which process the peer
// is. An address can name the ring of another process; the caller that makes an endpoint from an
// address decides whether to trust the address. UCX_SHM_ALLOW decides whose memory is opened at
// all, by the user of the file or segment and by the user of the process. The kernel decides which
// processes may open this process's memory: the mode is 0600, which admits the same user and root.
//
// # Detecting dead senders
//
// A message does not name its sender, so the exit of one sender does not show in the ring.
// The kernel can tell whether all senders are gone (senders.go): a System V segment then has
// no attachment but the owner's; for a file the kernel grants a lease only if no other
// process has the file open or mapped for writing.
//
// The event set reports the exit of a process that endpoints are connected to, by one descriptor
// for each process and worker (exit.go). All messages of that process are received before the exit
// is reported. The application may access the memory of a process without progressing the worker,
// so calls that access memory check from time to time whether the process has exited. If the kernel
// does not report exits, or descriptors are scarce, the exit is detected by a check (uct.Endpoint).
//
// # Mappings
//
// An endpoint takes at least two mappings, of which a process may have a limited number
// (mappings.go). When an endpoint is made, some of the other endpoints are checked for
// closed rings. If there is no room for a new endpoint, the caller that opened the interface
// is asked to close some (room.go).
//
// # Closed rings
//
// A ring is closed in three cases: its interface is closed, a claimed element stays
// unpublished for long because its sender died, or the ring holds invalid data. The mark of
// a closed ring is a zero length of the wakeup address. The length lies in the cache line
// that senders claim from, so checking it is free, and C UCX reads it only to wake a
// receiver. Endpoints of this library fail when they see the mark. In the second and third
// case the interface opens a new ring; posix opens it under the same address.
package shm
