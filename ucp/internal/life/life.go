// Package life is the life of one end of an endpoint, from the time when it is made to
// the release of what it holds, as a value: the stage it is in, what it knows of the
// peer's end, and a table that says for each event what comes next and what is owed.
// It has no I/O and knows no operation by name; package ucp reports what happens and
// carries out the duties.
//
// # What a close means
//
// A flush close refuses new operations at once. The end stays until the operations that
// were started before have ended: messages that the peer still has to match, data that
// the peer fetches, data that this side fetches for a receive. Then the lanes are
// flushed, then the peer is told, and the close is over. Operations are canceled only
// when the peer's end is gone, when the application gives up (the context of
// Endpoint.Shutdown ends), or when it closes by force.
//
// Behind the close the end may have to stay for the peer, hidden from the application:
// as long as the peer's application holds the other end, the other end may send messages
// whose data has to be fetched and acknowledged (stage Serving; C UCX keeps such endpoints
// until the worker is destroyed, ucp_ep_disconnected in src/ucp/core/ucp_ep.c). So an end
// that its application has closed says "released", and an end that is held by nobody and
// hears that from its peer says "removed" and goes; the peer's end, hearing that, goes as
// well. Ends that the library has made for a peer are held by nobody from the beginning.
//
// Over a connection manager nobody serves: both sides disconnect, each when it has
// flushed, and an end that hears of the peer's disconnect cancels what the peer cannot
// match any more. C UCX fails an end whose peer disconnects before the application has
// closed it, so a patient end, that of a server or of a peer of C UCX, gives the peer time
// to disconnect first. An end of this library answers such a disconnect at once; if no
// operation is lost by it, its application is given time to close the end as well (stage
// CloseWait) before it is told of a failure.
//
// Peers that do not know the two words, those of C UCX among them, are told nothing
// (Deaf). Their ends are served until the connection or the process is gone, until they
// answer a keepalive, or until others need the room.
package life

// Stage is how far an end is.
type Stage uint8

// The stages. An end begins as Serving or Open.
const (
	Serving   Stage = iota // held by nobody on this side: there for the peer's end
	Open                   // the application holds it
	CloseWait              // the peer has disconnected; the application holds it and has not been told
	Draining               // closed; operations that were started before are under way
	Flushing               // these have ended; the lanes are being flushed
	Resigning              // "released" is being sent
	Parting                // the peer is given time to disconnect first
	Leaving                // "removed" is being sent, or the manager waits for the peer's disconnect
	Failed                 // the peer is lost; the application still holds the end
	Gone                   // released
	numStages
)

// Peer is what is known of the other end.
type Peer uint8

// What may be known of it.
const (
	PeerUnknown  Peer = iota // it has not been asked for: there is none
	PeerAsked                // it has been asked for, or has been told this end's id: there may be one
	PeerHere                 // it has named itself
	PeerReleased             // nobody holds it, and nothing of its own is under way
	PeerLeft                 // it has disconnected the connection manager's connection
)

// End is one end. The zero value is one that the library has made for a peer that has not
// been heard of.
type End struct {
	Stage   Stage
	Peer    Peer
	Managed bool // a connection manager carries its beginning and end
	Deaf    bool // the peer does not know "released" and "removed"
	Closed  bool // the application has held the end and closed it
	Patient bool // the peer is given time to disconnect first
	Final   bool // the worker is being shut down: nobody is served behind the close
}

// Event is something that happens to an end.
type Event uint8

// Events.
const (
	// Of the application.
	Claim  Event = iota // it asks for an endpoint to the peer, and is given this one
	Close               // flush close
	Leave               // flush close because the worker is shut down
	GiveUp              // it no longer waits for the operations that a close waits for
	Force               // it releases the end at once
	Evict               // the room is needed

	// Of the operations and lanes of this end.
	Quiet   // the last operation under way has ended
	Flushed // the flush of the lanes is over
	Waited  // the peer has not disconnected, or the application not closed, in the time that it was given
	Told    // "released" or "removed" has been handed to the transport
	Lost    // a lane is lost: the peer's process, its worker or the connection

	// Of the peer's end.
	Asked    // it is asked for
	Named    // it says its id
	Released // it says "released"
	Removed  // it says "removed", or that it does not exist
	Left     // it has disconnected
	numEvents
)

// Duty is what is owed after an event; several at once.
type Duty uint16

// Duties, in the order in which they are carried out.
const (
	Refuse       Duty = 1 << iota // operations that the application starts from now on
	Cancel                        // what is under way ends with ErrCanceled
	Fail                          // what is under way ends with the reason of the event
	Flush                         // flush the lanes, then report Flushed
	TellReleased                  // send "released", then report Told
	TellRemoved                   // send "removed", then report Told
	SayRemoved                    // send "removed" if the transport takes it at once
	Await                         // give the peer time to disconnect first, or the application to close, then report Waited
	Disconnect                    // the connection manager's connection
	CallHandler                   // the application's error handler
	CloseDone                     // the close has succeeded
	Shelve                        // the end is kept for the peer until its room is needed
	Release                       // lanes, connection, ids; a close that is under way ends
)

// Next returns what becomes of an end by an event, and what is owed. busy says whether an
// operation is under way that the end has to stay for. An event that means nothing in a
// stage changes nothing.
func (e End) Next(ev Event, busy bool) (End, Duty) { return table.next(e, ev, busy) }

// next goes by a table.
func (t rules) next(e End, ev Event, busy bool) (End, Duty) {
	f := e.facts(busy)
	for i := range t {
		r := &t[i]
		if r.on&(1<<ev) == 0 || r.from&(1<<e.Stage) == 0 || f&r.need != r.need || f&r.not != 0 {
			continue
		}
		if r.to != same {
			e.Stage = r.to
		}
		if r.peer != PeerUnknown {
			e.Peer = r.peer
		}
		e.Closed = e.Closed || r.do&Refuse != 0
		e.Final = e.Final || ev == Leave
		return e, r.do
	}
	return e, 0
}

// Held reports whether the application may use the end.
func (e End) Held() bool { return e.Stage == Open || e.Stage == CloseWait || e.Stage == Failed }

// Usable reports whether operations may be started on the end: by the application on its
// own, by the library on one that serves.
func (e End) Usable() bool { return e.Stage == Open || e.Stage == Serving && !e.Closed }

// Closing reports whether a close of the application is under way.
func (e End) Closing() bool { return e.Stage >= Draining && e.Stage <= Leaving }

// Refuses reports whether the application can start nothing on the end any more, because
// of a close.
func (e End) Refuses() bool { return e.Closed || e.Stage == Gone }

// Mine reports whether the application holds the end or has held it.
func (e End) Mine() bool { return e.Closed || e.Held() }
