package proto

// Header sizes of eager tag messages (src/ucp/tag/eager.h).
const (
	EagerOnlySize   = 8
	EagerFirstSize  = 24
	EagerMiddleSize = 16
)

var (
	errEagerOnly      = amError("eager only", "shorter than its header")
	errEagerFirst     = amError("eager first", "shorter than its header")
	errEagerFirstLen  = amError("eager first", "more payload than the message's length")
	errEagerMiddle    = amError("eager middle", "shorter than its header")
	errEagerMiddleOff = amError("eager middle", "offset past the end of any memory")
)

// EagerOnly is the header of a tagged message in one packet: ucp_eager_hdr_t.
type EagerOnly struct {
	Tag Tag
}

// Word returns the header as the 8-byte header of a short active message.
func (h EagerOnly) Word() uint64 { return uint64(h.Tag) }

// Put packs the header at the start of dst and returns its size.
func (h EagerOnly) Put(dst []byte) int {
	le.PutUint64(dst, uint64(h.Tag))
	return EagerOnlySize
}

// Append appends the packed header.
func (h EagerOnly) Append(b []byte) []byte { return le.AppendUint64(b, uint64(h.Tag)) }

// ParseEagerOnly returns the header and the payload.
func ParseEagerOnly(b []byte) (h EagerOnly, data []byte, err error) {
	if len(b) < EagerOnlySize {
		return h, nil, errEagerOnly
	}
	h.Tag = Tag(le.Uint64(b))
	return h, b[EagerOnlySize:], nil
}

// EagerFirst is the header of the first fragment of a tagged message, the one that takes
// part in matching: ucp_eager_first_hdr_t. A peer may send one that contains the whole
// message.
type EagerFirst struct {
	Tag      Tag
	TotalLen int // bytes of the whole message
	MsgID    MessageID
}

// Put packs the header at the start of dst and returns its size.
func (h EagerFirst) Put(dst []byte) int {
	_ = dst[EagerFirstSize-1]
	le.PutUint64(dst, uint64(h.Tag))
	le.PutUint64(dst[8:], uint64(h.TotalLen))
	le.PutUint64(dst[16:], uint64(h.MsgID))
	return EagerFirstSize
}

// Append appends the packed header.
func (h EagerFirst) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(h.Tag))
	b = le.AppendUint64(b, uint64(h.TotalLen))
	return le.AppendUint64(b, uint64(h.MsgID))
}

// ParseEagerFirst returns the header and the payload, which is never longer
// than TotalLen.
func ParseEagerFirst(b []byte) (h EagerFirst, data []byte, err error) {
	if len(b) < EagerFirstSize {
		return h, nil, errEagerFirst
	}
	total := le.Uint64(b[8:])
	data = b[EagerFirstSize:]
	if total > maxSize || uint64(len(data)) > total {
		return h, nil, errEagerFirstLen
	}
	h.Tag = Tag(le.Uint64(b))
	h.TotalLen = int(total)
	h.MsgID = MessageID(le.Uint64(b[16:]))
	return h, data, nil
}

// EagerMiddle is the header of a later fragment: ucp_eager_middle_hdr_t. Fragments may
// arrive in any order, even before the first one.
type EagerMiddle struct {
	MsgID  MessageID
	Offset int // of the payload in the message
}

// Put packs the header at the start of dst and returns its size.
func (h EagerMiddle) Put(dst []byte) int {
	_ = dst[EagerMiddleSize-1]
	le.PutUint64(dst, uint64(h.MsgID))
	le.PutUint64(dst[8:], uint64(h.Offset))
	return EagerMiddleSize
}

// Append appends the packed header.
func (h EagerMiddle) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(h.MsgID))
	return le.AppendUint64(b, uint64(h.Offset))
}

// ParseEagerMiddle returns the header and the payload. Offset plus the
// payload's length does not overflow.
func ParseEagerMiddle(b []byte) (h EagerMiddle, data []byte, err error) {
	if len(b) < EagerMiddleSize {
		return h, nil, errEagerMiddle
	}
	off := le.Uint64(b[8:])
	data = b[EagerMiddleSize:]
	if off > uint64(maxSize-len(data)) {
		return h, nil, errEagerMiddleOff
	}
	h.MsgID = MessageID(le.Uint64(b))
	h.Offset = int(off)
	return h, data, nil
}
