package uct

// AMID identifies an active message's handler at the receiver. The wire has
// five bits for it.
type AMID uint8

// MaxAMIDs is the number of active message ids.
const MaxAMIDs = 32

// AMHandler receives the messages of one id. data is the library's and valid
// only during the call, unless desc is not nil and the handler returns
// ucs.InProgress: then data stays valid until desc.Release. Any other result
// gives the data back; an error among them says that no peer in its right mind
// sends such a message, and a transport with connections drops src, the one it
// came on. It runs inside progress, or inside the send for a transport that
// delivers inline, and may send.
//
// src is nil where the transport cannot tell its peers apart. That is for memory of this
// machine, where only processes of the user can write: who can be reached from elsewhere
// has a Source.
type AMHandler func(src *Source, data []byte, desc *AMDesc) error

// AMDesc is receive memory that a handler may keep.
type AMDesc struct {
	Owner DescOwner // the transport's receive side
	Index int       // the transport's
	Size  int       // bytes it takes as long as it is kept, 0: those of the data
}

// DescOwner takes back receive memory.
type DescOwner interface {
	ReleaseDesc(d *AMDesc)
}

// Release gives the memory back to its transport.
func (d *AMDesc) Release() { d.Owner.ReleaseDesc(d) }

// SendFlags modify a send.
type SendFlags uint8

// Send flags. Those that C UCX has carry its numbers (uct_msg_flags), those that
// only this library has are counted from above.
const (
	// SendSignaled asks for an EventRecvSig at the receiver.
	SendSignaled SendFlags = 1 << 0

	// SendNow forbids keeping the whole message in the transport's buffer: it is
	// handed over in the call, or the call returns ucs.ErrNoResource. Of a message
	// that could be handed over in part the rest follows as soon as possible; the
	// result is ucs.InProgress then.
	SendNow SendFlags = 1 << 7
)
