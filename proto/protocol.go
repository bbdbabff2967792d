package proto

import "fmt"

// Protocol is a way to carry out an operation.
type Protocol uint8

// Protocols.
const (
	ProtoNone Protocol = iota // the lanes cannot do it

	// Eager messages go at once.
	ProtoEagerShort      // inline
	ProtoEagerBcopy      // copied into the transport's buffer
	ProtoEagerZcopy      // from user memory
	ProtoEagerMultiBcopy // in fragments, copied
	ProtoEagerMultiZcopy // in fragments, from user memory

	// Rendezvous messages are offered first. Which of them it becomes is the
	// peer's choice as well; this is what is expected of a peer like us.
	ProtoRndvAM  // data in messages
	ProtoRndvPut // data written into the receiver's memory
	ProtoRndvGet // data read from the sender's memory
	ProtoRndvPtr // data copied from the sender's memory, which the receiver maps

	// Answers of a rendezvous receiver to an offer.
	ProtoAskAM  // wants messages: no address in its answer
	ProtoAskPut // wants its memory written
	ProtoRead   // reads the sender's memory, then says so
	ProtoAttach // maps the sender's memory and copies, then says so

	// Ways of a rendezvous sender to deliver what was asked for.
	ProtoDataBcopy
	ProtoDataZcopy
	ProtoDataPut

	// One-sided operations: what a lane does, and what the peer's worker does by
	// messages.
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

// String returns the name C UCX has for the protocol, or a like one.
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

// EagerZcopy reports whether the message goes at once, from user memory.
func (p Protocol) EagerZcopy() bool { return p == ProtoEagerZcopy || p == ProtoEagerMultiZcopy }

// EagerMulti reports whether the message goes at once, in fragments.
func (p Protocol) EagerMulti() bool { return p == ProtoEagerMultiBcopy || p == ProtoEagerMultiZcopy }

// NumProtocols is the number of protocols, ProtoNone included.
const NumProtocols = int(protoLast)

// DataClass is the shape of user data.
type DataClass uint8

// Shapes of data.
const (
	DataContig  DataClass = iota // one piece
	DataIOV                      // a list of pieces the transport can gather
	DataGeneric                  // packed by the application, or a list too long to gather
	DataMapped                   // one piece, in memory that the peer can map; to be sent only
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

// Offer is what an offer says about the sender's memory.
type Offer uint8

// Kinds of offers.
const (
	OfferPlain   Offer = iota // nothing
	OfferAddress              // where it is
	OfferKey                  // and the key of a domain that maps it here
	numOffers
)

// SendMode is what the caller says about its sends (UCP_OP_ATTR_FLAG_*).
type SendMode uint8

// Send modes, to be combined.
const (
	SendFast  SendMode = 1 << 0 // complete early
	SendMulti SendMode = 1 << 1 // one of many in a row

	numSendModes = 4
)

// String is the part of a table's title that names the mode.
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
