package mailbox

import (
	"slices"
	"sync"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// places is the number of messages that a mailbox holds.
const places = 64

// box is the mailbox of an iface. No lock of another box is taken while mu is held.
type box struct {
	mu       sync.Mutex
	ring     [places]message
	first    int // index of the oldest message; only the receiver changes it
	count    int
	conns    []*conn // connections of peers
	waiting  []*box  // senders that wait for room
	news     bool    // endpoints may have failed, connections may have ended, there may be room
	armed    bool    // the next news ring the bell
	messages bool    // so does the next message
	bell     *event.Bell
	closed   bool
}

// message is a message in a mailbox.
type message struct {
	from *conn
	id   uct.AMID
	n    int    // length in buf
	buf  []byte // of the segment size
}

// conn is the connection of an endpoint. It implements uct.SourceOwner for the receiver. It is
// no uct.Connection, because its peer is this process.
type conn struct {
	uct.BasicSource
	source   uct.Source
	from, to *box

	// Guarded by to.mu.
	queued int  // messages in the mailbox
	broken bool // the receiver has dropped the connection, or is closed
	ended  bool // the endpoint is closed
}

var _ uct.SourceOwner = (*conn)(nil)

// DropSource implements uct.SourceOwner. The sender finds out when it is progressed.
func (c *conn) DropSource(error) {
	b := c.to
	b.mu.Lock()
	was := c.broken
	c.broken = true
	b.forget(c)
	b.mu.Unlock()
	if !was {
		c.source.Gone()
		c.from.signal()
	}
}

// forget removes a connection. The caller holds mu.
func (b *box) forget(c *conn) {
	b.conns = slices.DeleteFunc(b.conns, func(o *conn) bool { return o == c })
}

// signal announces news to the owner of the box, and wakes it.
func (b *box) signal() {
	b.mu.Lock()
	b.news = true
	b.wake(b.armed)
	b.mu.Unlock()
}

// wake rings the bell if the owner is armed for the event. The caller holds mu.
func (b *box) wake(armed bool) {
	if armed && !b.closed {
		b.armed, b.messages = false, false
		b.bell.Ring()
	}
}

// hasRoom reports whether a message can be put into the box, or never will be. If neither, it
// notes that sender waits for room, unless sender is nil.
func (b *box) hasRoom(sender *box) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.count < places {
		return true
	}
	if sender != nil && !slices.Contains(b.waiting, sender) {
		b.waiting = append(b.waiting, sender)
	}
	return false
}
