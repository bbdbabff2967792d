// Package ud is the transport ud_verbs: messages over a datagram queue pair, on the wire of
// C UCX (src/uct/ib/ud).
//
// # Layers
//
// A datagram may be lost, duplicated or late. The state machine in internal/flow, which
// touches no device, makes connections of datagrams; internal/wire has the formats. This
// package gives the state machine a queue pair, memory and a clock.
//
// # Endpoints
//
// All endpoints of an interface share one queue pair, so their number is not limited by it.
// An endpoint is made to a peer's interface, or made without addresses and then connected
// with an endpoint of the peer. When a peer makes an endpoint to this interface, the
// matching end is made here (conn.go); the application's endpoint to the same peer takes it
// over.
//
// # A message
//
// A message that is sent stays in a buffer, its slot (slot.go), behind a header that the
// state machine has made, until the peer has acknowledged it. Short messages are copied to
// the device within the request, and take small buffers in case they have to be sent again.
// Data that is not copied stays in the caller's memory until the acknowledgement. A slot may be
// unneeded while the device may still read it, because the message was sent twice or the peer is
// dead; such a slot is retired, and freed when the device is done with it (retired.go).
//
// Any process that can reach the port can send to it. The destination address of a packet
// has to be one of the port (inbound.go) and the source address the peer's; the state
// machine checks the rest.
//
// # Time
//
// While packets are in flight a timer of the worker is set, which also wakes a sleeping program
// (alarm.go). There is no goroutine: a program that makes no progress answers no peer, and
// peers of C UCX close the connection after 30 s (UCX_UD_TIMEOUT at the peer). With
// UCX_UD_ASYNC a goroutine answers peers meanwhile (background.go).
package ud
