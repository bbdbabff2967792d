package proto

import "fmt"

// Protocol is a way to carry out an operation.
type Protocol uint8

// Protocols of messages, rendezvous and one-sided operations.
const (
	ProtoNone Protocol = iota // no lane supports the operation

	// Eager messages are sent at once.
	ProtoEagerShort      // the data is sent inline
	ProtoEagerBcopy      // the data is copied into the transport's buffer
	ProtoEagerZcopy      // the data is sent from user memory
	ProtoEagerMultiBcopy // the data is sent in fragments that are copied
	ProtoEagerMultiZcopy // the data is sent in fragments from user memory

	// Rendezvous messages are offered first, by an RTS. The receiver takes part in the choice
	// of the protocol. Decision tables of the sender contain the protocol that a receiver of this
	// library is expected to choose.
	ProtoRndvAM  // the sender sends the data in active messages
	ProtoRndvPut // the sender writes the data into the receiver's memory
	ProtoRndvGet // the receiver reads the data from the sender's memory
	ProtoRndvPtr // the receiver maps the sender's memory and copies the data

	// Answers of a rendezvous receiver to an RTS.
	ProtoAskAM  // the receiver requests active messages, by an RTR without address
	ProtoAskPut // the receiver requests a write into its memory, by an RTR with the address
	ProtoRead   // the receiver reads the sender's memory, then acknowledges
	ProtoAttach // the receiver maps the sender's memory and copies, then acknowledges

	// Protocols with which a rendezvous sender delivers the data that an RTR requests.
	ProtoDataBcopy // in active messages, copied
	ProtoDataZcopy // in active messages, from user memory
	ProtoDataPut   // by writing into the receiver's memory

	// One-sided operations, by a lane directly or by messages to the peer's worker.
	ProtoPutShort // by a lane directly, as are ProtoPutBcopy and ProtoPutZcopy
	ProtoPutBcopy
	ProtoPutZcopy
	ProtoPutAM // by active messages, as are ProtoGetAM and ProtoAtomicAM
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

// Rendezvous reports whether the message is offered by an RTS before its data is sent.
func (p Protocol) Rendezvous() bool { return p >= ProtoRndvAM && p <= ProtoRndvPtr }

// EagerZcopy reports whether the message is sent at once, from user memory.
func (p Protocol) EagerZcopy() bool { return p == ProtoEagerZcopy || p == ProtoEagerMultiZcopy }

// EagerMulti reports whether the message is sent at once, in fragments.
func (p Protocol) EagerMulti() bool { return p == ProtoEagerMultiBcopy || p == ProtoEagerMultiZcopy }

// NumProtocols is the number of protocols, including ProtoNone.
const NumProtocols = int(protoLast)

// DataClass is the shape of user data.
type DataClass uint8

// Shapes of user data.
const (
	DataContig  DataClass = iota // one piece of memory
	DataIOV                      // a list of pieces that the transport can gather
	DataGeneric                  // packed by the application, or a list too long to gather
	DataMapped                   // one piece of memory that the peer can map; only for sends
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

// Offer is the information about the sender's memory in an RTS.
type Offer uint8

// Information about the sender's memory in an RTS.
const (
	OfferPlain   Offer = iota // none
	OfferAddress              // the address of the memory
	OfferKey                  // the address, and a key with which the receiver can map the memory
	numOffers
)

// SendMode is a hint of the caller about its sends (UCP_OP_ATTR_FLAG_*).
type SendMode uint8

// Send modes; they can be combined.
const (
	SendFast  SendMode = 1 << 0 // the send should complete as early as possible
	SendMulti SendMode = 1 << 1 // the send is one of many in a row

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
