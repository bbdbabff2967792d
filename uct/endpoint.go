package uct

import "net/netip"

// Endpoint is the send side toward one peer. See the package comment for what
// the results mean and for goroutine rules. Active messages without the capability
// bit return ucs.ErrUnsupported; embed NoAM to get that.
//
// What else a transport can do are interfaces of its endpoints: RMA, Atomic,
// Paired, Located, Multihomed, Checker, ProcessEndpoint, Lingerer, Claimer. Their user
// asserts them once, when it has made the endpoint. They are there for every endpoint of an iface whose attributes
// announce what they do. Where nothing of it is announced they may be there all
// the same, as settings turn off what a type has, and refuse everything with
// ucs.ErrUnsupported.
//
// Operations of one endpoint are delivered in the order they were accepted.
// While its pending queue holds something, every new operation but those of the
// dispatch gets ucs.ErrNoResource.
type Endpoint interface {
	// AMShort sends an 8-byte header, little-endian on the wire, and a payload.
	// Both are copied or sent before it returns; c is told when the bytes have
	// left the library.
	AMShort(id AMID, header uint64, payload []byte, flags SendFlags, c *Completion) error

	// AMShortIOV sends a list of entries as one short message.
	AMShortIOV(id AMID, iov []IOV, flags SendFlags, c *Completion) error

	// AMBcopy sends what p packs, at most AM.MaxBcopy bytes. It returns the
	// packed length with nil or ucs.InProgress.
	AMBcopy(id AMID, p Packer, flags SendFlags, c *Completion) (int, error)

	// AMZcopy sends a header packed by hdr (nil: none), at most AM.MaxZcopyHdr
	// bytes, and the entries of iov without copying them: the memory belongs to
	// the transport until the completion.
	AMZcopy(id AMID, hdr Packer, iov []IOV, flags SendFlags, c *Completion) error

	// Flush completes when everything accepted before has left (and, for
	// transports with remote access, has taken effect at the peer) and the
	// completions of it have been told: closing then cancels nothing. With
	// FlushCancel outstanding operations are ended with ucs.ErrCanceled instead
	// and the endpoint accepts only Close afterwards. ucs.ErrNoResource allows a
	// Pending.
	Flush(flags FlushFlags, c *Completion) error

	// Fence orders later operations after earlier ones.
	Fence() error

	// PendingAdd queues p. ucs.ErrBusy: sending is possible now, try again at
	// once.
	PendingAdd(p *Pending) error

	// PendingPurge removes all queued requests, handing each to fn once.
	PendingPurge(fn func(p *Pending))

	// Close releases the endpoint at once. Operations still in flight end with
	// ucs.ErrCanceled; pending requests must have been purged. Idempotent.
	Close()
}

// Paired is an Endpoint that can be connected with one endpoint of the peer
// (IfaceConnectToEP).
type Paired interface {
	// Address is the endpoint's own address, of IfaceAttr.EpAddrLen bytes.
	Address() ([]byte, error)

	// ConnectToEP connects the endpoint, which was made without addresses, with
	// the one that has this address. It must be of the interface with the address
	// iface, unless that is empty, or the error matches ucs.ErrInvalidAddr. The bytes
	// are untrusted.
	ConnectToEP(dev, iface, ep []byte) error
}

// Located is an Endpoint that knows where it leads to (uct_ep_is_connected).
type Located interface {
	// LeadsTo reports whether that is the interface that the addresses name, and if ep is
	// not nil, the endpoint there that has this address. The bytes are untrusted.
	LeadsTo(dev, iface, ep []byte) bool
}

// Multihomed is an Endpoint of an interface that peers may reach at several addresses, of which
// DeviceAddress and Address of the interface are one.
type Multihomed interface {
	// InterfaceAddr is the addresses by which the endpoint's peer reaches it. other says that
	// these are not the interface's own: an address for the peer must have them in place of
	// those.
	InterfaceAddr() (p ReachableParams, other bool)
}

// Checker is an Endpoint that can find out whether its peer is there
// (IfaceEpCheck).
type Checker interface {
	// Check asks whether the peer is there; a dead one fails the endpoint
	// through OnError. nil: known alive, or will be found out.
	Check(c *Completion) error
}

// Lingerer is an Endpoint on whose being there the peer's end depends: what goes to it and
// what comes from it share something.
type Lingerer interface {
	// Linger takes the place of Close where the peer is not told and may go on sending, or
	// have still to learn that all it sent has arrived. The endpoint is closed for its owner,
	// and goes on receiving, until its interface is closed, the peer turns out to be gone or
	// the transport needs what it holds. It is for endpoints that have been flushed.
	Linger()
}

// MemoryKeeper is an Endpoint that can do without the memory of its callers.
type MemoryKeeper interface {
	// KeepMemory copies what the endpoint still has to send from memory of callers, so that
	// all of that may be reused at once. Operations complete when they would have without.
	KeepMemory()
}

// Claimer is an Endpoint of a transport that treats those made for peers differently.
type Claimer interface {
	// Claim says that the application has the endpoint now: EndpointParams.ForPeer was
	// true, and is no longer.
	Claim()
}

// FlushFlags modify a flush.
type FlushFlags uint8

// Flush flags.
const (
	FlushLocal  FlushFlags = 0
	FlushCancel FlushFlags = 1 << 0
	FlushRemote FlushFlags = 1 << 1 // also wait for the peer's acknowledgement
)

// Origin is who has given the addresses that an endpoint leads to.
type Origin uint8

// Origins.
const (
	// OriginApplication is the application, or who is as trustworthy. Finding the way there
	// may take as long as the system takes.
	OriginApplication Origin = iota

	// OriginPeer is a request of a peer. Nothing is waited for: where the network would have
	// to be asked first the endpoint is refused with ucs.ErrUnreachable (WaySeeker).
	OriginPeer

	// OriginManager is a connection manager of this process, which may say more than a peer
	// can, as by which of our own addresses it is reached.
	OriginManager
)

// EndpointParams are the parameters of Iface.NewEndpoint.
type EndpointParams struct {
	// DeviceAddr and IfaceAddr are the peer's addresses, copied where kept. Both
	// nil makes an endpoint that waits for ConnectToEP. They are untrusted.
	DeviceAddr []byte
	IfaceAddr  []byte

	// ForPeer says that a peer has made the endpoint necessary, and not the
	// application: it takes nothing that is reserved for that, and gives way where the
	// peer has too much. Claimer ends it.
	ForPeer bool

	// Origin is who has given the addresses, those of ConnectToEP included.
	Origin Origin

	// Over is a connection that the peer has made, and that the endpoint shall send on,
	// whoever listens at the addresses: they must be those that the peer has named as
	// its own on that connection (ReturnIface), and nothing is connected to them. The
	// endpoint ends with the connection. Nil for any.
	Over *Source

	// LocalAddr is the address of ours at which the peer reaches us, where a connection
	// manager knows it: that may be another one than the interface's address. It is for
	// endpoints that wait for ConnectToEP. Not valid: the interface's.
	LocalAddr netip.Addr

	PathIndex int // below the iface's NumPaths
	UserData  any // given to OnError
}
