package uct

import "net/netip"

// AddrLocator is an Iface whose peers have IP addresses, all or some.
type AddrLocator interface {
	// PeerAddr is where an endpoint to these untrusted addresses would connect to.
	// here says that it is an address of this machine, in this network namespace.
	// Addresses that cannot be read give an error; of a peer without an IP address it is not
	// valid, and without a port where connections have none.
	PeerAddr(p ReachableParams) (addr netip.AddrPort, here bool, err error)
}

// ReturnIface is an Iface whose endpoints can send on a connection that a peer has made.
type ReturnIface interface {
	// CanReturn reports whether EndpointParams.Over may be a connection, with these
	// untrusted addresses.
	CanReturn(over *Source, p ReachableParams) bool
}

// ListenerChecker is a SourceLocator that can tell whose listeners this machine has.
type ListenerChecker interface {
	// MayListen reports whether a peer on this machine can be who listens at an
	// address of this machine: false if nobody does, or another user than the peer's.
	// What the kernel does not tell counts as possible. It makes system calls.
	MayListen(at netip.AddrPort) bool
}

// WaySeeker is an Iface whose system may have to ask the network before anything can be
// sent to a peer, and waits long if nobody answers.
type WaySeeker interface {
	// SeekWay looks for the way to these untrusted addresses, unless it is known, and
	// reports whether it does: then done is called, once, inside progress, and told whether
	// there is one. If the Iface is closed before it is not called.
	SeekWay(p ReachableParams, done func(found bool)) bool
}
