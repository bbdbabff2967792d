package proto

import "math"

// Threshold is a message size from which the user wants a protocol. The zero value is the
// size 0: always, empty messages included.
type Threshold int

// Special thresholds.
const (
	ThreshAuto Threshold = -1          // the cost model decides
	ThreshInf  Threshold = math.MaxInt // never, as long as another protocol is possible
)

// RndvScheme restricts how rendezvous data is transferred (UCX_RNDV_SCHEME).
type RndvScheme uint8

// Schemes.
const (
	RndvSchemeAuto RndvScheme = iota
	RndvSchemePut             // the sender writes into the receiver's memory
	RndvSchemeAM              // in messages
	RndvSchemeGet             // the receiver reads the sender's memory
	RndvSchemePtr             // the receiver maps the sender's memory and copies
)

// ProtoSettings are the user's settings for choosing protocols. They start from
// DefaultProtoSettings.
type ProtoSettings struct {
	BcopyThresh Threshold // UCX_BCOPY_THRESH: from here copied instead of short
	ZcopyThresh Threshold // UCX_ZCOPY_THRESH: from here zero-copy
	RndvThresh  Threshold // UCX_RNDV_THRESH, the value for this peer: from here rendezvous
	RndvFast    Threshold // UCX_RNDV_SEND_NBR_THRESH: RndvThresh of SendFast if that is auto
	RndvScheme  RndvScheme
	CopyBW      float64 // UCX_BCOPY_BW in bytes per second; 0: a default

	// RndvBias is the relative time by which a rendezvous may be slower than an eager
	// message and is still chosen (UCX_RNDV_PERF_DIFF).
	RndvBias float64

	Spread Spread              // of rendezvous data over lanes
	Allow  func(Protocol) bool // UCX_PROTOS; nil: all. If none of the allowed protocols is possible the others are used
}

// DefaultProtoSettings are C's defaults.
func DefaultProtoSettings() ProtoSettings {
	return ProtoSettings{
		BcopyThresh: ThreshAuto,
		ZcopyThresh: ThreshAuto,
		RndvThresh:  ThreshAuto,
		RndvFast:    256 << 10,
	}
}

// rndv is the rendezvous threshold for a mode.
func (s *ProtoSettings) rndv(mode SendMode) Threshold {
	if s.RndvThresh == ThreshAuto && mode&SendFast != 0 {
		return s.RndvFast
	}
	return s.RndvThresh
}

// bias is RndvBias made sane.
func (s *ProtoSettings) bias() float64 {
	if math.IsNaN(s.RndvBias) {
		return 0
	}
	return min(max(s.RndvBias, -1), 1)
}
