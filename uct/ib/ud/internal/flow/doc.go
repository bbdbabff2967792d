// Package flow makes connections out of datagrams: the state machine of ud_verbs. Packets
// and the time go in, packets and events come out. It touches no device, reads no
// clock, starts nothing, and in steady state allocates nothing, so that everything
// which can happen on a network happens in its tests, in milliseconds.
//
// # What it does
//
// An [Iface] is the endpoints of one queue pair. They find each other by CREQ and
// CREP (connect.go, peers.go), or are told each other's ids. Each sends numbered
// packets in a window (window.go): what the peer has not acknowledged is kept, in a
// slot of the layer above, and sent again if the peer says that it misses something,
// or says nothing (resend.go, tick.go). A receiver takes packets in order and drops
// all others (receive.go): what is ahead is answered by a NACK at the end of the
// round, what was asked for by an ACK, if no packet that goes there anyway has
// carried it (dispatch.go).
//
// # The layer above
//
// It is the [Port]: it posts what the machine hands it and owns the memory of
// messages. A round of its progress is
//
//	it.Clock(now)          what follows happens now
//	it.Receive(...)        for each packet; messages come back to be delivered
//	it.Tick()              when what Next told has come
//	it.DispatchFirst()     what has to go before messages, as far as the queue has room
//	...                    messages
//	it.Dispatch()          the rest
//
// and it sends by [Endpoint.Send], which gives the header. All of this belongs to one
// goroutine. Port's methods are called in the middle of these calls and may send and
// close, but not call Clock, Receive, Tick or Dispatch.
//
// # C
//
// The other side is C UCX, which ends its process when a peer makes certain mistakes,
// above all 1.13.1. What is kept for its sake, with src/uct/ib/ud/base/ud_ep.c as the
// authority: an acknowledgement never covers what has not come; a conn_sn never names
// two endpoints at the same peer; a CREP says the same id for ever; no packet but a
// CREQ has an unknown destination. On the wire this package differs where it is free
// to:
//
//   - A NACK is answered at once; C waits for its timer, 30 ms and more.
//   - Packets sent again carry the newest acknowledgement; C's carry the last one
//     that was sent. The last one of a repetition asks for an answer, too.
//   - Who is not connected listens to nothing but CREP. C takes acknowledgements from
//     packets that overtake a CREP, stops repeating its CREQ, and waits without a
//     timer. And it does not answer CREPs that come without the CREQ before them by
//     a NACK, since nothing is missing.
//   - Messages that overtook a CREP are waited for: C loses them.
//   - A NACK is not answered by a NACK for ever, as between two C processes that both
//     miss something.
//   - A flush asks for an acknowledgement only if the last packet has not.
//   - The packet at a quarter of the window asks for one also where numbers go round.
//   - An answer ends the back-off of timers at once, a NACK too.
//   - Time in which nobody called does not count against a peer.
//   - Who closes says so, and who has no such endpoint any more, in packets of 8 bytes
//     that C takes for acknowledgements. They are said once; peers that do not hear
//     them find out by time, as with C.
//   - A close keeps what is on its way until the peer has it; C drops it.
package flow
