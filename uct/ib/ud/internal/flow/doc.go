// Package flow makes reliable connections out of datagrams: it is the state machine of ud_verbs.
// Its inputs are packets and the time, its outputs packets and events. The package touches no
// device, reads no clock, starts no goroutine, and in steady state allocates nothing. Its tests can
// therefore run every event that can happen on a network in milliseconds.
//
// # Protocol
//
// An [Iface] holds the endpoints of one queue pair. Two endpoints are connected by CREQ and CREP
// (connect.go, peers.go), or by ids that the layer above exchanges. An endpoint sends numbered
// packets in a window (window.go). A packet that the peer has not acknowledged is kept in a slot of
// the layer above, and retransmitted if the peer sends a NACK or nothing (resend.go, tick.go). A
// receiver takes packets in order and drops all others (receive.go). A packet ahead of the order is
// answered by a NACK at the end of the round. A request for an acknowledgement is answered by an
// ACK, unless another packet to that peer has carried the acknowledgement (dispatch.go).
//
// # The layer above
//
// The layer above is the [Port]. It posts the packets of the state machine and owns the memory of
// messages. A round of its progress is
//
//	it.Clock(now)          the time of the calls that follow
//	it.Receive(...)        for each packet; messages come back to be delivered
//	it.Tick()              when the time of Next has come
//	it.DispatchFirst()     packets that go before messages, as far as the queue has room
//	...                    messages
//	it.Dispatch()          the other control packets
//
// To send a message the layer calls [Endpoint.Send], which returns the header. All calls belong to
// one goroutine. Port's methods are called in the middle of these calls. They may send and close,
// but not call Clock, Receive, Tick or Dispatch.
//
// # C UCX
//
// The peer may be C UCX, which ends its process when a peer makes certain mistakes; 1.13.1 does so
// most often. This package keeps these rules for the sake of C, with
// src/uct/ib/ud/base/ud_ep.c as the authority: an acknowledgement never covers a packet that has
// not arrived; a conn_sn never names two endpoints at the same peer; all CREPs of an endpoint carry
// the same id; no packet but a CREQ has an unknown destination. On the wire this package differs
// from C where it is free to:
//
//   - A NACK is answered at once; C waits for its timer, 30 ms and more.
//   - A retransmitted packet carries the newest acknowledgement; in C, the last one that was
//     sent. The last packet of a retransmission asks for an acknowledgement, too.
//   - An endpoint that is not connected accepts only a CREP. C takes acknowledgements from
//     packets that overtake a CREP, stops retransmitting its CREQ, and waits without a timer. A CREP
//     that arrives without the CREQ before it is not answered by a NACK, since nothing is missing.
//   - A message that overtook a CREP is requested again; C loses it.
//   - A NACK is not answered by a NACK forever, as between two C processes that both
//     miss something.
//   - A flush asks for an acknowledgement only if the last packet has not.
//   - The packet at a quarter of the window asks for an acknowledgement even where packet
//     numbers wrap around.
//   - An acknowledgement or a NACK ends the back-off of timers at once.
//   - Time in which the application did not call does not count against a peer.
//   - A side that closes an endpoint, or has no such endpoint any more, says so in packets of
//     8 bytes that C takes for acknowledgements. Each is sent once; a peer that does not receive
//     it finds out by its timeout, as with C.
//   - A closed endpoint keeps its packets in flight until the peer has them; C drops them.
package flow
