//go:build linux

package wire

import "encoding/binary"

// Header is the beginning of every packet, read as one little-endian word; struct
// uct_ud_neth of src/uct/ib/ud/base/ud_def.h:
//
//	bits  0..23  id of the destination endpoint, NullID in a CREQ
//	      24     the packet is an active message
//	      25     the receiver has to acknowledge
//	      26     congestion notification: C declares it and neither sends nor reads it
//	      27..31 id of the active message; otherwise 27 NACK, 28 PUT, 29 control
//	      32..47 number of the packet
//	      48..63 number of the last packet that the sender has received in order
type Header uint64

// HeaderLen is the size of a Header.
const HeaderLen = 8

// NullID is an id that no endpoint has: UCT_UD_EP_NULL_ID.
const NullID = 1<<24 - 1

// MaxAM is the largest id of an active message.
const MaxAM = 31

// Flags of a Header: UCT_UD_PACKET_FLAG_*. FlagNack and the flags after it are valid only in packets
// that are not active messages. FlagEnd and FlagRefuse are specific to this library, and are sent
// only in packets of 8 bytes: C ignores unknown bits of these, and takes them for acknowledgements.
const (
	FlagAM     Header = 1 << 24
	FlagAckReq Header = 1 << 25
	FlagNack   Header = 1 << 27
	FlagPut    Header = 1 << 28
	FlagCtl    Header = 1 << 29

	FlagEnd    Header = 1 << 30 // the sender has closed its endpoint, and sends no more messages
	FlagRefuse Header = 1 << 31 // the sender's endpoint does not exist any more
)

// AMHeader returns the header of active message id for endpoint dest.
func AMHeader(dest uint32, id uint8, psn, ack PSN) Header {
	return Header(id)<<27 | FlagAM | NewHeader(dest, 0, psn, ack)
}

// NewHeader returns the header of a packet that is not an active message.
func NewHeader(dest uint32, flags Header, psn, ack PSN) Header {
	return Header(dest&NullID) | flags | Header(psn)<<32 | Header(ack)<<48
}

// Load returns the header of a packet, which has at least HeaderLen bytes.
func Load(b []byte) Header { return Header(binary.LittleEndian.Uint64(b)) }

// Store writes the header to the first HeaderLen bytes of a packet.
func (h Header) Store(b []byte) { binary.LittleEndian.PutUint64(b, uint64(h)) }

// Dest returns the id of the destination endpoint.
func (h Header) Dest() uint32 { return uint32(h) & NullID }

// IsAM reports whether the packet is an active message.
func (h Header) IsAM() bool { return h&FlagAM != 0 }

// AMID returns the id of the active message.
func (h Header) AMID() uint8 { return uint8(h >> 27 & MaxAM) }

// AckReq reports whether the sender asks for an acknowledgement.
func (h Header) AckReq() bool { return h&FlagAckReq != 0 }

// PSN returns the number of the packet.
func (h Header) PSN() PSN { return PSN(h >> 32) }

// Ack returns the number of the last packet that the sender has received in order.
func (h Header) Ack() PSN { return PSN(h >> 48) }

// WithAck returns h with another acknowledgement; req sets or clears the request for one.
func (h Header) WithAck(ack PSN, req bool) Header {
	h = h&^(0xffff<<48|FlagAckReq) | Header(ack)<<48
	if req {
		h |= FlagAckReq
	}
	return h
}

// Kind is the kind of a packet.
type Kind uint8

// Kinds of packets.
const (
	KindBad  Kind = iota // a packet that no peer sends
	KindAM               // an active message
	KindAck              // 8 bytes that acknowledge, or ask for an acknowledgement
	KindNack             // the same, and a packet is missing
	KindCtl              // CREQ or CREP
	KindPut
)

// Kind returns the kind of a packet of n bytes with this header. C tests the bits in the same order
// (uct_ud_ep_process_rx of src/uct/ib/ud/base/ud_ep.c). A packet that C would take for an active
// message although FlagAM is not set is KindBad.
func (h Header) Kind(n int) Kind {
	switch {
	case n < HeaderLen:
		return KindBad
	case h&FlagAM != 0:
		return KindAM
	case h&FlagNack != 0:
		return KindNack
	case n == HeaderLen:
		return KindAck
	case h&FlagCtl != 0:
		return KindCtl
	case h&FlagPut != 0:
		return KindPut
	}
	return KindBad
}
