//go:build linux

package verbstest

// Message is what is on its way between two queue pairs: a datagram, or a work request
// of a connected queue pair, as a whole, each time that it is tried.
type Message struct {
	Number   uint64  // of all in the network, from 1
	From, To *Kernel // To is nil if nobody has the address
	FromPort int     // the number of the port that it leaves by
	FromQP   uint32  // the numbers of the queue pairs
	ToQP     uint32
	Datagram bool
	Opcode   uint32 // of the work request; enum ib_uverbs_wr_opcode
	Length   int    // of its data
	Head     []byte // the first of its data, up to 128 bytes; none of reads and atomics. Valid during the call
	Try      int    // how often the request has been tried before
}

// headLength is how much of a message hooks see.
const headLength = 128

// Fate is what becomes of a message. The zero value lets it through.
type Fate struct {
	// Drop loses it. One that is spoilt on the way is lost too: its checksum is wrong.
	Drop bool
	// Copies of a datagram arrive besides it. Of a connection they make no difference:
	// its packets are numbered.
	Copies int
	// Hold lets it arrive after so many other messages have come through, or if there
	// are none, calls of Progress that find nothing to do. UntilReleased waits for
	// Fabric.Release. Of a datagram with Copies it is the copies that come so late. What
	// a connection has to send behind it waits with it.
	Hold int
	// NoAnswer loses the answer to a request of a reliable connection, which is tried
	// again then, and done once all the same.
	NoAnswer bool
	// NotReady has a reliable receiver answer that it has no receive for the message.
	NotReady bool
}

// UntilReleased is for Fate.Hold.
const UntilReleased = -1

// Hook decides what becomes of a message. It is called in the middle of things, in
// the order in which they happen: it must not call anything of the network. It keeps
// nothing of m.
type Hook func(m *Message) Fate

// Counts are how many messages there have been.
type Counts struct {
	Messages    uint64 // sent, with those sent again
	Dropped     uint64 // by Fate.Drop
	Copied      uint64 // datagrams, by Fate.Copies
	Held        uint64 // by Fate.Hold
	AnswersLost uint64 // by Fate.NoAnswer
	NotReady    uint64 // by Fate.NotReady
}
