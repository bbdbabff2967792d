package proto

import (
	"github.com/ucx-go/ucx/ucs"
)

// RndvRTSSize is the size of an RTS without key and user header.
const RndvRTSSize = 41

var (
	errRTS       = amError("rndv rts", "shorter than its header")
	errRTSSize   = amError("rndv rts", "size exceeds the largest possible memory size")
	errRTSOpcode = amError("rndv rts", "unknown operation")
	errRTSHeader = amError("rndv rts", "user header longer than the message")
)

// RndvOp is the operation that a rendezvous belongs to (ucp_rndv_rts_opcode_t).
type RndvOp uint8

// Operations of a rendezvous.
const (
	RndvTag RndvOp = 0
	RndvAM  RndvOp = 1
	RndvRMA RndvOp = 2 // since release 22, off by default

	NumRndvOps = 3
)

// RndvRTS offers a message: ucp_rndv_rts_hdr_t. The packed remote key of the
// source memory follows it, then the user header of an active message.
type RndvRTS struct {
	Header  uint64     // the tag, or AMHeader.Word
	EpID    EndpointID // the receiver's endpoint
	ReqID   RequestID  // the sender's request
	Address uint64     // address of the data; 0 if it is not readable and there is no key
	Size    int        // length of the message in bytes
	Op      RndvOp
}

// Put packs the header at the start of dst and returns its size.
func (h RndvRTS) Put(dst []byte) int {
	_ = dst[RndvRTSSize-1]
	le.PutUint64(dst, h.Header)
	le.PutUint64(dst[8:], uint64(h.EpID))
	le.PutUint64(dst[16:], uint64(h.ReqID))
	le.PutUint64(dst[24:], h.Address)
	le.PutUint64(dst[32:], uint64(h.Size))
	dst[40] = byte(h.Op)
	return RndvRTSSize
}

// Append appends the packed header.
func (h RndvRTS) Append(b []byte) []byte {
	b = le.AppendUint64(b, h.Header)
	b = le.AppendUint64(b, uint64(h.EpID))
	b = le.AppendUint64(b, uint64(h.ReqID))
	b = le.AppendUint64(b, h.Address)
	b = le.AppendUint64(b, uint64(h.Size))
	return append(b, byte(h.Op))
}

// ParseRndvRTS returns the header and what follows it: the packed key, possibly empty, and
// for RndvAM the user header at the end. SplitRTS separates the two.
func ParseRndvRTS(b []byte) (h RndvRTS, tail []byte, err error) {
	if len(b) < RndvRTSSize {
		return h, nil, errRTS
	}
	size := le.Uint64(b[32:])
	if size > maxSize {
		return h, nil, errRTSSize
	}
	op := RndvOp(b[40])
	if op > RndvRMA {
		return h, nil, errRTSOpcode
	}
	h.Header = le.Uint64(b)
	h.EpID = EndpointID(le.Uint64(b[8:]))
	h.ReqID = RequestID(le.Uint64(b[16:]))
	h.Address = le.Uint64(b[24:])
	h.Size = int(size)
	h.Op = op
	return h, b[RndvRTSSize:], nil
}

// SplitRTS splits the tail of an RTS into the packed key and the user header.
func (h RndvRTS) SplitRTS(tail []byte) (key, userHeader []byte, err error) {
	if h.Op != RndvAM {
		return tail, nil, nil
	}
	key, userHeader, ok := splitTail(tail, AMHeaderFromWord(h.Header).HeaderLen)
	if !ok {
		return nil, nil, errRTSHeader
	}
	return key, userHeader, nil
}

// RndvRTRSize is the size of an RTR without key.
const RndvRTRSize = 40

var (
	errRTR      = amError("rndv rtr", "shorter than its header")
	errRTRRange = amError("rndv rtr", "range exceeds the largest possible memory size")
)

// RndvRTR is the receiver's answer to an RTS: ucp_rndv_rtr_hdr_t. It requests that the sender sends
// a part of the data in active messages, or writes it to an address. The packed remote key of the
// destination follows it.
type RndvRTR struct {
	SendReqID RequestID // the sender's request, from the RTS
	RecvReqID RequestID // the receiver's request, whose id the data and the ATP contain
	Address   uint64    // address of the destination; 0 if it is not writable and there is no key
	Size      int       // bytes requested; 0 means all: 1.13.1 sends it for scattered receive memory
	Offset    int       // offset of the requested bytes in the message
}

// Put packs the header at the start of dst and returns its size.
func (h RndvRTR) Put(dst []byte) int {
	_ = dst[RndvRTRSize-1]
	le.PutUint64(dst, uint64(h.SendReqID))
	le.PutUint64(dst[8:], uint64(h.RecvReqID))
	le.PutUint64(dst[16:], h.Address)
	le.PutUint64(dst[24:], uint64(h.Size))
	le.PutUint64(dst[32:], uint64(h.Offset))
	return RndvRTRSize
}

// Append appends the packed header.
func (h RndvRTR) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(h.SendReqID))
	b = le.AppendUint64(b, uint64(h.RecvReqID))
	b = le.AppendUint64(b, h.Address)
	b = le.AppendUint64(b, uint64(h.Size))
	return le.AppendUint64(b, uint64(h.Offset))
}

// ParseRndvRTR returns the header and the packed key, possibly empty. Offset
// plus Size does not overflow; the caller checks them against its message.
//
// Release 22 has a longer form, with SendReqID 0, for remote memory reads that
// are done as a rendezvous. It is sent only to peers that announce release 22;
// here it parses as an RTR to an unknown request.
func ParseRndvRTR(b []byte) (h RndvRTR, key []byte, err error) {
	if len(b) < RndvRTRSize {
		return h, nil, errRTR
	}
	size, off := le.Uint64(b[24:]), le.Uint64(b[32:])
	if size > maxSize || off > maxSize-size {
		return h, nil, errRTRRange
	}
	h.SendReqID = RequestID(le.Uint64(b))
	h.RecvReqID = RequestID(le.Uint64(b[8:]))
	h.Address = le.Uint64(b[16:])
	h.Size = int(size)
	h.Offset = int(off)
	return h, b[RndvRTRSize:], nil
}

// RndvDataSize is the size of the header of rendezvous data.
const RndvDataSize = 16

var (
	errRndvData    = amError("rndv data", "shorter than its header")
	errRndvDataOff = amError("rndv data", "offset exceeds the largest possible memory size")
)

// RndvData is the header of a part of a rendezvous message that is sent as an active
// message: ucp_rndv_data_hdr_t (ucp_request_data_hdr_t in 1.22.0).
type RndvData struct {
	RecvReqID RequestID // the id of the receiver's request, from the RTR
	Offset    int       // offset of the data in the range that the RTR requested
}

// Put packs the header at the start of dst and returns its size.
func (h RndvData) Put(dst []byte) int {
	_ = dst[RndvDataSize-1]
	le.PutUint64(dst, uint64(h.RecvReqID))
	le.PutUint64(dst[8:], uint64(h.Offset))
	return RndvDataSize
}

// Append appends the packed header.
func (h RndvData) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(h.RecvReqID))
	return le.AppendUint64(b, uint64(h.Offset))
}

// ParseRndvData returns the header and the payload. Offset plus the payload's
// length does not overflow.
func ParseRndvData(b []byte) (h RndvData, data []byte, err error) {
	if len(b) < RndvDataSize {
		return h, nil, errRndvData
	}
	off := le.Uint64(b[8:])
	data = b[RndvDataSize:]
	if off > uint64(maxSize-len(data)) {
		return h, nil, errRndvDataOff
	}
	h.RecvReqID = RequestID(le.Uint64(b))
	h.Offset = int(off)
	return h, data, nil
}

// Sizes in bytes of an ATS or ATP: with the size field, and without it as old releases send them.
const (
	RndvAckSize      = 17
	RndvAckShortSize = 9
)

var (
	errRndvAck     = amError("rndv ats/atp", "shorter than its header")
	errRndvAckSize = amError("rndv ats/atp", "size exceeds the largest possible memory size")
)

// RndvAck is the format of both acknowledgements of a rendezvous: ucp_rndv_ack_hdr_t. An ATS
// goes from receiver to sender and contains the id of the sender's request. An ATP goes from
// sender to receiver after a write and contains the id of the receiver's request.
//
// A 1.22.0 sender that writes over several lanes sends several ATPs whose sizes add up;
// 1.13.1 takes the first as the end of the message. This library sends one, with the full
// size, and adds up those that it receives.
type RndvAck struct {
	ReqID   RequestID
	Status  ucs.Status
	Size    int  // number of bytes acknowledged
	HasSize bool // false if the message has no size field, as from an old release
}

// Put packs the message, with its size, at the start of dst and returns its length.
func (h RndvAck) Put(dst []byte) int {
	_ = dst[RndvAckSize-1]
	le.PutUint64(dst, uint64(h.ReqID))
	dst[8] = StatusToWire(h.Status)
	le.PutUint64(dst[9:], uint64(h.Size))
	return RndvAckSize
}

// Append appends the packed message, with the size field if HasSize.
func (h RndvAck) Append(b []byte) []byte {
	b = append(le.AppendUint64(b, uint64(h.ReqID)), StatusToWire(h.Status))
	if !h.HasSize {
		return b
	}
	return le.AppendUint64(b, uint64(h.Size))
}

// ParseRndvAck reads an ATS or ATP.
func ParseRndvAck(b []byte) (h RndvAck, err error) {
	if len(b) < RndvAckShortSize {
		return h, errRndvAck
	}
	if len(b) >= RndvAckSize {
		size := le.Uint64(b[9:])
		if size > maxSize {
			return h, errRndvAckSize
		}
		h.Size, h.HasSize = int(size), true
	}
	h.ReqID = RequestID(le.Uint64(b))
	h.Status = StatusFromWire(b[8])
	return h, nil
}
