package uct

import (
	"crypto/tls"
	"net/netip"
)

// Source is a connection as its receiving side sees it. A transport embeds one in each of
// its connections, so it takes no allocation.
type Source struct {
	// Owner is the transport's connection. It may also be a SourceLocator, SourceSharer,
	// SourceEnder, SourcePauser and SourceExplainer.
	Owner SourceOwner

	// User belongs to the iface's user, which may set it in a handler. It is notified once
	// when no more messages will arrive from the Source, which must not be used afterwards.
	User SourceUser
}

// SourceOwner is a connection that can be dropped.
type SourceOwner interface {
	// DropSource drops the connection as if a handler had returned err.
	DropSource(err error)
}

// SourceInfo identifies the other end of a connection by what the kernel or TLS knows,
// whatever the peer claims.
type SourceInfo struct {
	Addr  netip.AddrPort       // the other end's address; its zone, if any, is the number of the device; not valid where the transport has none
	Local bool                 // the other end is on this machine, in this network namespace
	User  PeerUser             // of a local peer, as far as the kernel knows
	TLS   *tls.ConnectionState // nil without TLS
}

// PeerUser is the user whose process holds the other end of a connection within the
// machine.
type PeerUser struct {
	Known         bool // if false the other fields mean nothing
	UID, GID, PID int  // in the namespaces of this process; GID and PID are -1 where not known
}

// SourceLocator is a SourceOwner that knows its peer. Its methods belong to the worker's
// goroutine. SourceInfo and HeldBy may make system calls, and cache the results. A property
// that cannot be determined is taken as false: not local, no user, not held.
type SourceLocator interface {
	// SourceInfo returns the peer's identity.
	SourceInfo() SourceInfo

	// SourceTLS returns the connection's TLS state, without a system call.
	SourceTLS() *tls.ConnectionState

	// HeldBy reports whether, according to the kernel, a process of this machine holds the
	// other end of the connection.
	HeldBy(p Process) bool
}

// SourceSharer is a SourceOwner that knows whether its other direction is in use.
type SourceSharer interface {
	// SourceShared reports whether an endpoint of this side sends on the connection, and so
	// would fail with it. The transport chooses which endpoint sends on which connection:
	// it need not be an endpoint to the peer's sending endpoint.
	SourceShared() bool
}

// SourceEnder is a SourceOwner that can tell its peer that nothing more will be sent to it.
type SourceEnder interface {
	// EndSource ends the direction to the peer on the connection, if no endpoint sends on
	// it. The other direction is still received.
	EndSource()
}

// SourcePauser is a SourceOwner whose reading can be paused. What has arrived stays where
// it is, so that the peer cannot send without limit. A connection that breaks meanwhile is
// dropped as usual.
type SourcePauser interface {
	// PauseSource stops delivery from the connection until ResumeSource. It may be called
	// in a handler, whose message is then the last.
	PauseSource()

	// ResumeSource resumes delivery with the next round of progress. Nothing is lost. It
	// delivers nothing itself.
	ResumeSource()
}

// SourceExplainer is a SourceOwner that knows why it has ended.
type SourceExplainer interface {
	// SourceError returns the error that the connection has failed with, nil if it has not
	// failed or the error is not known.
	SourceError() error
}

// SourceHolder is an Endpoint whose connection is also a Source: what the peer sends back
// arrives on it.
type SourceHolder interface {
	// Source returns the current connection, nil while there is none.
	Source() *Source
}

// SourceUser is notified of the end of a connection.
type SourceUser interface {
	// SourceGone is called once at the end, whatever the cause, by the call that closes the
	// connection: inside progress, a send, a Close, or the making of an endpoint. It must
	// neither send nor call users. It may call Err of the Source.
	SourceGone()
}

// Drop drops the connection. The user is notified before it returns; data of a message that
// is being handled stays valid until its handler returns.
func (s *Source) Drop(err error) { s.Owner.DropSource(err) }

// Shared reports whether an endpoint of this side sends on the connection, as far as the
// transport can tell.
func (s *Source) Shared() bool {
	o, ok := s.Owner.(SourceSharer)
	return ok && o.SourceShared()
}

// End tells the peer that nothing more will be sent to it on the connection, if the
// transport can do so.
func (s *Source) End() {
	if e, ok := s.Owner.(SourceEnder); ok {
		e.EndSource()
	}
}

// Err returns the error that the connection has failed with, as far as the transport knows
// it.
func (s *Source) Err() error {
	if e, ok := s.Owner.(SourceExplainer); ok {
		return e.SourceError()
	}
	return nil
}

// Gone notifies the user of the source, once. Transports call it.
func (s *Source) Gone() {
	if u := s.User; u != nil {
		s.User = nil
		u.SourceGone()
	}
}
