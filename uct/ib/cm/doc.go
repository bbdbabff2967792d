// Package cm is the connection manager rdmacm: it connects two processes by RDMA, at the IP
// addresses of their devices, with the wire protocol of C UCX (openucx/ucx src/uct/ib/rdmacm). The
// kernel's connection manager exchanges the packets (uct/ib/rdmacm). The component has no
// memory domains; its connections lead to the ports of package ib.
//
// # A connection
//
// A connection is the handshake for a reliable connection (port space TCP), but no queue pair
// carries data; only queue pair numbers are used:
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
// The handshake needs the number of a queue pair on both sides, and the kernel refuses a number
// that an earlier connection may still use. So each endpoint has a datagram queue pair that never
// leaves its initial state (number.go). The kernel pads the data of a packet with zeros to the
// fixed length of the packet type, so the data contains its own length (data.go).
//
// Neither side sends its own address in the data: its device address follows from the route
// of the connection (peer.go). The device address also contains the index of this side's GID. It
// contains no version of RoCE, because every peer that the kernel has a route to is reachable.
//
// # Private data comes first
//
// Nothing precedes the REQ. The client therefore packs its data before it knows whether a
// server listens, and the source address of a request is unverified: it is the address in the
// packet, checked only against the route of the answer. A server that has answered and is
// notified knows that the client receives at that address. The process and the user of a peer
// are not known, and a peer on this machine looks like any other.
//
// # Ownership of the ID
//
// A manager has one event channel, in the event set of its worker. The ID (rdma_cm_id) of a
// request is on the channel of its listener's manager. The accepting manager moves the ID to its
// own channel. Until then the kernel reports no events for it, not even that the client has gone.
//
// # What is shared
//
// Package uct/internal/connkit, which other connection managers use too, provides the phases of
// endpoints, the requests that wait for the application, and the limits on the clients that send
// them. The backlog also limits the number of requests that the kernel keeps. ListenParams.Accept
// decides before the data is read. Queue pairs are created only for accepted requests.
package cm
