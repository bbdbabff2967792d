package proto

// EpClose announces that an end of an endpoint was closed. C UCX has no such message: it
// keeps an endpoint that its peer has closed (ucp_ep_disconnected in
// src/ucp/core/ucp_ep.c). EpClose is sent only to ends whose id has the mark of this
// library.
type EpClose struct {
	Kind EpCloseKind
	EpID EndpointID // of the receiver's end
	From EndpointID // of the sender's end
}

// EpCloseKind is the kind of an EpClose.
type EpCloseKind uint8

// Kinds of EpClose.
const (
	// EpReleased: the sender's application has closed its end, and everything that it had
	// started has finished. The end stays as long as the receiver's end needs it.
	EpReleased EpCloseKind = 1

	// EpRemoved: the sender's end is gone.
	EpRemoved EpCloseKind = 2
)

// EpCloseSize is the length of the packed message in bytes.
const EpCloseSize = 2*8 + 1

var errEpClose = amError("close of an endpoint", "wrong kind or length")

// Put packs the message and returns its length.
func (h EpClose) Put(dst []byte) int { return len(h.Append(dst[:0])) }

// Append appends the packed message.
func (h EpClose) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(h.EpID))
	b = le.AppendUint64(b, uint64(h.From))
	return append(b, byte(h.Kind))
}

// ParseEpClose reads the message, which has a fixed length.
func ParseEpClose(b []byte) (h EpClose, err error) {
	if len(b) != EpCloseSize {
		return h, errEpClose
	}
	h = EpClose{
		Kind: EpCloseKind(b[EpCloseSize-1]),
		EpID: EndpointID(le.Uint64(b)),
		From: EndpointID(le.Uint64(b[8:])),
	}
	if h.Kind != EpReleased && h.Kind != EpRemoved {
		return EpClose{}, errEpClose
	}
	return h, nil
}

// String returns the name of the kind.
func (k EpCloseKind) String() string {
	switch k {
	case EpReleased:
		return "released"
	case EpRemoved:
		return "removed"
	}
	return "unknown"
}

// EndpointIDMark is the top byte of the ids that this library gives its ends. Ids of C UCX
// are pointers, which are even, or numbers counted from 1 (ucs_ptr_map_create_key in
// src/ucs/datastruct/ptr_map.inl), whose top byte is 0. So an id tells whether its end is
// of this library.
const EndpointIDMark = 0xB5

// Marked reports whether the id is that of an end of this library.
func (id EndpointID) Marked() bool { return id&1 != 0 && id>>56 == EndpointIDMark }
