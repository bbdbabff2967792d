package proto

import "github.com/ucx-go/ucx/ucs"

// Sizes of ATS and ATP: with the size field, and without it as old peers send them.
const (
	RndvAckSize      = 17
	RndvAckShortSize = 9
)

var (
	errRndvAck     = amError("rndv ats/atp", "shorter than its header")
	errRndvAckSize = amError("rndv ats/atp", "size larger than any memory")
)

// RndvAck is both acknowledgements of a rendezvous: ucp_rndv_ack_hdr_t. ATS goes from
// receiver to sender and names the sender's request; ATP goes from sender to receiver after
// a write and names the receiver's.
//
// A 1.22.0 sender that writes over several lanes sends several ATPs whose sizes add up;
// 1.13.1 takes the first as the end of the message. This library sends one, with the full
// size, and adds up those that it receives.
type RndvAck struct {
	ReqID   RequestID
	Status  ucs.Status
	Size    int  // bytes acknowledged
	HasSize bool // false: an old peer that sends no size
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
