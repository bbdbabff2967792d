package uct

import "net/netip"

// Endpoint is the send side toward one peer. The package comment describes results and
// goroutine rules. Active messages without the capability bit return ucs.ErrUnsupported;
// embed NoAM to get that.
//
// The other capabilities of a transport are interfaces of its endpoints: RMA, Atomic,
// Paired, Located, Multihomed, Checker, ProcessEndpoint, Lingerer, Claimer. A user asserts
// them once, after making the endpoint. If the attributes of an iface announce a
// capability, every endpoint of the iface has its interface. Without the announcement an
// endpoint may still have the interface, because settings can disable what a type
// implements; all its methods then return ucs.ErrUnsupported.
//
// Operations of one endpoint are delivered in the order in which they were accepted. While
// its pending queue is not empty, every new operation except those of the dispatch gets
// ucs.ErrNoResource.
type Endpoint interface {
	// AMShort sends an 8-byte header, little-endian on the wire, and a payload. Both are
	// copied or sent before it returns; c is notified when the bytes have left the library.
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

	// Flush completes when everything accepted before has been sent (and, for transports
	// with remote access, has taken effect at the peer) and its completions have run:
	// closing the endpoint then cancels nothing. With FlushCancel outstanding operations
	// end with ucs.ErrCanceled instead, and the endpoint accepts only Close afterwards.
	// ucs.ErrNoResource allows a Pending.
	Flush(flags FlushFlags, c *Completion) error

	// Fence orders later operations after earlier ones.
	Fence() error

	// PendingAdd queues p. ucs.ErrBusy means that sending is possible now: retry at once.
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
	// Address returns the endpoint's own address, of IfaceAttr.EpAddrLen bytes.
	Address() ([]byte, error)

	// ConnectToEP connects the endpoint, which was made without addresses, with the
	// endpoint at this address. That endpoint must belong to the interface with the address
	// iface, unless iface is empty; otherwise the error matches ucs.ErrInvalidAddr. The
	// bytes are untrusted.
	ConnectToEP(dev, iface, ep []byte) error
}

// Located is an Endpoint that knows its destination (uct_ep_is_connected).
type Located interface {
	// LeadsTo reports whether the destination is the interface at these addresses and, if
	// ep is not nil, the endpoint there that has this address. The bytes are untrusted.
	LeadsTo(dev, iface, ep []byte) bool
}

// Multihomed is an Endpoint of an interface that peers may reach at several addresses.
// DeviceAddress and Address of the interface return one of them.
type Multihomed interface {
	// InterfaceAddr returns the addresses by which the endpoint's peer reaches the
	// interface. other reports that these differ from the interface's own: an address
	// packed for the peer must contain them instead.
	InterfaceAddr() (p ReachableParams, other bool)
}

// Checker is an Endpoint that can check whether its peer is alive (IfaceEpCheck).
type Checker interface {
	// Check checks whether the peer is alive; a dead peer fails the endpoint through
	// OnError. nil means that the peer is known to be alive, or that its death will be
	// detected.
	Check(c *Completion) error
}

// Lingerer is an Endpoint whose close would affect the peer's endpoint, because sending and
// receiving share a resource.
type Lingerer interface {
	// Linger replaces Close if the peer is not notified and may continue to send, or has
	// not yet got the acknowledgement of all that it sent. The endpoint is closed for its
	// owner, and continues to receive until its interface is closed, the peer is found to
	// be gone, or the transport needs its resources. The endpoint must have been flushed.
	Linger()
}

// MemoryKeeper is an Endpoint that can stop using the memory of its callers.
type MemoryKeeper interface {
	// KeepMemory copies what the endpoint still has to send from memory of callers, so that
	// the memory may be reused at once. Operations complete at the same time as without it.
	KeepMemory()
}

// Claimer is an Endpoint of a transport that treats endpoints made for peers differently.
type Claimer interface {
	// Claim says that the application now holds the endpoint: EndpointParams.ForPeer was
	// true, and no longer applies.
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

// Origin is the source of the addresses of an endpoint.
type Origin uint8

// Origins.
const (
	// OriginApplication is the application, or a source as trustworthy. Address resolution
	// may take as long as the system takes.
	OriginApplication Origin = iota

	// OriginPeer is a request of a peer. Nothing is waited for: an endpoint that needs
	// address resolution first is refused with ucs.ErrUnreachable (WaySeeker).
	OriginPeer

	// OriginManager is a connection manager of this process. It may specify more than a
	// peer can, such as the local address that the peer reaches.
	OriginManager
)

// EndpointParams are the parameters of Iface.NewEndpoint.
type EndpointParams struct {
	// DeviceAddr and IfaceAddr are the peer's addresses, copied if kept. If both are nil
	// the endpoint waits for ConnectToEP. They are untrusted.
	DeviceAddr []byte
	IfaceAddr  []byte

	// ForPeer says that the endpoint is made because of a peer and not for the application:
	// it uses no resources reserved for the application, and may be refused or reclaimed if
	// the peer holds too much. Claimer ends this state.
	ForPeer bool

	// Origin is the source of the addresses, including those of ConnectToEP.
	Origin Origin

	// Over is a connection made by the peer on which the endpoint sends. No other
	// connection is made, whichever process listens at the addresses: they must be those
	// that the peer has named as its own on that connection (ReturnIface). The endpoint
	// ends with the connection. Nil means that the transport connects.
	Over *Source

	// LocalAddr is the local address that the peer reaches, if a connection manager knows
	// it; it may differ from the interface's address. It is for endpoints that wait for
	// ConnectToEP. If not valid, the interface's address is used.
	LocalAddr netip.Addr

	PathIndex int // below the iface's NumPaths
	UserData  any // given to OnError
}
