package proto

// Sizes in bytes of the message headers of emulated remote memory access (src/ucp/rma/rma.h).
const (
	PutSize    = 20
	GetReqSize = 36
	GetRepSize = 16
	CmplSize   = 8
)

var (
	errPut       = amError("put", "shorter than its header")
	errPutRange  = amError("put", "range exceeds the largest possible memory size")
	errGetReq    = amError("get request", "shorter than its header")
	errGetRange  = amError("get request", "range exceeds the largest possible memory size")
	errGetRep    = amError("get reply", "shorter than its header")
	errGetRepOff = amError("get reply", "offset exceeds the largest possible memory size")
	errCmpl      = amError("completion", "shorter than its header")
)

// Put is the header of data to be written to the receiver's memory: ucp_put_hdr_t. Each message is
// answered by a Cmpl. It contains no key, so the receiver checks that peers may write to the range.
type Put struct {
	Address uint64
	EpID    EndpointID // the receiver's endpoint
	MemType uint32     // ucs_memory_type_t of the receiver's memory
}

// Put packs the header at the start of dst and returns its size.
func (h Put) Put(dst []byte) int {
	_ = dst[PutSize-1]
	le.PutUint64(dst, h.Address)
	le.PutUint64(dst[8:], uint64(h.EpID))
	le.PutUint32(dst[16:], h.MemType)
	return PutSize
}

// Append appends the packed header.
func (h Put) Append(b []byte) []byte {
	b = le.AppendUint64(b, h.Address)
	b = le.AppendUint64(b, uint64(h.EpID))
	return le.AppendUint32(b, h.MemType)
}

// ParsePut returns the header and the data. Address plus the data's length does
// not overflow.
func ParsePut(b []byte) (h Put, data []byte, err error) {
	if len(b) < PutSize {
		return h, nil, errPut
	}
	h.Address = le.Uint64(b)
	h.EpID = EndpointID(le.Uint64(b[8:]))
	h.MemType = le.Uint32(b[16:])
	data = b[PutSize:]
	if h.Address+uint64(len(data)) < h.Address {
		return Put{}, nil, errPutRange
	}
	return h, data, nil
}

// GetReq requests a part of the receiver's memory: ucp_get_req_hdr_t. A length of 0 is
// answered by an empty reply.
type GetReq struct {
	Address uint64
	Length  int
	EpID    EndpointID // the receiver's endpoint
	ReqID   RequestID  // the sender's request
	MemType uint32     // ucs_memory_type_t of the receiver's memory
}

// Put packs the message at the start of dst and returns its size.
func (h GetReq) Put(dst []byte) int {
	_ = dst[GetReqSize-1]
	le.PutUint64(dst, h.Address)
	le.PutUint64(dst[8:], uint64(h.Length))
	le.PutUint64(dst[16:], uint64(h.EpID))
	le.PutUint64(dst[24:], uint64(h.ReqID))
	le.PutUint32(dst[32:], h.MemType)
	return GetReqSize
}

// Append appends the packed message.
func (h GetReq) Append(b []byte) []byte {
	b = le.AppendUint64(b, h.Address)
	b = le.AppendUint64(b, uint64(h.Length))
	b = le.AppendUint64(b, uint64(h.EpID))
	b = le.AppendUint64(b, uint64(h.ReqID))
	return le.AppendUint32(b, h.MemType)
}

// ParseGetReq reads a request. Address plus Length does not overflow.
func ParseGetReq(b []byte) (h GetReq, err error) {
	if len(b) < GetReqSize {
		return h, errGetReq
	}
	addr, n := le.Uint64(b), le.Uint64(b[8:])
	if n > maxSize || addr+n < addr {
		return h, errGetRange
	}
	h.Address = addr
	h.Length = int(n)
	h.EpID = EndpointID(le.Uint64(b[16:]))
	h.ReqID = RequestID(le.Uint64(b[24:]))
	h.MemType = le.Uint32(b[32:])
	return h, nil
}

// GetRep is the header of a part of the answer to a GetReq: ucp_rma_rep_hdr_t with an
// offset.
type GetRep struct {
	ReqID  RequestID
	Offset int // of the data in the requested range
}

// Put packs the header at the start of dst and returns its size.
func (h GetRep) Put(dst []byte) int {
	_ = dst[GetRepSize-1]
	le.PutUint64(dst, uint64(h.ReqID))
	le.PutUint64(dst[8:], uint64(h.Offset))
	return GetRepSize
}

// Append appends the packed header.
func (h GetRep) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(h.ReqID))
	return le.AppendUint64(b, uint64(h.Offset))
}

// ParseGetRep returns the header and the data. Offset plus the data's length
// does not overflow.
func ParseGetRep(b []byte) (h GetRep, data []byte, err error) {
	if len(b) < GetRepSize {
		return h, nil, errGetRep
	}
	off := le.Uint64(b[8:])
	data = b[GetRepSize:]
	if off > uint64(maxSize-len(data)) {
		return h, nil, errGetRepOff
	}
	h.ReqID = RequestID(le.Uint64(b))
	h.Offset = int(off)
	return h, data, nil
}

// Cmpl reports that one write or posted atomic operation has taken effect: ucp_cmpl_hdr_t. The
// receiver counts completions and does not match them to operations.
type Cmpl struct {
	EpID EndpointID // the receiver's endpoint
}

// Put packs the message at the start of dst and returns its size.
func (h Cmpl) Put(dst []byte) int {
	le.PutUint64(dst, uint64(h.EpID))
	return CmplSize
}

// Append appends the packed message.
func (h Cmpl) Append(b []byte) []byte { return le.AppendUint64(b, uint64(h.EpID)) }

// ParseCmpl reads a completion.
func ParseCmpl(b []byte) (h Cmpl, err error) {
	if len(b) < CmplSize {
		return h, errCmpl
	}
	h.EpID = EndpointID(le.Uint64(b))
	return h, nil
}
