package ucp

// endpointState is a set of flags about how the endpoint and its peer find each other. How
// it ends is in Endpoint.life.
type endpointState uint16

const (
	epRequested endpointState = 1 << iota // a wireup request was sent
	epDraining                            // the operations of the waiting list are being started
	epPurging                             // its operations are being ended
	epRejected                            // the peer was told that its end is of no use
	epChecking                            // a keepalive message is on its way
	epWaiting                             // the last keepalive found it waiting for a message of the peer
	epHearsay                             // a roamer said what remoteID is, and nothing has borne it out
	epTwice                               // its request will be sent twice, the peer's own was not believed
	epRepeated                            // it was sent once more
	epInsisted                            // and a third time
	epUnmapped                            // the peer has asked for data that it could have copied out of memory of ours
	epAstray                              // the peer offers data over a connection that may not write where memory is opened to it
)
