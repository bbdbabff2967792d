package uct

// AMID is an active message id, which selects the handler at the receiver. It has five bits on
// the wire.
type AMID uint8

// MaxAMIDs is the number of active message ids.
const MaxAMIDs = 32

// AMHandler receives the messages of one id. The transport owns data, which is valid only
// during the call, unless desc is not nil and the handler returns ucs.InProgress: then data
// stays valid until desc.Release. With any other result the transport takes the data back. An
// error says that the message violates the protocol; a transport with connections then drops
// src, the connection that delivered the message. The handler runs inside progress, or inside
// the send for a transport that delivers inline. The handler may send.
//
// src is nil if the transport cannot tell its peers apart. That is permitted only for
// memory of this machine, to which only processes of the same user can write: a transport
// that is reachable from elsewhere passes a Source.
type AMHandler func(src *Source, data []byte, desc *AMDesc) error

// AMDesc is receive memory that a handler may keep.
type AMDesc struct {
	Owner DescOwner // receive side of the transport, which takes the memory back
	Index int       // used only by the transport
	Size  int       // bytes charged while it is kept; 0: the length of the data
}

// DescOwner takes back receive memory.
type DescOwner interface {
	ReleaseDesc(d *AMDesc)
}

// Release returns the memory to its transport.
func (d *AMDesc) Release() { d.Owner.ReleaseDesc(d) }

// SendFlags modify a send.
type SendFlags uint8

// Send flags. Flags that C UCX has carry its numbers (uct_msg_flags); flags of this library
// are numbered from the top.
const (
	// SendSignaled asks for an EventRecvSig at the receiver.
	SendSignaled SendFlags = 1 << 0

	// SendNow forbids buffering the whole message in the transport: the message is handed
	// over in the call, or the call returns ucs.ErrNoResource. If only part of the message
	// can be handed over, the rest follows as soon as possible, and the result is
	// ucs.InProgress.
	SendNow SendFlags = 1 << 7
)
