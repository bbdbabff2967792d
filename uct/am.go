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
// src is nil where the transport cannot tell its peers apart.
type AMHandler func(src *Source, data []byte, desc *AMDesc) error

// Source is a connection as its receiving side sees it. A transport embeds one
// in each of its connections; it allocates nothing for it.
type Source struct {
	// Owner is the transport's connection.
	Owner SourceOwner

	// User belongs to the iface's user, who may set it in a handler. It is told
	// once when no more messages will come from here, and the Source must not be
	// used after that.
	User SourceUser
}

// SourceOwner is a connection that can be dropped.
type SourceOwner interface {
	// DropSource drops the connection as if a handler had returned err.
	DropSource(err error)
}

// SourceLocator is a SourceOwner that knows where its peer is, whatever the peer
// says about that.
type SourceLocator interface {
	// Elsewhere reports whether the peer is on another machine, as far as that can
	// be told. It may make system calls.
	Elsewhere() bool
}

// SourceUser wants to know of the end of a connection.
type SourceUser interface {
	// SourceGone is called at the end, of whatever kind, by whoever closes the
	// connection: inside progress, a send or a Close. It must neither send nor
	// call users.
	SourceGone()
}

// Drop drops the connection. The user is told before it returns; data of a
// message that is just being handled stays valid until its handler returns.
func (s *Source) Drop(err error) { s.Owner.DropSource(err) }

// Gone tells the user of the source, once. Transports call it.
func (s *Source) Gone() {
	if u := s.User; u != nil {
		s.User = nil
		u.SourceGone()
	}
}

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
