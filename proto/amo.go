package proto

import "github.com/ucx-go/ucx/uct"

// Sizes in bytes of the messages of emulated atomic operations (src/ucp/rma/rma.h): a request
// without its operands, and a reply without its value.
const (
	AtomicReqSize = 26
	AtomicRepSize = 8
)

var (
	errAtomic      = amError("atomic request", "shorter than its header and operands")
	errAtomicOp    = amError("atomic request", "unknown operation")
	errAtomicSize  = amError("atomic request", "operand is neither 4 nor 8 bytes")
	errAtomicAlign = amError("atomic request", "address is not aligned")
	errAtomicReply = amError("atomic request", "swap without a request id")
	errAtomicRep   = amError("atomic reply", "shorter than its header and value")
)

// AtomicReq requests an atomic operation on the receiver's memory: ucp_atomic_req_hdr_t and
// its operands.
type AtomicReq struct {
	Address uint64
	EpID    EndpointID   // the receiver's endpoint
	ReqID   RequestID    // the sender's request; 0 if no result is wanted, answered by a Cmpl
	Size    uint8        // size of the operand: 4 or 8 bytes
	Op      uct.AtomicOp // the operation; Swap and CSwap need a ReqID
	Value   uint64       // the operand; for Swap and CSwap the new value
	Compare uint64       // for CSwap, the expected value
}

// Len returns the size of the packed message.
func (h AtomicReq) Len() int {
	if h.Op == uct.AtomicCSwap {
		return AtomicReqSize + 2*int(h.Size)
	}
	return AtomicReqSize + int(h.Size)
}

// Put packs the message at the start of dst and returns its size.
func (h AtomicReq) Put(dst []byte) int {
	_ = dst[AtomicReqSize-1]
	le.PutUint64(dst, h.Address)
	le.PutUint64(dst[8:], uint64(h.EpID))
	le.PutUint64(dst[16:], uint64(h.ReqID))
	dst[24] = h.Size
	dst[25] = byte(h.Op)
	n := AtomicReqSize
	if h.Op == uct.AtomicCSwap {
		n += putOperand(dst[n:], h.Compare, h.Size)
	}
	return n + putOperand(dst[n:], h.Value, h.Size)
}

// Append appends the packed message.
func (h AtomicReq) Append(b []byte) []byte {
	var buf [AtomicReqSize + 16]byte
	return append(b, buf[:h.Put(buf[:])]...)
}

// ParseAtomicReq reads a request and checks its operation, operand size and alignment. C UCX
// ends the process on an invalid request.
func ParseAtomicReq(b []byte) (h AtomicReq, err error) {
	if len(b) < AtomicReqSize {
		return h, errAtomic
	}
	size, op := b[24], uct.AtomicOp(b[25])
	addr, req := le.Uint64(b), RequestID(le.Uint64(b[16:]))
	switch {
	case size != 4 && size != 8:
		return h, errAtomicSize
	case op > uct.AtomicCSwap:
		return h, errAtomicOp
	case addr%uint64(size) != 0:
		return h, errAtomicAlign
	case op >= uct.AtomicSwap && req == 0:
		return h, errAtomicReply
	}
	h = AtomicReq{Address: addr, EpID: EndpointID(le.Uint64(b[8:])), ReqID: req, Size: size, Op: op}
	if len(b) < h.Len() {
		return AtomicReq{}, errAtomic
	}
	operands := b[AtomicReqSize:]
	if op == uct.AtomicCSwap {
		h.Compare = getOperand(operands, size)
		operands = operands[size:]
	}
	h.Value = getOperand(operands, size)
	return h, nil
}

// AtomicRep returns the previous value: ucp_rma_rep_hdr_t and the value, whose size the
// requester knows.
type AtomicRep struct {
	ReqID RequestID
	Size  uint8 // size of the value: 4 or 8 bytes
	Value uint64
}

// Put packs the message at the start of dst and returns its size.
func (h AtomicRep) Put(dst []byte) int {
	le.PutUint64(dst, uint64(h.ReqID))
	return AtomicRepSize + putOperand(dst[AtomicRepSize:], h.Value, h.Size)
}

// Append appends the packed message.
func (h AtomicRep) Append(b []byte) []byte {
	var buf [AtomicRepSize + 8]byte
	return append(b, buf[:h.Put(buf[:])]...)
}

// ParseAtomicRep reads a reply. It derives Size from the length of b.
func ParseAtomicRep(b []byte) (h AtomicRep, err error) {
	switch len(b) {
	case AtomicRepSize + 4:
		h.Size = 4
	case AtomicRepSize + 8:
		h.Size = 8
	default:
		return h, errAtomicRep
	}
	h.ReqID = RequestID(le.Uint64(b))
	h.Value = getOperand(b[AtomicRepSize:], h.Size)
	return h, nil
}

func putOperand(dst []byte, v uint64, size uint8) int {
	if size == 4 {
		le.PutUint32(dst, uint32(v))
		return 4
	}
	le.PutUint64(dst, v)
	return 8
}

func getOperand(b []byte, size uint8) uint64 {
	if size == 4 {
		return uint64(le.Uint32(b))
	}
	return le.Uint64(b)
}
