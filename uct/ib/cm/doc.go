// Package cm is the connection manager rdmacm: it brings two processes together that are
// reached by RDMA, at the IP addresses of their devices, on the wire of C UCX
// (openucx/ucx src/uct/ib/rdmacm). The kernel's connection manager does the talking
// (uct/ib/rdmacm); the component has no memory domains, what it leads to are the ports of
// package ib.
//
// # A connection
//
// It is a handshake for a reliable connection (port space TCP), of which no queue pair
// uses more than a number:
//
//	client                                    server
//	address, route
//	REQ: length, status, data ────────────►   a request
//	connected, or rejected   ◄─────────────   REP: length, status, data, or REJ: 0, rejected
//	RTU ──────────────────────────────────►   notified
//	                 … nothing …
//	DREQ ─────────────────────────────────►   disconnected
//	disconnected   ◄───────────────────────   DREP
//
// The handshake wants the number of a queue pair on both sides, and refuses one that an
// earlier connection may still have. So each endpoint has a queue pair of datagrams that
// never leaves its first state (number.go). Packets come with zeros up to the length of
// their kind, hence the length in the data (data.go).
//
// Neither side says in its data where it is: its device address follows from the route
// of the connection (peer.go). It names a GID of this side as well, and no version of
// RoCE, as whoever the kernel knows a way to is reached.
//
// # The data goes first
//
// There is nothing before the REQ, so the client packs its data before it knows whether
// anybody listens, and the server has a request whose source nobody has proved: the
// address is what the packet says, checked against where the answer will go. A server
// that has answered and is notified knows that the client gets what is sent there. No
// process or user is known, and a peer on this machine looks like any other.
//
// # Who has the ID
//
// A manager has one event channel, in the event set of its worker. The ID of a request
// is on the channel of its listener's manager, and in the list of the listener's
// requests, which is all that has a lock here besides the devices. Who accepts moves it
// to his own channel. Until then the kernel tells nothing of it, also not that the client
// has gone.
//
// # Strangers
//
// Anybody who reaches the port can ask. How many requests the kernel keeps, and how many
// wait for the application, the backlog bounds; those are charged to their source
// (internal/ledger), and where a backlog of more than one is used up the source with most of
// them makes room for others. ListenParams.Accept decides before anything of the data is read. An object of a
// device is made for who is accepted.
package cm
