// Package rdmacm is the RDMA connection manager in Go on the kernel's interface,
// /dev/infiniband/rdma_cm, without C libraries: it finds the device and the way to
// an IP address, connects queue pairs of package verbs with a handshake that
// carries data of the application, and tells when a connection ends.
//
// There are two levels. Who knows rdma_* finds everything under its name in
// EventChannel and ID: a call starts something, and an Event tells how it ended.
// Nothing there waits but EventChannel.GetEvent; EventChannel.FD is for programs
// that poll themselves. Resolve, Listen and Conn are for who wants reliable
// connections and no more: calls that wait, with a context.
//
// # Queue pairs
//
// A queue pair belongs to the device that ID.QueryAddr or Conn.Addr names; see
// Contexts for opening it. It is the caller's, before and after: ID.InitQP takes it
// to where receives can be posted, ID.ConnectQP to where it sends, with what the
// two sides of the handshake have agreed on. Closing an ID does not close it.
//
// # Data of the handshake
//
// What is sent with Connect, Accept and Reject arrives with the event at the peer.
// On InfiniBand and RoCE it arrives with zeros behind it, up to the limit of its
// message (MaxConnectData and so on): let it tell its own length. It comes from
// the network as it is, from anybody.
//
// # Goroutines
//
// Any goroutine may use all of it. Events go to one reader each.
//
// # Errors
//
// errors.Is finds the ucs.Status of an error: ucs.ErrRejected (a *RejectedError has
// the reason and the peer's data), ucs.ErrUnreachable, ucs.ErrTimedOut,
// ucs.ErrConnectionReset, ucs.ErrNoDevice and so on, and the syscall.Errno of a
// call that failed.
package rdmacm
