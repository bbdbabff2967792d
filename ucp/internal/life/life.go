// Package life is the state machine of an endpoint, from its creation until its resources are
// released. A value of type End holds the stage of the endpoint, and what is known of the peer's
// endpoint, to which it is connected. A table (table.go) gives the next stage and the duties for
// each event. Package ucp reports the events and carries out the duties; this package does no I/O,
// and does not distinguish operations.
//
// An application holds an endpoint from the call that returns the endpoint until it closes it. An
// endpoint that the library has made for the request of a peer is held by no application until the
// application requests an endpoint to that peer and gets this one (Claim).
//
// # What a close means
//
// A flush close refuses new operations at once. The endpoint stays until the operations that were
// started before have ended: messages that the peer still has to match, data that the peer
// fetches, data that this side fetches for a receive. Then the lanes are flushed, then the peer
// is notified, and the close is complete. Operations are canceled only if the peer's endpoint is
// gone, if the application gives up (the context of Endpoint.Shutdown ends), or if it closes by
// force.
//
// After the close the endpoint may have to stay for the peer, hidden from the application: as long
// as the peer's application holds the peer's endpoint, that endpoint may send messages whose data
// must be fetched and acknowledged (stage Serving; C UCX keeps such endpoints until the worker is
// destroyed, ucp_ep_disconnected in src/ucp/core/ucp_ep.c). Therefore an endpoint that its
// application has closed sends the message "released" (proto.EpReleased). An endpoint that no
// application holds and that receives "released" sends "removed" (proto.EpRemoved) and is released.
// An endpoint that receives "removed" is released too.
//
// With a connection manager no endpoint is in stage Serving: each side disconnects when it has
// flushed, and an endpoint whose peer has disconnected cancels the operations that the peer cannot
// match any more. C UCX fails an endpoint whose peer disconnects before the application has closed
// it. Therefore an endpoint of a server, and an endpoint to a C UCX peer, gives the peer time to
// disconnect first (PeerDisconnectsFirst). An endpoint of this library answers an early disconnect at once. If
// no operation is lost by it, the application gets time to close the endpoint too (stage
// CloseWait), before the disconnect is reported as a failure.
//
// Peers that do not know the two messages, such as C UCX, are not notified (NoCloseMessages). Endpoints are
// kept for them in stage Serving until the connection or the process is gone, until the peer
// answers a keepalive with the statement that its endpoint does not exist, or until the worker
// keeps too many such endpoints (Evict).
package life

import "github.com/ucx-go/ucx/internal/platform"

// Stage is the stage of an endpoint.
type Stage uint8

// Stages of an endpoint. The first is Serving or Open.
const (
	Serving   Stage = iota // no application here holds the endpoint; it serves the peer's endpoint
	Open                   // the application holds the endpoint
	CloseWait              // the peer has disconnected; the application was not notified yet
	Draining               // closed; operations that were started before are in progress
	Flushing               // closed, and all operations have ended; the lanes are being flushed
	Resigning              // closed and flushed; the message "released" is being sent
	Parting                // closed and flushed; the peer is given time to disconnect first
	Leaving                // "removed" is being sent, or the peer's disconnect is awaited
	Failed                 // the peer is lost; the application still holds the endpoint
	Gone                   // the resources of the endpoint are released
	numStages
)

// Peer is what is known of the peer's endpoint.
type Peer uint8

// Knowledge about the peer's endpoint.
const (
	PeerUnknown  Peer = iota // the peer's endpoint was never requested, and does not exist
	PeerAsked                // the peer's endpoint was requested or got this endpoint's id, and may exist
	PeerHere                 // the peer's endpoint has sent its id
	PeerReleased             // no application holds the peer's endpoint, and it has no operations
	PeerLeft                 // the peer has disconnected the connection manager's connection
)

// End is the state of one endpoint. The zero value is an endpoint that the library has made for a
// peer from which no message has come.
type End struct {
	Stage                Stage
	Peer                 Peer
	Managed              bool // a connection manager connects and disconnects the endpoint
	NoCloseMessages      bool // the peer does not know the messages "released" and "removed"
	Closed               bool // the application has held the endpoint and closed it
	PeerDisconnectsFirst bool // after a close, the peer is given time to disconnect first
	ShuttingDown         bool // the worker is shut down, so the endpoint does not serve after the close
}

// Event is something that happens to an endpoint.
type Event uint8

// Events of an endpoint.
const (
	// Events that the application or the worker causes.
	Claim         Event = iota // the application requests an endpoint to the peer, and gets this one
	Close                      // the application starts a flush close
	ShutdownClose              // a flush close starts because the worker is being shut down
	GiveUp                     // the application stops waiting for the operations that a close waits for
	Force                      // the application releases the endpoint at once
	Evict                      // the worker releases an endpoint that no application holds, to make room

	// Events of the operations and lanes of this endpoint.
	OperationsDone // the last operation in progress has ended
	Flushed        // the flush of the lanes has ended
	Waited         // the time for the peer to disconnect, or for the application to close, is over
	MessageSent    // the message "released" or "removed" has been passed to the transport
	Lost           // a lane has failed, because the peer's process, its worker or the connection is gone

	// Events of the peer's endpoint.
	Asked    // this side requests the peer's endpoint
	Named    // the peer's endpoint has sent its id
	Released // the peer's endpoint has sent "released"
	Removed  // the peer's endpoint has sent "removed", or a reply says that it does not exist
	Left     // the peer's endpoint has disconnected
	numEvents
)

// Duty is a set of actions that package ucp must carry out after an event.
type Duty uint16

// Actions after an event, in the order in which they are carried out.
const (
	Refuse         Duty = 1 << iota // refuse operations that the application starts from now on
	Cancel                          // end the operations in progress with ErrCanceled
	Fail                            // end the operations in progress with the reason of the event
	Flush                           // flush the lanes, then report Flushed
	SendReleased                    // send the message "released", then report Told
	SendRemoved                     // send the message "removed", then report Told
	TrySendRemoved                  // send the message "removed" if the transport takes it at once
	Await                           // start the time for the peer to disconnect, or the application to close; then report Waited
	Disconnect                      // end the connection manager's connection
	CallHandler                     // call the application's error handler
	CloseDone                       // report that the close has succeeded
	Retain                          // keep the endpoint for the peer, until Evict at the latest
	Release                         // release lanes, connection and ids; end a close in progress
)

// Next returns the state of an endpoint after an event, and the duties. busy means that an
// operation in progress needs the endpoint. An event without a rule for the stage changes nothing.
func (e End) Next(ev Event, busy bool) (End, Duty) { return table.next(e, ev, busy) }

// next applies the first rule that matches the state of the endpoint and the event.
func (t rules) next(e End, ev Event, busy bool) (End, Duty) {
	f := e.facts(busy)
	for i := range t {
		r := &t[i]
		if r.on&(1<<ev) == 0 || r.from&(1<<e.Stage) == 0 || f&r.need != r.need || f&r.not != 0 {
			continue
		}
		platform.Applied("life", i)
		if r.to != same {
			e.Stage = r.to
		}
		if r.peer != PeerUnknown {
			e.Peer = r.peer
		}
		e.Closed = e.Closed || r.do&Refuse != 0
		e.ShuttingDown = e.ShuttingDown || ev == ShutdownClose
		return e, r.do
	}
	return e, 0
}

// Held reports whether the application holds the endpoint.
func (e End) Held() bool { return e.Stage == Open || e.Stage == CloseWait || e.Stage == Failed }

// Usable reports whether operations may be started on the endpoint: by the application on an open
// endpoint, by the library also on a serving endpoint that the application has not closed.
func (e End) Usable() bool { return e.Stage == Open || e.Stage == Serving && !e.Closed }

// Closing reports whether a close is in progress.
func (e End) Closing() bool { return e.Stage >= Draining && e.Stage <= Leaving }

// Refuses reports whether the application can no longer start operations on the endpoint, because
// it was closed.
func (e End) Refuses() bool { return e.Closed || e.Stage == Gone }

// Claimable reports whether the application can still get the endpoint, which the library has made
// for a peer.
func (e End) Claimable() bool { return e.Stage == Serving && !e.Closed }

// EverHeld reports whether the application holds the endpoint or has held it.
func (e End) EverHeld() bool { return e.Closed || e.Held() }
