// Package rc is the transport rc_verbs: messages, puts, gets and atomics over reliable
// connections between queue pairs, on the wire of C UCX (src/uct/ib/rc).
//
// # Endpoints
//
// An endpoint is a queue pair, made without addresses and connected with one of the peer's
// by ConnectToEP. All share the completion queues of their interface and its
// queue of receive buffers. Nothing is said on the wire to connect and nothing to part:
// that a peer is gone is found out by sending, or by a Check.
//
// # What is posted
//
// Each operation is one work request (admit.go, post.go). Most messages do not ask for a
// completion: a later one that does, on the same queue pair, tells of them as well.
// What an operation holds until then, a buffer or somebody who waits, is a record in
// the list of its endpoint (ops.go).
//
// Three things can run out, and a fourth for messages: places in the send queue of an
// endpoint, places in the completion queue and buffers, half of which are for those who have
// few (admit.go), and the window that the peer has granted (flow.go). Requests wait in the arbiter of
// the interface then; grants for peers go first (grants.go).
//
// # What arrives
//
// A message begins with a byte: the id of its handler, and in three bits the
// flow control (message.go). Which endpoint it belongs to the number of the queue pair
// says, which the device chose (qpns.go).
//
// The queue of receives begins with a few buffers, and whoever polls gets more when most of
// them were used between two looks (ib.RecvPool). Devices can tell by an event when few
// are left (ibv_modify_srq, IBV_SRQ_LIMIT); they are not asked to, as by C UCX: the
// event is read by the same goroutine, later than the messages that have used the buffers.
//
// # The end
//
// An endpoint ends by Close, by a flush that cancels, or by a failure, and each way the
// queue pair is destroyed before what it held is given back: the device reads
// no memory then that is not its own (end.go). Of the completions that are still in the queues
// those of messages are delivered, the others find nobody (limbo.go). A peer that goes and
// takes nothing along that anybody has sent makes no failure until the endpoint is used again
// (lost.go). That a peer is gone the device says, after some retries; soft-RoCE goes on for
// ever, and from a Check on it is looked there whether the peer acknowledges anything
// (overdue.go). Numbers come to mean others only when the queues have been seen empty.
package rc
