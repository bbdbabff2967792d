package proto

import "fmt"

// Protocol is a way to carry out an operation.
type Protocol uint8

// Protocols.
const (
	ProtoNone Protocol = iota // the lanes cannot do it

	// Eager messages are sent at once.
	ProtoEagerShort      // inline
	ProtoEagerBcopy      // copied into the transport's buffer
	ProtoEagerZcopy      // from user memory
	ProtoEagerMultiBcopy // in fragments, copied
	ProtoEagerMultiZcopy // in fragments, from user memory

	// Rendezvous messages are offered first. The peer takes part in the choice of the
	// protocol; this is the one expected of a peer of this library.
	ProtoRndvAM  // data in messages
	ProtoRndvPut // data written into the receiver's memory
	ProtoRndvGet // data read from the sender's memory
	ProtoRndvPtr // data copied from the sender's memory, which the receiver maps

	// Answers of a rendezvous receiver to an offer (RTS).
	ProtoAskAM  // asks for messages: no address in its answer
	ProtoAskPut // asks for a write into its memory
	ProtoRead   // reads the sender's memory, then acknowledges
	ProtoAttach // maps the sender's memory and copies, then acknowledges

	// Protocols with which a rendezvous sender delivers the requested data.
	ProtoDataBcopy
	ProtoDataZcopy
	ProtoDataPut

	// One-sided operations: by a lane itself, or by messages to the peer's worker.
	ProtoPutShort
	ProtoPutBcopy
	ProtoPutZcopy
	ProtoPutAM
	ProtoGetBcopy
	ProtoGetZcopy
	ProtoGetAM
	ProtoAtomic
	ProtoAtomicAM

	protoLast
)

var protocolText = [protoLast]struct{ name, desc string }{
	ProtoNone:            {"none", "not supported"},
	ProtoEagerShort:      {"egr/short", "eager short"},
	ProtoEagerBcopy:      {"egr/single/bcopy", "eager copy-in copy-out"},
	ProtoEagerZcopy:      {"egr/single/zcopy", "eager zero-copy copy-out"},
	ProtoEagerMultiBcopy: {"egr/multi/bcopy", "multi-frag eager copy-in copy-out"},
	ProtoEagerMultiZcopy: {"egr/multi/zcopy", "multi-frag eager zero-copy copy-out"},
	ProtoRndvAM:          {"rndv/am", "(?) rendezvous fragmented copy-in copy-out"},
	ProtoRndvPut:         {"rndv/put/zcopy", "(?) rendezvous zero-copy write to remote"},
	ProtoRndvGet:         {"rndv/get/zcopy", "(?) rendezvous zero-copy read from remote"},
	ProtoRndvPtr:         {"rndv/rkey_ptr", "(?) rendezvous copy from mapped remote memory"},
	ProtoAskAM:           {"rndv/rtr/am", "receive fragments"},
	ProtoAskPut:          {"rndv/rtr/put", "receive by remote write"},
	ProtoRead:            {"rndv/get", "zero-copy read from remote"},
	ProtoAttach:          {"rndv/attach", "copy from mapped remote memory"},
	ProtoDataBcopy:       {"rndv/am/bcopy", "fragmented copy-in copy-out"},
	ProtoDataZcopy:       {"rndv/am/zcopy", "fragmented zero-copy copy-out"},
	ProtoDataPut:         {"rndv/send/put", "zero-copy write to remote"},
	ProtoPutShort:        {"put/offload/short", "short"},
	ProtoPutBcopy:        {"put/offload/bcopy", "copy-in"},
	ProtoPutZcopy:        {"put/offload/zcopy", "zero-copy"},
	ProtoPutAM:           {"put/am/bcopy", "software emulation"},
	ProtoGetBcopy:        {"get/bcopy", "copy-out"},
	ProtoGetZcopy:        {"get/zcopy", "zero-copy"},
	ProtoGetAM:           {"get/am/bcopy", "software emulation"},
	ProtoAtomic:          {"amo", "native"},
	ProtoAtomicAM:        {"amo/sw", "software emulation"},
}

// String returns C UCX's name of the protocol, or a similar one.
func (p Protocol) String() string {
	if p < protoLast {
		return protocolText[p].name
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// Description says what the protocol does, as ucx_info -e prints it.
func (p Protocol) Description() string {
	if p < protoLast {
		return protocolText[p].desc
	}
	return p.String()
}

// Rendezvous reports whether the message is offered before it is sent.
func (p Protocol) Rendezvous() bool { return p >= ProtoRndvAM && p <= ProtoRndvPtr }

// EagerZcopy reports whether the message is sent at once, from user memory.
func (p Protocol) EagerZcopy() bool { return p == ProtoEagerZcopy || p == ProtoEagerMultiZcopy }

// EagerMulti reports whether the message is sent at once, in fragments.
func (p Protocol) EagerMulti() bool { return p == ProtoEagerMultiBcopy || p == ProtoEagerMultiZcopy }

// NumProtocols is the number of protocols, including ProtoNone.
const NumProtocols = int(protoLast)

// DataClass is the shape of user data.
type DataClass uint8

// Shapes of data.
const (
	DataContig  DataClass = iota // one piece
	DataIOV                      // a list of pieces the transport can gather
	DataGeneric                  // packed by the application, or a list too long to gather
	DataMapped                   // one piece, in memory that the peer can map; only for sends
	numDataClasses
)

// String names the shape.
func (c DataClass) String() string {
	switch c {
	case DataContig:
		return "contiguous"
	case DataIOV:
		return "iov"
	case DataGeneric:
		return "generic"
	case DataMapped:
		return "allocated"
	}
	return fmt.Sprintf("data class %d", uint8(c))
}

// contig reports whether the data is one piece.
func (c DataClass) contig() bool { return c == DataContig || c == DataMapped }

// Offer is what an RTS tells about the sender's memory.
type Offer uint8

// Kinds of offers.
const (
	OfferPlain   Offer = iota // nothing
	OfferAddress              // its address
	OfferKey                  // also the key of a domain that maps it here
	numOffers
)

// SendMode is a hint of the caller about its sends (UCP_OP_ATTR_FLAG_*).
type SendMode uint8

// Send modes; they can be combined.
const (
	SendFast  SendMode = 1 << 0 // complete early
	SendMulti SendMode = 1 << 1 // one of many in a row

	numSendModes = 4
)

// String returns the part of a table's title that names the mode.
func (m SendMode) String() string {
	switch m & (SendFast | SendMulti) {
	case SendFast:
		return "(fast-completion)"
	case SendMulti:
		return "(multi)"
	case SendFast | SendMulti:
		return "(fast-completion|multi)"
	}
	return ""
}
