package uct

import (
	"crypto/tls"
	"net/netip"
)

// Source is the receiving side of a connection. A transport embeds a Source in each of its
// connections, so it needs no allocation.
type Source struct {
	// Owner is the transport's connection. It may also be a Connection.
	Owner SourceOwner

	// User belongs to the iface's user, which may set it in a handler. It is notified once when
	// no more messages will arrive from the Source; the Source must not be used afterwards.
	User SourceUser
}

// SourceOwner is the transport's side of a connection that messages arrive on. If the connection
// comes from another process, it is usually also a Connection.
type SourceOwner interface {
	// DropSource drops the connection as if a handler had returned err.
	DropSource(err error)

	// SourceShared reports whether an endpoint of this side sends on the connection, and so fails
	// when the connection fails. The transport chooses which endpoint sends on which connection:
	// the endpoint need not be connected to the endpoint from which the peer sends.
	SourceShared() bool

	// EndSource closes the direction to the peer on the connection, if the transport can do
	// that and no endpoint sends on the connection. Messages from the peer are still received.
	EndSource()

	// SourceError returns the error that the connection has failed with, or nil if the
	// connection has not failed or the error is not known.
	SourceError() error

	// CheckSource makes sure that the end of the peer is noticed although nothing is sent to it: a
	// transport that notices the end of a peer only by missing answers asks the peer for one. If
	// the peer is gone, the connection ends later. It does not wait.
	CheckSource()
}

// SourceInfo identifies the other end of a connection by information from the kernel or from
// TLS, not from the peer's messages.
type SourceInfo struct {
	Addr  netip.AddrPort       // the other end's address, with the device index as zone; not valid if there is none
	Local bool                 // the other end is on this machine, in this network namespace
	User  PeerUser             // user of a local peer, as far as the kernel reports it
	TLS   *tls.ConnectionState // nil without TLS
}

// PeerUser is the user whose process holds the other end of a connection within the
// machine.
type PeerUser struct {
	Known         bool // if false the other fields mean nothing
	UID, GID, PID int  // in the namespaces of this process; GID and PID are -1 if not known
}

// SourceUser is notified of the end of a connection.
type SourceUser interface {
	// SourceGone is called once when the connection ends, whatever the cause, by the call that
	// closes the connection: inside progress, a send, a Close, or NewEndpoint. It must neither
	// send nor call application callbacks. It may call Err of the Source.
	SourceGone()
}

// Check asks for a sign of the peer, if the transport needs one to notice that the peer is gone.
func (s *Source) Check() { s.Owner.CheckSource() }

// Drop drops the connection. The user is notified before it returns; data of a message that
// is being handled stays valid until its handler returns.
func (s *Source) Drop(err error) { s.Owner.DropSource(err) }

// Shared reports whether an endpoint of this side sends on the connection, as far as the
// transport can tell.
func (s *Source) Shared() bool { return s.Owner.SourceShared() }

// End closes the direction to the peer on the connection, if the transport is able to.
func (s *Source) End() { s.Owner.EndSource() }

// Err returns the error that the connection has failed with, as far as the transport knows
// it.
func (s *Source) Err() error { return s.Owner.SourceError() }

// Gone notifies the user of the source, once. Transports call it.
func (s *Source) Gone() {
	if u := s.User; u != nil {
		s.User = nil
		u.SourceGone()
	}
}
