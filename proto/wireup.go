package proto

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// WireupType is the kind of a wireup message (UCP_WIREUP_MSG_* in
// src/ucp/wireup/wireup.h).
type WireupType uint8

// Types of wireup messages.
const (
	WireupPreRequest       WireupType = 0
	WireupRequest          WireupType = 1
	WireupReply            WireupType = 2
	WireupAck              WireupType = 3
	WireupEpCheck          WireupType = 4
	WireupEpRemoved        WireupType = 5
	WireupReplyReconfig    WireupType = 6 // sent by 1.22.0
	WireupLanesAddrRequest WireupType = 7 // sent by 1.22.0 to release 22 and later
	WireupLanesAddrReply   WireupType = 8 // sent by 1.22.0 to release 22 and later
	wireupTypeLast         WireupType = 9
)

var wireupNames = [wireupTypeLast]string{
	"PRE_REQ", "REQ", "REP", "ACK", "EP_CHECK", "EP_REMOVED", "REP_RECONFIG",
	"LANES_ADDR_REQ", "LANES_ADDR_REP",
}

// String returns the name that C UCX logs.
func (t WireupType) String() string {
	if t < wireupTypeLast {
		return wireupNames[t]
	}
	return fmt.Sprintf("wireup type %d", uint8(t))
}

// lanes reports whether the message carries lane maps.
func (t WireupType) lanes() bool { return t == WireupLanesAddrRequest || t == WireupLanesAddrReply }

// ErrMode is the error handling mode of an endpoint (ucp_err_handling_mode_t).
type ErrMode uint8

// Error handling modes.
const (
	ErrModeNone     ErrMode = 0
	ErrModePeer     ErrMode = 1
	ErrModeFailover ErrMode = 2 // exists in release 1.22.0
)

// ConnSNNone is the Wireup.ConnSN of endpoints that are not matched by sequence number, because
// they belong to a connection with a listener.
const ConnSNNone uint16 = 0xFFFF

const (
	wireupHeaderSize = 20
	wireupLanesSize  = 16
)

var (
	errWireup = amError("wireup", "shorter than its header")
	errMode   = amError("wireup", "unknown error handling mode")
)

// Wireup is a wireup message: ucp_wireup_msg_t and an address in FormWireup. It may arrive on any
// connection from the peer.
type Wireup struct {
	Type    WireupType
	ErrMode ErrMode
	ConnSN  uint16     // sequence number: the k-th endpoints of both sides are connected
	SrcEp   EndpointID // the sender's endpoint
	DstEp   EndpointID // the receiver's endpoint, 0 if not known yet

	// RequestedLanes and ProvidedLanes are bit maps of lanes. Only WireupLanesAddrRequest and
	// WireupLanesAddrReply have them.
	RequestedLanes, ProvidedLanes uint64

	Address WorkerAddress
}

// Append appends the packed message.
func (m *Wireup) Append(b []byte) ([]byte, error) {
	start := b
	b = append(b, byte(m.Type), byte(m.ErrMode))
	b = le.AppendUint16(b, m.ConnSN)
	b = le.AppendUint64(b, uint64(m.SrcEp))
	b = le.AppendUint64(b, uint64(m.DstEp))
	if m.Type.lanes() {
		b = le.AppendUint64(b, m.RequestedLanes)
		b = le.AppendUint64(b, m.ProvidedLanes)
	}
	b, err := m.Address.Append(b, FormWireup)
	if err != nil {
		return start, err
	}
	return b, nil
}

// ParseWireup reads a wireup message. Byte slices in the address alias b. An
// unknown type is an error.
func ParseWireup(b []byte) (m Wireup, err error) {
	if len(b) < wireupHeaderSize {
		return m, errWireup
	}
	m.Type = WireupType(b[0])
	m.ErrMode = ErrMode(b[1])
	if m.Type >= wireupTypeLast {
		return Wireup{}, formatErrorf(ucs.ErrIO, "wireup", "unknown message type %d", b[0])
	}
	if m.ErrMode > ErrModeFailover {
		return Wireup{}, errMode
	}
	m.ConnSN = le.Uint16(b[2:])
	m.SrcEp = EndpointID(le.Uint64(b[4:]))
	m.DstEp = EndpointID(le.Uint64(b[12:]))
	rest := b[wireupHeaderSize:]
	if m.Type.lanes() {
		if len(rest) < wireupLanesSize {
			return Wireup{}, errWireup
		}
		m.RequestedLanes = le.Uint64(rest)
		m.ProvidedLanes = le.Uint64(rest[8:])
		rest = rest[wireupLanesSize:]
	}
	if m.Address, _, err = ParseAddress(rest, FormWireup); err != nil {
		return Wireup{}, err
	}
	return m, nil
}

// EpClose tells the peer's endpoint that the sender's endpoint was closed. C UCX has no message
// for that: it keeps an endpoint that its peer has closed (ucp_ep_disconnected in
// src/ucp/core/ucp_ep.c). EpClose is sent only to endpoints whose id has the mark of this
// library (EndpointIDMark).
type EpClose struct {
	Kind EpCloseKind
	EpID EndpointID // the receiver's endpoint
	From EndpointID // the sender's endpoint
}

// EpCloseKind is the kind of an EpClose.
type EpCloseKind uint8

// Kinds of EpClose messages.
const (
	// EpReleased means that the sender's application has closed its endpoint, and all operations
	// that it had started are complete. The sender's endpoint stays as long as the receiver's
	// endpoint needs it.
	EpReleased EpCloseKind = 1

	// EpRemoved means that the sender's endpoint no longer exists.
	EpRemoved EpCloseKind = 2
)

// EpCloseSize is the length of the packed message in bytes.
const EpCloseSize = 2*8 + 1

var errEpClose = amError("close of an endpoint", "unknown kind or wrong length")

// Put packs the message at the start of dst and returns its length in bytes.
func (h EpClose) Put(dst []byte) int { return len(h.Append(dst[:0])) }

// Append appends the packed message.
func (h EpClose) Append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(h.EpID))
	b = le.AppendUint64(b, uint64(h.From))
	return append(b, byte(h.Kind))
}

// ParseEpClose reads the message. Any other length than EpCloseSize and any other kind are errors.
func ParseEpClose(b []byte) (h EpClose, err error) {
	if len(b) != EpCloseSize {
		return h, errEpClose
	}
	h = EpClose{
		Kind: EpCloseKind(b[EpCloseSize-1]),
		EpID: EndpointID(le.Uint64(b)),
		From: EndpointID(le.Uint64(b[8:])),
	}
	if h.Kind != EpReleased && h.Kind != EpRemoved {
		return EpClose{}, errEpClose
	}
	return h, nil
}

// String returns the name of the kind.
func (k EpCloseKind) String() string {
	switch k {
	case EpReleased:
		return "released"
	case EpRemoved:
		return "removed"
	}
	return "unknown"
}

// EndpointIDMark is the top byte of the ids of this library's endpoints. Ids of C UCX are
// pointers, which are even, or numbers counted from 1 (ucs_ptr_map_create_key in
// src/ucs/datastruct/ptr_map.inl), whose top byte is 0. So an id shows whether its endpoint
// belongs to this library.
const EndpointIDMark = 0xB5

// Marked reports whether the id belongs to an endpoint of this library.
func (id EndpointID) Marked() bool { return id&1 != 0 && id>>56 == EndpointIDMark }
