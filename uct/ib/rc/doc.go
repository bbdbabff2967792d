// Package rc is the transport rc_verbs: messages, puts, gets and atomics over reliable
// connections between queue pairs, with the wire protocol of C UCX (src/uct/ib/rc).
//
// # Files
//
//	subject or state                                file
//
//	interface, queues and buffers of all endpoints  iface.go
//	settings                                        settings.go
//	limits and performance                          attr.go
//	queue pair: creation, RESET to INIT             endpoint.go (NewEndpoint)
//	queue pair: connection, INIT to RTS             endpoint.go (ConnectToEP), iface.go (pathAttr)
//	queue pair: failure                             failure.go
//	queue pair: failure that is not reported        lost.go
//	queue pair: receiving after Close               drain.go
//	queue pair: end, ERR, destruction               end.go
//	queue pair: completions after destruction       retired.go
//	endpoint addresses                              address.go
//	endpoint of a queue pair number                 qpns.go
//	admission to the send queue                     admit.go
//	posting and signaling                           post.go, tail.go
//	requests in flight                              ops.go
//	progress, completions of sends                  progress.go
//	receives and their completions                  receive.go
//	messages                                        am.go, message.go
//	flow control of messages                        flow.go, grants.go
//	puts and gets, memory keys                      rma.go
//	atomics                                         atomic.go
//	fences, flushes, checks of the peer             flush.go
//	peers that acknowledge nothing                  overdue.go, spans.go
//	peers as sources, dropped connections           source.go
//	paused connections                              backlog.go
//	asynchronous events, link down                  news.go
//
// # Endpoints
//
// An endpoint is a queue pair, made without addresses and connected with a queue pair of
// the peer by ConnectToEP. All endpoints share the completion queues of their interface and
// its queue of receive buffers. Neither connecting nor closing sends anything on the wire, so
// only a send or a Check detects that a peer is gone.
//
// # What is posted
//
// Each operation is one work request (admit.go, post.go). Most messages ask for no completion: they
// are complete when a later request on the same queue pair, one that asks for a completion, is
// complete. A record in the list of the endpoint (ops.go) holds what an operation needs until then:
// a buffer, or a completion to notify.
//
// Four resources can run out: entries of the send queue of an endpoint; entries of the
// completion queue, and buffers, half of which are reserved for endpoints that hold few
// (admit.go); and, for messages, the window that the peer has granted (flow.go). Requests
// then wait in the arbiter of the interface; grants for peers go first (grants.go).
//
// # What arrives
//
// A message begins with a byte: the id of its handler and, in three bits, the flow control
// (message.go). The queue pair number, which the device chose, identifies the endpoint that
// it belongs to (qpns.go).
//
// The queue of receives begins with a few buffers, and the poller adds more when most of
// them were used between two polls (memory.RecvPool). Devices can raise an event when few are
// left (ibv_modify_srq, IBV_SRQ_LIMIT). Like C UCX, this package does not use it: the same
// goroutine would read the event, after the messages that have used the buffers.
//
// # The end
//
// An endpoint ends by Close, by a flush that cancels, or by a failure. In each case the
// queue pair is destroyed before its resources are released, so the device reads no memory
// that has been reused (end.go). Of the completions that are still in the queues, messages
// are delivered and the others are ignored (retired.go). If a peer goes without losing
// anything that was sent to it, there is no failure until the endpoint is used again
// (lost.go). The device reports a dead peer after some retries; soft-RoCE retries forever,
// so after a Check this package watches whether the peer acknowledges anything
// (overdue.go). Queue pair numbers are reused only after the queues have been seen empty.
package rc
