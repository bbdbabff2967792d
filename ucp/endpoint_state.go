package ucp

// endpointState is a set of flags.
type endpointState uint16

const (
	epUser      endpointState = 1 << iota // created or adopted by the user
	epRequested                           // a wireup request was sent
	epClosing                             // close was called
	epClosed
	epDraining // the operations of the waiting list are being started
	epRejected // the peer was told that its end is of no use
	epChecking // a keepalive message is on its way
	epWaiting  // the last keepalive found it waiting for a message of the peer
	epHearsay  // a roamer said what remoteID is, and nothing has borne it out
	epTwice    // its request will be sent twice, the peer's own was not believed
	epRepeated // it was sent once more
	epInsisted // and a third time
	epUnmapped // the peer has asked for data that it could have copied out of memory of ours
	epAstray   // the peer offers data over a connection that may not write where memory is opened to it
)
