// Package tcp is the transport over TCP sockets: active messages, and puts that the
// target's progress executes and acknowledges. It uses the protocol of C UCX's tcp
// transport (openucx/ucx src/uct/tcp); releases 1.13 and 1.22 do not differ on the wire.
//
// # Data path
//
// All tcp ifaces of one uct.Worker share a service. It owns the resources that cost system calls or
// memory: the list of hot connections, the list of dirty connections (those with output,
// completions or pending requests to process) and the buffers.
//
// Sending (tx.go, am.go, rma.go): a message on an idle connection is framed in a scratch
// buffer and written at once. Further messages of the same progress round are collected in
// a buffer and written with one call at the next Progress, Flush or Arm, or when the buffer
// is full. A zero-copy message ends the batch: the buffered bytes, its header and the
// caller's memory are written in one gathering call, and nothing is accepted behind it
// until it has been written.
//
// Receiving (rx.go): a ready connection takes a buffer, reads what is available, delivers
// every whole frame in place and returns the buffer, unless a frame is still incomplete.
// The payload of a put goes straight into the target.
//
// Recently active connections are hot: they are read directly, and the event set is polled
// only every few rounds. All others wait for epoll, level-triggered, so the worker's event
// descriptor reports the true state.
//
// # Endpoints and connections
//
// An endpoint is what the application holds; a conn is one socket. Endpoints and conns are
// separate because their pairing changes. A peer may connect first: its connection then waits
// in the iface's match table until an endpoint that is made later takes the connection over.
// If both sides connect at the same time, one of the two sockets is closed (connmanager.go has the
// rules). A conn without an endpoint only receives.
//
// # Untrusted peers
//
// Any process that reaches the port can connect. Before anything is read, UCX_TCP_ALLOW and
// IfaceParams.Accept decide (policy.go). A peer's claims about itself are accepted only as far as
// the kernel confirms them (origin.go). Memory that is registered with a scope
// (uct.ScopedMemory) is exposed to one peer only (expose.go). A guest is a source of connections on
// which the application has no endpoint (guests.go). Guests' connections are counted by remote
// address, for the whole process. An address with too many loses the connections that were silent
// for the longest time (evict.go). A quarter of the file descriptors is not available to guests
// (budget.go).
//
// # Connection manager
//
// Clients and servers that know only a socket address meet on connections of another kind
// (uct.ConnManager), implemented by package internal/sockcm; connmanager.go gives it access
// to this package. There is no connection manager with TLS: an application that allows only
// TLS gets an error that says so.
//
// # TLS
//
// The transport "tls" is the same protocol inside TLS 1.3, for applications that give a
// configuration (tls.go). A conn then has a layer between itself and its socket: stream.go turns
// plain text into records, and pipe.go is the net.Conn that crypto/tls uses. Each handshake runs in
// a goroutine, because crypto/tls cannot be suspended in the middle of a handshake; the worker
// reads and writes the socket for that goroutine (handshake.go). With TLS there are no zero-copy
// messages and no puts.
package tcp
