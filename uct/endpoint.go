package uct

import "net/netip"

// Endpoint is the send side toward one peer. The package comment describes results and
// goroutine rules. Active messages without the capability bit return ucs.ErrUnsupported;
// embed NoAM to get that.
//
// The other operations of a transport are optional capabilities of its endpoints: RMA, Atomic,
// Paired, NetworkEndpoint, ProcessEndpoint. A user asserts them once, after making the endpoint.
//
// Operations of one endpoint are delivered in the order in which they were accepted. While
// its pending queue is not empty, every new operation except those of the dispatch gets
// ucs.ErrNoResource.
type Endpoint interface {
	// AMShort sends an 8-byte header, little-endian on the wire, and a payload. Both are copied
	// or sent before AMShort returns; c is notified when the bytes have left the library.
	AMShort(id AMID, header uint64, payload []byte, flags SendFlags, c *Completion) error

	// AMShortIOV sends a list of entries as one short message.
	AMShortIOV(id AMID, iov []IOV, flags SendFlags, c *Completion) error

	// AMBcopy sends a message that p packs, of at most AM.MaxBcopy bytes. It returns the packed
	// length with nil or ucs.InProgress.
	AMBcopy(id AMID, p Packer, flags SendFlags, c *Completion) (int, error)

	// AMZcopy sends a header packed by hdr (nil: none), at most AM.MaxZcopyHdr
	// bytes, and the entries of iov without copying them: the memory belongs to
	// the transport until the completion.
	AMZcopy(id AMID, hdr Packer, iov []IOV, flags SendFlags, c *Completion) error

	// Flush completes when every operation accepted before has been sent (and, for transports
	// with remote access, has taken effect at the peer) and its completion has run: closing the
	// endpoint then cancels nothing. With FlushCancel, outstanding operations end with
	// ucs.ErrCanceled instead, and the endpoint accepts only Close afterwards. After
	// ucs.ErrNoResource the caller may queue a Pending.
	Flush(flags FlushFlags, c *Completion) error

	// Fence orders later operations after earlier ones.
	Fence() error

	// Check checks whether the peer is alive; if the peer is dead, the endpoint fails through
	// OnError. nil means that the peer is known to be alive, or that its death will be
	// detected. Without IfaceEpCheck it returns ucs.ErrUnsupported.
	Check(c *Completion) error

	// PendingAdd queues p. ucs.ErrBusy means that sending is possible now: retry at once.
	PendingAdd(p *Pending) error

	// PendingPurge removes all queued requests, handing each to fn once.
	PendingPurge(fn func(p *Pending))

	// Close releases the endpoint at once. Operations still in flight end with ucs.ErrCanceled;
	// pending requests must have been purged. Close is idempotent.
	Close()
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

// Values of Origin.
const (
	// OriginApplication is the application, or an equally trusted source. Address resolution
	// may take as long as the system needs.
	OriginApplication Origin = iota

	// OriginPeer is a request of a peer. The transport does not wait: an endpoint that needs
	// address resolution first is refused with ucs.ErrUnreachable
	// (NetworkIface.ResolveAddress).
	OriginPeer

	// OriginManager is a connection manager of this process. It may specify more than a
	// peer can, such as the local address that the peer reaches.
	OriginManager
)

// EndpointParams are the parameters of Iface.NewEndpoint.
type EndpointParams struct {
	// DeviceAddr and IfaceAddr are the peer's addresses. The transport copies them if it keeps
	// them. If both are nil, the endpoint waits for ConnectToEP. They are untrusted.
	DeviceAddr []byte
	IfaceAddr  []byte

	// ForPeer says that the endpoint is made on behalf of a peer and not for the application:
	// it uses no resources reserved for the application, and may be refused or reclaimed if the
	// peer holds too many resources. NetworkEndpoint.Claim ends this state.
	ForPeer bool

	// Origin is the source of the addresses, including those of ConnectToEP.
	Origin Origin

	// Over is a connection made by the peer, on which the endpoint sends. The transport makes
	// no other connection, whichever process listens at the addresses. The addresses must be
	// those that the peer has named as its own on that connection (NetworkIface.CanSendOver).
	// The endpoint fails when the connection ends. Nil means that the transport connects.
	Over *Source

	// LocalAddr is the local address at which the peer reaches this side, if a connection
	// manager knows it; it may differ from the interface's address. It applies to endpoints
	// that wait for ConnectToEP. If it is not valid, the interface's address is used.
	LocalAddr netip.Addr

	PathIndex int // below the iface's NumPaths
	UserData  any // given to OnError
}
