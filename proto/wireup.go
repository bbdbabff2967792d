package proto

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// WireupType is the kind of a wireup message (UCP_WIREUP_MSG_* in
// src/ucp/wireup/wireup.h).
type WireupType uint8

// Wireup messages.
const (
	WireupPreRequest       WireupType = 0
	WireupRequest          WireupType = 1
	WireupReply            WireupType = 2
	WireupAck              WireupType = 3
	WireupEpCheck          WireupType = 4
	WireupEpRemoved        WireupType = 5
	WireupReplyReconfig    WireupType = 6 // 1.22.0
	WireupLanesAddrRequest WireupType = 7 // 1.22.0, toward release 22 and later
	WireupLanesAddrReply   WireupType = 8 // 1.22.0, toward release 22 and later
	wireupTypeLast         WireupType = 9
)

var wireupNames = [wireupTypeLast]string{
	"PRE_REQ", "REQ", "REP", "ACK", "EP_CHECK", "EP_REMOVED", "REP_RECONFIG",
	"LANES_ADDR_REQ", "LANES_ADDR_REP",
}

// String returns the name the C library logs.
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
	ErrModeFailover ErrMode = 2 // 1.22.0
)

// ConnSNNone is the sequence number of endpoints that are not matched by sequence number:
// those of a listener's connections.
const ConnSNNone uint16 = 0xFFFF

const (
	wireupHeaderSize = 20
	wireupLanesSize  = 16
)

var (
	errWireup = amError("wireup", "shorter than its header")
	errMode   = amError("wireup", "unknown error handling mode")
)

// Wireup is a wireup message: ucp_wireup_msg_t and an address in FormWireup. It may arrive
// on any connection of the peer.
type Wireup struct {
	Type    WireupType
	ErrMode ErrMode
	ConnSN  uint16     // pairs the k-th endpoint of one side with the k-th of the other
	SrcEp   EndpointID // the sender's end
	DstEp   EndpointID // the receiver's end, 0 if not known yet

	RequestedLanes, ProvidedLanes uint64 // lane maps of types 7 and 8

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
