package uct

import (
	"crypto/tls"
	"net/netip"
)

// Source is a connection as its receiving side sees it. A transport embeds one
// in each of its connections; it allocates nothing for it.
type Source struct {
	// Owner is the transport's connection. It may be a SourceLocator, a SourceSharer, a
	// SourceEnder, a SourcePauser and a SourceExplainer as well.
	Owner SourceOwner

	// User belongs to the iface's user, who may set it in a handler. It is told
	// once when no more messages will come from here, and the Source must not be
	// used after that.
	User SourceUser
}

// SourceOwner is a connection that can be dropped.
type SourceOwner interface {
	// DropSource drops the connection as if a handler had returned err.
	DropSource(err error)
}

// SourceInfo is who is at the other end of a connection, as the kernel or TLS says
// it, whatever the peer says.
type SourceInfo struct {
	Addr  netip.AddrPort       // the other end's address, its zone, if any, the number of the device; not valid where the transport has none
	Local bool                 // the other end is on this machine, in this network namespace
	User  PeerUser             // of a local peer, as far as the kernel tells
	TLS   *tls.ConnectionState // nil without TLS
}

// PeerUser is the user whose process holds the other end of a connection within the
// machine.
type PeerUser struct {
	Known         bool // the kernel says who it is; the rest means nothing otherwise
	UID, GID, PID int  // in the namespaces of this process; GID and PID are -1 where not known
}

// SourceLocator is a SourceOwner that knows its peer. Its methods belong to the
// worker's goroutine. SourceInfo and HeldBy may make system calls and remember what
// they found. What cannot be found out is not so: not local, no user, not held.
type SourceLocator interface {
	// SourceInfo is who the peer is.
	SourceInfo() SourceInfo

	// SourceTLS is its TLS, for which nobody has to be asked.
	SourceTLS() *tls.ConnectionState

	// HeldBy reports whether the kernel ties the other end of the connection to a
	// process of this machine.
	HeldBy(p Process) bool
}

// SourceSharer is a SourceOwner that knows whether its other direction is in use.
type SourceSharer interface {
	// SourceShared reports whether an endpoint of this side sends on the connection, and so
	// would fail with it. Which one is the transport's choice: it need not be one toward
	// the endpoint by which the peer sends.
	SourceShared() bool
}

// SourceEnder is a SourceOwner that can tell its peer that nothing will come back.
type SourceEnder interface {
	// EndSource ends what goes to the peer on the connection, if no endpoint sends on
	// it. What comes from there is still received.
	EndSource()
}

// SourcePauser is a SourceOwner whose reading can be stopped. What has arrived
// stays where it is, so that the peer cannot send without end. A connection that
// breaks meanwhile is dropped as ever.
type SourcePauser interface {
	// PauseSource delivers nothing more from the connection until ResumeSource. It
	// may be called in a handler, whose message is the last then.
	PauseSource()

	// ResumeSource goes on where PauseSource stopped, from the next round of progress
	// on. Nothing is lost. It delivers nothing itself.
	ResumeSource()
}

// SourceExplainer is a SourceOwner that knows why it has come to its end.
type SourceExplainer interface {
	// SourceError is what the connection has failed with, nil if it has not, or if nobody
	// knows.
	SourceError() error
}

// SourceHolder is an Endpoint whose connection is a Source as well: what the peer
// sends back comes on it.
type SourceHolder interface {
	// Source is the connection as it is now, nil while there is none.
	Source() *Source
}

// SourceUser wants to know of the end of a connection.
type SourceUser interface {
	// SourceGone is called at the end, of whatever kind, by whoever closes the
	// connection: inside progress, a send, a Close, or the making of an endpoint. It
	// must neither send nor call users. It may ask the Source for its Err.
	SourceGone()
}

// Drop drops the connection. The user is told before it returns; data of a
// message that is just being handled stays valid until its handler returns.
func (s *Source) Drop(err error) { s.Owner.DropSource(err) }

// Shared reports whether an endpoint of this side sends on the connection, as far as the
// transport can tell.
func (s *Source) Shared() bool {
	o, ok := s.Owner.(SourceSharer)
	return ok && o.SourceShared()
}

// End tells the peer that nothing will come back on the connection, where that can be
// told.
func (s *Source) End() {
	if e, ok := s.Owner.(SourceEnder); ok {
		e.EndSource()
	}
}

// Err is what the connection has failed with, as far as the transport can tell.
func (s *Source) Err() error {
	if e, ok := s.Owner.(SourceExplainer); ok {
		return e.SourceError()
	}
	return nil
}

// Gone tells the user of the source, once. Transports call it.
func (s *Source) Gone() {
	if u := s.User; u != nil {
		s.User = nil
		u.SourceGone()
	}
}
