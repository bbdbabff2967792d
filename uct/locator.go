package uct

import "net/netip"

// AddrLocator is an Iface all or some of whose peers have IP addresses.
type AddrLocator interface {
	// PeerAddr returns the socket address that an endpoint to these untrusted addresses
	// would connect to. here reports whether it is an address of this machine, in this
	// network namespace. Malformed addresses give an error. The result is not valid for a
	// peer without an IP address, and has no port where connections have none.
	PeerAddr(p ReachableParams) (addr netip.AddrPort, here bool, err error)
}

// ReturnIface is an Iface whose endpoints can send on a connection made by a peer.
type ReturnIface interface {
	// CanReturn reports whether a connection may be used as EndpointParams.Over, with these
	// untrusted addresses.
	CanReturn(over *Source, p ReachableParams) bool
}

// ListenerChecker is a SourceLocator that can tell which user owns a listener of this
// machine.
type ListenerChecker interface {
	// MayListen reports whether a peer on this machine may be the owner of the listener at
	// an address of this machine: false if nothing listens there, or a process of another
	// user does. It returns true if the kernel does not tell. It makes system calls.
	MayListen(at netip.AddrPort) bool
}

// WaySeeker is an Iface whose system may have to resolve an address on the network before
// anything can be sent to a peer, which takes long if there is no answer.
type WaySeeker interface {
	// SeekWay resolves these untrusted addresses, unless that is done, and reports whether
	// it has started to: then done is called once, inside progress, with whether the peer
	// can be reached. It is not called if the Iface is closed before.
	SeekWay(p ReachableParams, done func(found bool)) bool
}
