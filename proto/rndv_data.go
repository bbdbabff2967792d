package proto

// RndvDataSize is the size of the header of rendezvous data.
const RndvDataSize = 16

var (
	errRndvData    = amError("rndv data", "shorter than its header")
	errRndvDataOff = amError("rndv data", "offset past the end of any memory")
)

// RndvData is the header of a part of a rendezvous message that is sent as an active
// message: ucp_rndv_data_hdr_t (ucp_request_data_hdr_t in 1.22.0).
type RndvData struct {
	RecvReqID RequestID // from the RTR
	Offset    int       // relative to the start of what the RTR requested
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
