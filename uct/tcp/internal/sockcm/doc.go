// Package sockcm is the connection manager of the tcp transport. Its wire protocol is that of C
// UCX (openucx/ucx src/uct/tcp/tcp_sockcm*.c, tcp_listener.c).
//
// # Protocol
//
// Each connection is a separate TCP connection to the port that the application has chosen. It
// does not use the magic number and the framing of the transport. Client and server send
// messages (message.go) in turn:
//
//	client                                    server
//	connect ──────────────────────────────►   accept
//	{n, 0} + n bytes ─────────────────────►   a request
//	connected, or rejected   ◄─────────────   {n, 0} + n bytes, or {0, rejected} and the end
//	{0, 0} ───────────────────────────────►   notified
//	                 … nothing …
//	shutdown ─────────────────────────────►   disconnected
//	disconnected   ◄───────────────────────   shutdown
//
// Neither side sends before it has received the other side's whole message, because C UCX receives
// into one buffer and waits forever if more than one message arrives. The type machine (machine.go)
// is the protocol state; it does not access sockets.
//
// # Ownership of the socket
//
// An accepted socket first belongs to a visitor, the type for a connection whose request is not
// complete. The listener's worker progresses visitors. When the client's message is complete, the
// socket leaves the event set and belongs to the request, which any goroutine may consume. Accept
// passes the socket to an endpoint, possibly on another worker. The socket of a client belongs to
// its endpoint from the beginning. The phases of endpoints and the list of requests are those of
// package uct/internal/connkit.
//
// # Limits for untrusted peers
//
// Any host that can reach the port can connect, so the manager limits untrusted peers:
//
//   - UCX_TCP_ALLOW and ListenParams.Accept are checked before anything is read.
//   - The number of visitors is bounded, so a peer that sends nothing, or sends slowly,
//     holds a bounded number of connections. New connections replace the oldest visitors.
//   - The backlog bounds the requests (connkit).
//   - All connections are charged to their source until the application has accepted them.
//
// As in C UCX, a slow client has no time limit.
package sockcm
