// Package rdmacm is the RDMA connection manager in Go on the kernel's interface,
// /dev/infiniband/rdma_cm, without C libraries. It finds the device and the path to an IP address,
// connects queue pairs of package verbs with a handshake that carries private data, and reports
// when a connection ends.
//
// There are two levels. EventChannel and ID have the functions of librdmacm under the names
// of rdma_*: a call starts an operation, and an Event reports its result. Only
// EventChannel.GetEvent waits; EventChannel.FD is for programs with their own poller.
// Resolve, Listen and Conn are for programs that need only reliable connections: calls that
// wait, with a context.
//
// # Queue pairs
//
// A queue pair belongs to the device that ID.QueryAddr or Conn.Addr returns; Contexts opens the
// device. The caller owns the queue pair at all times: ID.InitQP takes it to the state in which
// receives can be posted, ID.ConnectQP to the state in which it can send, with the parameters of
// the handshake. Closing an ID does not close the queue pair.
//
// # Private data
//
// Data sent with Connect, Accept and Reject arrives with the event at the peer. On
// InfiniBand and RoCE it is padded with zeros to the limit of its message (MaxConnectData
// and so on), so it should contain its own length. It is untrusted.
//
// # Goroutines
//
// Any goroutine may use the package. Each event goes to one reader.
//
// # Errors
//
// errors.Is finds the ucs.Status of an error: ucs.ErrRejected (a *RejectedError has the
// reason and the peer's data), ucs.ErrUnreachable, ucs.ErrTimedOut, ucs.ErrConnectionReset,
// ucs.ErrNoDevice and so on, and the syscall.Errno of a call that failed.
package rdmacm
