package proto

// RndvRTSSize is the size of an RTS without key and user header.
const RndvRTSSize = 41

var (
	errRTS       = amError("rndv rts", "shorter than its header")
	errRTSSize   = amError("rndv rts", "size larger than any memory")
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
	Header  uint64     // the tag, or the word of an AMHeader
	EpID    EndpointID // the receiver's end
	ReqID   RequestID  // the sender's request
	Address uint64     // of the data at the sender; 0: not readable, no key
	Size    int        // bytes of the message
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
