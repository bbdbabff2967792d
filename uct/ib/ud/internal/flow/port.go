//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Port is the layer above: a queue pair, and the owner of what waits there.
type Port interface {
	// Post sends a packet that nobody keeps. The bytes are the machine's; they have to
	// be copied before it returns. A solicited packet wakes a peer that sleeps. False
	// means that the queue has no room: Dispatch offers it again.
	Post(e *Endpoint, pkt []byte, solicited bool) bool

	// Repost sends the message in a slot again, with another header, solicited. False
	// means as in Post.
	Repost(e *Endpoint, slot int32, h wire.Header) bool

	// Busy reports whether repeated messages of the endpoint are still in the queue:
	// then a missing answer says nothing.
	Busy(e *Endpoint) bool

	// Done gives back a slot: the peer has received the message or, with an error, never
	// will as far as we know. The device may still be reading it, if it was posted more
	// than once or the error is not nil; that is the layer's to wait for.
	Done(e *Endpoint, slot int32, err error)

	// Resolve makes out which peer a CREQ is from. The same peer has to come out for a
	// peer given to Open. False if there is no such address.
	Resolve(devAddr []byte, qpn uint32, path uint8) (Peer, bool)

	// Accept prepares the way to the peer of an endpoint that a CREQ makes, and sets
	// its User. False if there is none: then the endpoint is not made.
	Accept(e *Endpoint, devAddr []byte) bool

	// Connected is told once of endpoints made by Open, when their peer is known.
	Connected(e *Endpoint)

	// Room is told when an endpoint that has refused a message would take one.
	Room(e *Endpoint)

	// Failed is told once that an endpoint is dead. Its slots have been given back. The
	// endpoint is there, without any effect, until it is closed.
	Failed(e *Endpoint, err error)

	// Ended is told when the peer sends no messages any more. It can still be sent to; what
	// it has made itself nobody needs (Endpoint.Forget).
	Ended(e *Endpoint)

	// Gone is told of each endpoint when the machine forgets it.
	Gone(e *Endpoint)
}

// Peer is the other end of a connection, as numbers of connections are counted for it:
// an interface, on one of the paths to it.
type Peer struct {
	Addr [24]byte // whatever tells devices apart
	QPN  uint32
	Path uint8
}
