// Package ud is the transport ud_verbs: messages over a datagram queue pair, with the wire protocol
// of C UCX (src/uct/ib/ud).
//
// # Files
//
//	subject or state                              file
//
//	interface: opening, closing                   open.go, iface.go, shut.go
//	interface: failed, when the device is gone    dead.go
//	queue pair: creation, RESET to RTS            open.go (openQP)
//	queue pair: error state and reset             reset.go
//	settings                                      settings.go
//	limits and performance                        attr.go
//	endpoint: creation, connection                endpoint.go
//	endpoint: failure, cancel, close              end.go
//	connections, paths to peers                   conn.go
//	connection states                             internal/flow/endpoint.go (state)
//	state machine of all connections              internal/flow/iface.go
//	connection setup, CREQ and CREP               internal/flow/connect.go, peers.go
//	endpoint ids                                  internal/flow/table.go
//	limits on endpoints of peers, eviction        internal/flow/evict.go, account.go, ranking.go
//	closing, lingering, notices to the peer       internal/flow/close.go
//	window, packets in flight                     internal/flow/window.go, send.go
//	acknowledgements: received                    internal/flow/ack.go
//	acknowledgements and other control: sent      internal/flow/owed.go, dispatch.go, packets.go
//	retransmission                                internal/flow/resend.go
//	timers, dead peers                            internal/flow/tick.go, clock.go, heap.go
//	receiving in order                            internal/flow/receive.go
//	packet formats                                internal/wire
//	state machine's use of the queue pair         port.go (flow.Port), sendqueue.go
//	active messages                               am.go
//	buffers of messages in flight                 slot.go
//	buffers that the device may still read        retired.go
//	completions of sends                          sent.go
//	received packets, their addresses             inbound.go
//	logging of dropped packets                    refused.go
//	fences, flushes, checks of the peer           flush.go
//	progress, timer                               progress.go, alarm.go
//	paused connections                            pause.go
//	peers as sources                              source.go
//	asynchronous events                           news.go
//	goroutine of UCX_UD_ASYNC                     background.go, offline.go, guarded.go
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
// with an endpoint of the peer. When a peer makes an endpoint to this interface, this side of
// the connection is made here (conn.go); the application's endpoint to the same peer takes it
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
// must be an address of the port (inbound.go), and the source address must be that of the peer. The
// state machine checks the rest.
//
// # Time
//
// While packets are in flight a timer of the worker is set, which also wakes a sleeping program
// (alarm.go). There is no goroutine: a program that makes no progress answers no peer, and
// peers of C UCX close the connection after 30 s (UCX_UD_TIMEOUT at the peer). With
// UCX_UD_ASYNC a goroutine answers peers meanwhile (background.go).
package ud
