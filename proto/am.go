package proto

// Sizes of the fixed parts of user active messages (src/ucp/core/ucp_am.h).
const (
	AMHeaderSize       = 8
	AMReplyFooterSize  = 8
	AMFirstFooterSize  = 24
	AMMiddleFooterSize = 16
)

// AMFlagReply in AMHeader.Flags says that the receiver may reply: the message contains the
// id of the receiver's endpoint. Other bits are hints of the sender.
const AMFlagReply = 1 << 0

var (
	errAMSingle      = amError("am single", "shorter than its header")
	errAMSingleHdr   = amError("am single", "user header longer than the message")
	errAMReply       = amError("am single reply", "shorter than its header and footer")
	errAMReplyHdr    = amError("am single reply", "user header longer than the message")
	errAMFirst       = amError("am first", "shorter than its header and footer")
	errAMFirstHdr    = amError("am first", "user header longer than the message")
	errAMFirstLen    = amError("am first", "more payload than the message's length")
	errAMMiddle      = amError("am middle", "shorter than its header and footer")
	errAMMiddleRange = amError("am middle", "offset exceeds the largest possible memory size")
)

// AMHeader is the header of a user active message: ucp_am_hdr_t. A message sent by rendezvous
// has it in its RTS.
type AMHeader struct {
	ID        uint16
	Flags     uint16
	HeaderLen uint32 // bytes of the user header
}

// Word returns the header as the 8-byte header of a short active message and of an RTS.
func (h AMHeader) Word() uint64 {
	return uint64(h.ID) | uint64(h.Flags)<<16 | uint64(h.HeaderLen)<<32
}

// AMHeaderFromWord is the inverse of Word.
func AMHeaderFromWord(w uint64) AMHeader {
	return AMHeader{ID: uint16(w), Flags: uint16(w >> 16), HeaderLen: uint32(w >> 32)}
}

// Put packs the header at the start of dst and returns its size.
func (h AMHeader) Put(dst []byte) int {
	le.PutUint64(dst, h.Word())
	return AMHeaderSize
}

// Append appends the packed header.
func (h AMHeader) Append(b []byte) []byte { return le.AppendUint64(b, h.Word()) }

// ParseAMSingle splits a message in one packet into header, payload and user header.
func ParseAMSingle(b []byte) (h AMHeader, data, userHeader []byte, err error) {
	if len(b) < AMHeaderSize {
		return h, nil, nil, errAMSingle
	}
	h = AMHeaderFromWord(le.Uint64(b))
	data, userHeader, ok := splitTail(b[AMHeaderSize:], h.HeaderLen)
	if !ok {
		return h, nil, nil, errAMSingleHdr
	}
	return h, data, userHeader, nil
}

// IsPlainAM reports whether the message that begins with the given word (AMHeader.Word) has an id below
// 256 and no user header: all that follows the word is data.
func IsPlainAM(word uint64) bool { return word&0xFFFFFFFF_0000FF00 == 0 }

// AMReplyFooter ends a message that the receiver may reply to: ucp_am_reply_ftr_t.
type AMReplyFooter struct {
	EpID EndpointID // the receiver's endpoint
}

// Put packs the footer at the start of dst and returns its size.
func (f AMReplyFooter) Put(dst []byte) int {
	le.PutUint64(dst, uint64(f.EpID))
	return AMReplyFooterSize
}

// Append appends the packed footer.
func (f AMReplyFooter) Append(b []byte) []byte { return le.AppendUint64(b, uint64(f.EpID)) }

// ParseAMSingleReply splits a message in one packet that has a reply footer.
func ParseAMSingleReply(b []byte) (h AMHeader, f AMReplyFooter, data, userHeader []byte, err error) {
	if len(b) < AMHeaderSize+AMReplyFooterSize {
		return h, f, nil, nil, errAMReply
	}
	end := len(b) - AMReplyFooterSize
	h = AMHeaderFromWord(le.Uint64(b))
	f.EpID = EndpointID(le.Uint64(b[end:]))
	data, userHeader, ok := splitTail(b[AMHeaderSize:end], h.HeaderLen)
	if !ok {
		return h, f, nil, nil, errAMReplyHdr
	}
	return h, f, data, userHeader, nil
}

// AMFirstFooter ends the first fragment of a message: ucp_am_first_ftr_t.
type AMFirstFooter struct {
	MsgID    MessageID
	EpID     EndpointID // the receiver's endpoint; present even without AMFlagReply
	TotalLen int        // bytes of the whole payload, without the user header
}

// Put packs the footer at the start of dst and returns its size.
func (f AMFirstFooter) Put(dst []byte) int {
	_ = dst[AMFirstFooterSize-1]
	le.PutUint64(dst, uint64(f.MsgID))
	le.PutUint64(dst[8:], uint64(f.EpID))
	le.PutUint64(dst[16:], uint64(f.TotalLen))
	return AMFirstFooterSize
}

// Append appends the packed footer.
func (f AMFirstFooter) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(f.MsgID))
	b = le.AppendUint64(b, uint64(f.EpID))
	return le.AppendUint64(b, uint64(f.TotalLen))
}

// ParseAMFirst splits a first fragment. It carries the whole user header; its
// payload is never longer than TotalLen.
func ParseAMFirst(b []byte) (h AMHeader, f AMFirstFooter, data, userHeader []byte, err error) {
	if len(b) < AMHeaderSize+AMFirstFooterSize {
		return h, f, nil, nil, errAMFirst
	}
	end := len(b) - AMFirstFooterSize
	h = AMHeaderFromWord(le.Uint64(b))
	data, userHeader, ok := splitTail(b[AMHeaderSize:end], h.HeaderLen)
	if !ok {
		return h, f, nil, nil, errAMFirstHdr
	}
	total := le.Uint64(b[end+16:])
	if total > maxSize || uint64(len(data)) > total {
		return h, f, nil, nil, errAMFirstLen
	}
	f.MsgID = MessageID(le.Uint64(b[end:]))
	f.EpID = EndpointID(le.Uint64(b[end+8:]))
	f.TotalLen = int(total)
	return h, f, data, userHeader, nil
}

// AMMiddle frames a later fragment: the offset precedes the payload, in place of the
// AMHeader, and the ids follow it (ucp_am_mid_hdr_t and ucp_am_mid_ftr_t).
type AMMiddle struct {
	Offset int // offset of the payload in the message
	MsgID  MessageID
	EpID   EndpointID // the receiver's endpoint
}

// PutHeader packs the part in front of the payload and returns its size.
func (m AMMiddle) PutHeader(dst []byte) int {
	le.PutUint64(dst, uint64(m.Offset))
	return AMHeaderSize
}

// PutFooter packs the part behind the payload and returns its size.
func (m AMMiddle) PutFooter(dst []byte) int {
	_ = dst[AMMiddleFooterSize-1]
	le.PutUint64(dst, uint64(m.MsgID))
	le.PutUint64(dst[8:], uint64(m.EpID))
	return AMMiddleFooterSize
}

// ParseAMMiddle splits a later fragment. Offset plus the payload's length does
// not overflow.
func ParseAMMiddle(b []byte) (m AMMiddle, data []byte, err error) {
	if len(b) < AMHeaderSize+AMMiddleFooterSize {
		return m, nil, errAMMiddle
	}
	end := len(b) - AMMiddleFooterSize
	data = b[AMHeaderSize:end:end]
	off := le.Uint64(b)
	if off > uint64(maxSize-len(data)) {
		return m, nil, errAMMiddleRange
	}
	m.Offset = int(off)
	m.MsgID = MessageID(le.Uint64(b[end:]))
	m.EpID = EndpointID(le.Uint64(b[end+8:]))
	return m, data, nil
}

// splitTail cuts the last n bytes off b.
func splitTail(b []byte, n uint32) (head, tail []byte, ok bool) {
	if uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	at := len(b) - int(n)
	return b[:at:at], b[at:], true
}
