// Package sockcm is the connection manager of the tcp transport, on the wire of C UCX
// (openucx/ucx src/uct/tcp/tcp_sockcm*.c, tcp_listener.c).
//
// # A connection
//
// It is a TCP connection of its own, to the port that the application has chosen, without
// the magic and the frames of the transport. Messages (message.go) alternate:
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
// Neither side sends before it has the other one's whole message: C receives into one
// buffer and waits for ever when more comes than one message. What was said so far is a
// machine (machine.go), which knows no sockets.
//
// # Who has the socket
//
// An accepted one is first a visitor, of the listener's worker. When its message is
// whole it leaves the event set and belongs to the request, which any goroutine may
// consume: the list of the requests of a listener is all that has a lock. Accept gives
// it to an endpoint, on whatever worker; that of a client has it from the beginning.
//
// # Strangers
//
// Anybody who reaches the port can connect. UCX_TCP_ALLOW and ListenParams.Accept decide before
// anything is read; who sends nothing, or slowly, keeps a bounded number of visitors,
// the oldest of whom give way to newcomers; requests are bounded by the backlog, and
// where one of more than one is used up the source with most of them makes room for others;
// and all are charged to their source (internal/ledger) until the application has accepted
// them. A client is never given up for being slow, as in C.
package sockcm
