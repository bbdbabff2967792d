// Package tcp is the transport over TCP sockets: active messages, and puts that
// the target's progress executes and acknowledges. It speaks the protocol of C
// UCX's tcp transport (openucx/ucx src/uct/tcp), whose releases 1.13 and 1.22 do
// not differ on the wire.
//
// # Life of a byte
//
// All tcp ifaces of one uct.Worker share a service. It owns what costs a system
// call or memory: the readiness events, the list of hot connections, the list of
// dirty connections and the buffers.
//
// Sending (tx.go, am.go, rma.go): a message on an idle connection is framed in a
// scratch buffer and written at once. Further messages of the same progress
// round are collected in a buffer and leave with one call at the next Progress,
// Flush or Arm, or when the buffer is full. A zero-copy message is the last thing
// in the line: what is buffered, its header and the caller's memory go out in
// one gathering call, and nothing is accepted behind it until it has left.
//
// Receiving (rx.go): a ready connection takes a buffer, reads as much as is
// there, delivers every whole frame in place and gives the buffer back, unless a
// frame is still incomplete. The payload of a put goes straight into the target.
//
// Connections that were active lately are hot: they are read directly, and the
// event set is polled only every few rounds. Everything else waits for epoll,
// level-triggered, so the worker's event descriptor tells the truth.
//
// # Endpoints and connections
//
// An endpoint is what the user holds, a conn is one socket. They are apart
// because they change partners: a peer may connect first, its connection waits
// in the iface's match table and the endpoint made later takes it over; and when
// both sides connect at once, one of the two sockets is given up (cm.go has the
// rules). A conn without endpoint only receives.
//
// # Strangers
//
// Anybody who reaches the port can connect. Before anything is read UCX_TCP_ALLOW and
// IfaceParams.Accept decide (policy.go). What a peer says of itself is believed as far
// as the kernel says the same (origin.go, claim.go); memory is exposed to one peer
// (scope.go), where the user of the domain asks for that. Connections on which the
// application has no endpoint are guests (guests.go): they are counted by the address
// they come from, for the process, and those who have too many lose the ones that
// were silent for the longest (evict.go). A quarter of the descriptors is not for
// them (budget.go).
//
// # Connection manager
//
// Clients and servers that have no more than a socket's address find each other on
// connections of another kind (uct.ConnManager): package internal/sockcm, which
// connmanager.go gives what it needs of this one. There is none with TLS: where an
// application wants nothing else it is told so.
//
// # TLS
//
// The transport "tls" is the same inside of TLS 1.3, for applications that give a
// configuration (tls.go). A conn then has a layer, which stands for its socket: plain
// text becomes records in stream.go, and pipe.go is what crypto/tls sees of it. A
// handshake has a goroutine, as crypto/tls cannot leave it in the middle; the worker
// feeds it and writes for it (handshake.go). Nothing is sent from the caller's memory,
// and there are no puts.
package tcp
