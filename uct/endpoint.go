package uct

import "net/netip"

// Endpoint is the send side toward one peer. See the package comment for what
// the results mean and for goroutine rules. A call without the capability bit
// for it returns ucs.ErrUnsupported; embed Unsupported to get that.
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

	// PutShort, PutBcopy and PutZcopy write to the peer's memory at raddr. Done
	// means that the local buffer is reusable; visibility at the peer needs a
	// Flush. PutBcopy packs at most length bytes, perhaps straight into the
	// target; like PutShort it returns before anything is packed when the peer
	// is known to refuse that many bytes there.
	PutShort(buf []byte, raddr uint64, key *Rkey) error
	PutBcopy(p Packer, length int, raddr uint64, key *Rkey) (int, error)
	PutZcopy(iov []IOV, raddr uint64, key *Rkey, c *Completion) error

	// GetShort, GetBcopy and GetZcopy read the peer's memory at raddr. Done
	// means that the data is here.
	GetShort(buf []byte, raddr uint64, key *Rkey) error
	GetBcopy(u Unpacker, length int, raddr uint64, key *Rkey, c *Completion) error
	GetZcopy(iov []IOV, raddr uint64, key *Rkey, c *Completion) error

	// Atomic operations on naturally aligned words of the peer.
	Atomic32Post(op AtomicOp, value uint32, raddr uint64, key *Rkey) error
	Atomic64Post(op AtomicOp, value uint64, raddr uint64, key *Rkey) error
	Atomic32Fetch(op AtomicOp, value uint32, result *uint32, raddr uint64, key *Rkey, c *Completion) error
	Atomic64Fetch(op AtomicOp, value uint64, result *uint64, raddr uint64, key *Rkey, c *Completion) error
	AtomicCSwap32(compare, swap uint32, raddr uint64, key *Rkey, result *uint32, c *Completion) error
	AtomicCSwap64(compare, swap uint64, raddr uint64, key *Rkey, result *uint64, c *Completion) error

	// TagEagerShort and the other tag operations drive tag matching done by the
	// device. Only hardware has them.
	TagEagerShort(tag uint64, payload []byte) error
	TagEagerBcopy(tag, imm uint64, p Packer, flags SendFlags) (int, error)
	TagEagerZcopy(tag, imm uint64, iov []IOV, flags SendFlags, c *Completion) error
	TagRndvZcopy(tag uint64, hdr Packer, iov []IOV, c *Completion) (op any, err error)
	TagRndvCancel(op any) error
	TagRndvRequest(tag uint64, hdr Packer) error

	// Flush completes when everything accepted before has left (and, for
	// transports with remote access, has taken effect at the peer) and the
	// completions of it have been told: closing then cancels nothing. With
	// FlushCancel outstanding operations are ended with ucs.ErrCanceled instead
	// and the endpoint accepts only Close afterwards. ucs.ErrNoResource allows a
	// Pending.
	Flush(flags FlushFlags, c *Completion) error

	// Fence orders later operations after earlier ones.
	Fence() error

	// Check asks whether the peer is there; a dead one fails the endpoint
	// through OnError. nil: known alive, or will be found out.
	Check(c *Completion) error

	// PendingAdd queues p. ucs.ErrBusy: sending is possible now, try again at
	// once.
	PendingAdd(p *Pending) error

	// PendingPurge removes all queued requests, handing each to fn once.
	PendingPurge(fn func(p *Pending))

	// Address is the endpoint's own address, for connecting endpoints pairwise.
	Address() ([]byte, error)

	// ConnectToEP connects a pair of endpoints by the peer's addresses. The
	// bytes are untrusted.
	ConnectToEP(dev, ep []byte) error

	// IsConnected reports whether the endpoint leads to these addresses.
	IsConnected(dev, iface []byte) bool

	// SockAddrs returns the socket addresses of an endpoint of a connection
	// manager; others return ucs.ErrUnsupported.
	SockAddrs() (local, remote netip.AddrPort, err error)

	// Connect, Disconnect and Notify belong to endpoints of a connection
	// manager.
	Connect(privateData []byte) error
	Disconnect() error
	Notify() error

	// Close releases the endpoint at once. Operations still in flight end with
	// ucs.ErrCanceled; pending requests must have been purged. Idempotent.
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

// EndpointParams are the parameters of Iface.NewEndpoint.
type EndpointParams struct {
	// DeviceAddr and IfaceAddr are the peer's addresses, copied where kept. Both
	// nil makes an endpoint that waits for ConnectToEP. They are untrusted.
	DeviceAddr []byte
	IfaceAddr  []byte

	PathIndex int // below the iface's NumPaths
	UserData  any // given to OnError
}
