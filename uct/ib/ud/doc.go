// Package ud is the transport ud_verbs: messages over a datagram queue pair, on the wire of
// C UCX (src/uct/ib/ud).
//
// # Layers
//
// A datagram may be lost, doubled or late. What makes connections of them is the
// state machine in internal/flow, which touches no device; internal/wire is the
// formats. This package gives it a queue pair, memory and a clock.
//
// # Endpoints
//
// All endpoints of an interface share one queue pair, so there may be any number. An
// endpoint is made to a peer's interface, or without addresses and then connected with
// one of the peer's. Peers that make endpoints to us make their other ends here
// (conn.go); the application's endpoint to the same peer takes them over.
//
// # A message
//
// A message that is sent lies in a buffer, its slot (slot.go), until the peer has
// acknowledged it, behind a header that the machine has made. Short ones go to
// the device within the request, and have small buffers for the case that they have to
// go again. What is not copied stays where it is, the caller's until then. If a
// device may still be reading a slot although nobody needs it any more, as it was sent
// twice or its peer is dead, it waits in limbo (limbo.go).
//
// What arrives comes from anyone who can reach the port. The address that it was sent to has
// to be one of the port (inbound.go), the one that it comes from the peer's; the
// rest the machine looks at.
//
// # Time
//
// While something is in flight a timer of the worker is set, which also wakes who sleeps
// (alarm.go). There is no goroutine: a program that makes no progress answers nobody,
// and peers of C give it up after 30 s (UCX_UD_TIMEOUT, theirs). With UCX_UD_ASYNC there is
// one, and it does what peers would miss (background.go).
package ud
