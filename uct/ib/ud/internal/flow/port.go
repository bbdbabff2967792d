//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Port is the layer above: a queue pair, and the owner of the messages in flight.
type Port interface {
	// Post sends a packet that has no slot. pkt belongs to the state machine; Post has to copy
	// it before it returns. A solicited packet wakes a sleeping peer. False means that the
	// queue has no room: Dispatch offers the packet again.
	Post(e *Endpoint, pkt []byte, solicited bool) bool

	// Repost retransmits the message in a slot, with another header, as a solicited packet.
	// False means that the queue has no room, as in Post.
	Repost(e *Endpoint, slot int32, h wire.Header) bool

	// Busy reports whether retransmitted messages of the endpoint are still in the queue.
	// Then a missing answer is no sign of loss.
	Busy(e *Endpoint) bool

	// Done gives back a slot. The peer has received the message; with an error it probably
	// never will. The device may still be reading the slot, if it was posted more than once
	// or the error is not nil; the layer has to wait for the device.
	Done(e *Endpoint, slot int32, err error)

	// Resolve returns the peer that a CREQ is from, which has to equal the Peer that Open is
	// given for the same peer. It returns false if the address is invalid.
	Resolve(devAddr []byte, qpn uint32, path uint8) (Peer, bool)

	// Accept prepares the path to the peer of an endpoint that a CREQ makes, and sets the
	// endpoint's User. It returns false if there is no path: then the endpoint is not made.
	Accept(e *Endpoint, devAddr []byte) bool

	// Connected is called once for an endpoint made by Open, when its peer is known.
	Connected(e *Endpoint)

	// Room is called when an endpoint that has refused a message would take one.
	Room(e *Endpoint)

	// Failed is called once when an endpoint fails. Its slots have been given back. The
	// endpoint stays, without any effect, until it is closed.
	Failed(e *Endpoint, err error)

	// Ended is called when the peer has closed its endpoint and sends no more messages.
	// Messages can still be sent to the peer. A passive endpoint is not needed any more
	// (Endpoint.Forget).
	Ended(e *Endpoint)

	// Gone is called for each endpoint when the state machine forgets it.
	Gone(e *Endpoint)
}

// Peer is a remote interface on one of the paths to it. Connection numbers are counted for each
// Peer.
type Peer struct {
	Addr [24]byte // identifies the device
	QPN  uint32
	Path uint8
}
