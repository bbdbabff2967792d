package proto

import (
	"github.com/ucx-go/ucx/ucs"
)

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
	errEagerMiddleOff = amError("eager middle", "offset exceeds the largest possible memory size")
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
	Offset int // offset of the payload in the message
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

// Header sizes of synchronous tag messages (src/ucp/tag/eager.h).
const (
	EagerSyncOnlySize  = 24
	EagerSyncFirstSize = 40
	EagerSyncAckSize   = 9
	OffloadSyncAckSize = 16
)

var (
	errSyncOnly     = amError("eager sync only", "shorter than its header")
	errSyncFirst    = amError("eager sync first", "shorter than its header")
	errSyncFirstLen = amError("eager sync first", "more payload than the message's length")
	errSyncAck      = amError("eager sync ack", "shorter than its header")
	errOffloadAck   = amError("offload sync ack", "shorter than its header")
)

// EagerSyncOnly is the header of a message in one packet whose sender waits for the match:
// ucp_eager_sync_hdr_t.
type EagerSyncOnly struct {
	Tag   Tag
	EpID  EndpointID // the receiver's endpoint, which sends the ack
	ReqID RequestID  // the sender's request, which the ack contains
}

// Put packs the header at the start of dst and returns its size.
func (h EagerSyncOnly) Put(dst []byte) int {
	_ = dst[EagerSyncOnlySize-1]
	le.PutUint64(dst, uint64(h.Tag))
	le.PutUint64(dst[8:], uint64(h.EpID))
	le.PutUint64(dst[16:], uint64(h.ReqID))
	return EagerSyncOnlySize
}

// Append appends the packed header.
func (h EagerSyncOnly) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(h.Tag))
	b = le.AppendUint64(b, uint64(h.EpID))
	return le.AppendUint64(b, uint64(h.ReqID))
}

// ParseEagerSyncOnly returns the header and the payload.
func ParseEagerSyncOnly(b []byte) (h EagerSyncOnly, data []byte, err error) {
	if len(b) < EagerSyncOnlySize {
		return h, nil, errSyncOnly
	}
	h.Tag = Tag(le.Uint64(b))
	h.EpID = EndpointID(le.Uint64(b[8:]))
	h.ReqID = RequestID(le.Uint64(b[16:]))
	return h, b[EagerSyncOnlySize:], nil
}

// EagerSyncFirst is the header of the first fragment of a synchronous message:
// ucp_eager_sync_first_hdr_t. 1.22.0 uses it for messages of one fragment too; later
// fragments are plain EagerMiddle.
type EagerSyncFirst struct {
	EagerFirst
	EpID  EndpointID // the receiver's endpoint, which sends the ack
	ReqID RequestID  // the sender's request, which the ack contains
}

// Put packs the header at the start of dst and returns its size.
func (h EagerSyncFirst) Put(dst []byte) int {
	_ = dst[EagerSyncFirstSize-1]
	h.EagerFirst.Put(dst)
	le.PutUint64(dst[24:], uint64(h.EpID))
	le.PutUint64(dst[32:], uint64(h.ReqID))
	return EagerSyncFirstSize
}

// Append appends the packed header.
func (h EagerSyncFirst) Append(b []byte) []byte {
	b = h.EagerFirst.Append(b)
	b = le.AppendUint64(b, uint64(h.EpID))
	return le.AppendUint64(b, uint64(h.ReqID))
}

// ParseEagerSyncFirst returns the header and the payload, which is never longer
// than TotalLen.
func ParseEagerSyncFirst(b []byte) (h EagerSyncFirst, data []byte, err error) {
	if len(b) < EagerSyncFirstSize {
		return h, nil, errSyncFirst
	}
	total := le.Uint64(b[8:])
	data = b[EagerSyncFirstSize:]
	if total > maxSize || uint64(len(data)) > total {
		return h, nil, errSyncFirstLen
	}
	h.Tag = Tag(le.Uint64(b))
	h.TotalLen = int(total)
	h.MsgID = MessageID(le.Uint64(b[16:]))
	h.EpID = EndpointID(le.Uint64(b[24:]))
	h.ReqID = RequestID(le.Uint64(b[32:]))
	return h, data, nil
}

// EagerSyncAck tells the sender that its message was matched: ucp_reply_hdr_t.
type EagerSyncAck struct {
	ReqID  RequestID
	Status ucs.Status
}

// Put packs the message at the start of dst and returns its size.
func (h EagerSyncAck) Put(dst []byte) int {
	_ = dst[EagerSyncAckSize-1]
	le.PutUint64(dst, uint64(h.ReqID))
	dst[8] = StatusToWire(h.Status)
	return EagerSyncAckSize
}

// Append appends the packed message.
func (h EagerSyncAck) Append(b []byte) []byte {
	return append(le.AppendUint64(b, uint64(h.ReqID)), StatusToWire(h.Status))
}

// ParseEagerSyncAck reads an acknowledgement. It ignores bytes behind it, as C does.
func ParseEagerSyncAck(b []byte) (h EagerSyncAck, err error) {
	if len(b) < EagerSyncAckSize {
		return h, errSyncAck
	}
	h.ReqID = RequestID(le.Uint64(b))
	h.Status = StatusFromWire(b[8])
	return h, nil
}

// OffloadSyncAck acknowledges a synchronous message that the device matched:
// ucp_offload_ssend_hdr_t.
type OffloadSyncAck struct {
	EpID EndpointID
	Tag  Tag
}

// Append appends the packed message.
func (h OffloadSyncAck) Append(b []byte) []byte {
	return le.AppendUint64(le.AppendUint64(b, uint64(h.EpID)), uint64(h.Tag))
}

// ParseOffloadSyncAck reads an acknowledgement.
func ParseOffloadSyncAck(b []byte) (h OffloadSyncAck, err error) {
	if len(b) < OffloadSyncAckSize {
		return h, errOffloadAck
	}
	h.EpID = EndpointID(le.Uint64(b))
	h.Tag = Tag(le.Uint64(b[8:]))
	return h, nil
}
