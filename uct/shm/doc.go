// Package shm holds the transports "posix" and "sysv": processes on one host
// exchange active messages through rings in shared memory, and reach memory that
// was allocated from the domain directly. The bytes in shared memory, in
// addresses and in keys are those of C UCX's mm transports.
//
// # The ring
//
// Each interface owns one ring (layout.go) that all its peers write to. A sender
// claims an element with a compare-and-swap on the ring's head, copies its
// message into the element, or into the receive descriptor the element names,
// and publishes it with one store of the element's first word. The receiver
// reads elements in order and tells how far it is in the ring's tail, now and
// then. Nothing says who sent a message: handlers get a nil Source.
//
// A receiver that sleeps has said so in the head, and the next sender sends its socket a
// datagram (wakeup.go). A sender that sleeps until there is room leaves a note in the
// ring, and the receiver, if it is of this library, sends one back (notes.go).
//
// The ring's length travels nowhere. A receiver has the length its peers of C
// UCX expect (uct.IfaceParams.PeerRelease, UCX_*_FIFO_SIZE); a sender derives it
// from the size of the peer's segment.
//
// # What cannot be trusted
//
// Peers write to our rings and descriptors, and their processes own the segments
// we write to. Of what the ring holds the receiver reads an element's first word,
// once, and checks it, and notes, which are numbers of sockets whatever they are;
// where descriptors are is kept in private memory. Inline messages are copied before
// a handler sees them. A buffered message is handed over where it lies, but copied
// from memory that can shrink: its bytes may change while the handler runs, if the
// peer is hostile, so handlers read each once.
//
// The tail is the receiver's alone. It looks now and then whether somebody else has
// written there, and puts it right.
//
// A peer can cut its segment short under us; touching it is then a fault. Calls
// that touch segments which can shrink run inside a fence (internal/fault) that turns
// faults inside these segments into an error of the endpoint. Our own memory
// files are sealed, System V segments never shrink: they need no fence, unless
// they have huge pages, which peers can take away.
//
// Keys, descriptors and addresses are names, and we open what they name with our
// rights. Memory is used only if the kernel says that the peer has it as well:
// that its descriptor is open for writing (posix), that it has mapped the file
// (posix with names) or made the segment (sysv). Which process the peer is its
// ring says. An address can name the ring of somebody else; whoever gives it to
// an endpoint decides whom to believe. UCX_SHM_ALLOW says whose memory is opened at
// all, by the user of the file or segment and by that of the process. Who may open ours
// the kernel decides: the mode is 0600, which leaves the own user, and root.
//
// # Who is left
//
// A message does not say who sent it, so of the end of one sender nobody learns. That
// all are gone the kernel knows (senders.go): a segment of System V has no attachment
// but the owner's; of a file it grants a lease, which it does only where nobody else
// has it open or mapped to write.
//
// That a process has exited that endpoints lead to the kernel tells the event set, by one
// descriptor for each process and worker (exit.go). What it has sent is received first. Who
// only accesses its memory, without progress, asks by itself now and then. Where the kernel
// does not tell, or descriptors are few, it is found out when somebody asks (uct.Checker).
//
// # Room
//
// An endpoint has two mappings at least, of which a process may have a limited number
// (mappings.go). With each new endpoint some of the others are looked at, whether their
// rings are closed, and where there is no room for one the user of the interface is asked
// to close some (room.go).
//
// # Closed rings
//
// A ring is closed when its interface is, when an element that was claimed stays
// unpublished for long because its sender died, and when it holds nonsense. The
// mark for that is the length of the wakeup address, which is zero then: it is in
// the cache line senders claim from, so looking at it is free, and C UCX does not
// read it unless asked to wake somebody. Endpoints of this library fail when they
// see it. After the second and the third the interface opens a new ring; posix
// does so under the same address.
package shm
