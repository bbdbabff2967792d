package proto

// RndvRTRSize is the size of an RTR without key.
const RndvRTRSize = 40

var (
	errRTR      = amError("rndv rtr", "shorter than its header")
	errRTRRange = amError("rndv rtr", "range past the end of any memory")
)

// RndvRTR answers an RTS. It requests a part of the message, as messages or by a write:
// ucp_rndv_rtr_hdr_t. The packed remote key of the destination follows it.
type RndvRTR struct {
	SendReqID RequestID // from the RTS
	RecvReqID RequestID // for data and ATP
	Address   uint64    // of the destination; 0: not writable, no key
	Size      int       // bytes requested; 0 from a 1.13.1 that receives into scattered memory: all
	Offset    int       // in the message
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
