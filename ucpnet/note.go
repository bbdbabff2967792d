package ucpnet

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/ucx-go/ucx/ucp"
)

// Notes are what two ends of this package tell each other beside the bytes. They are active
// messages on the endpoints of the connection: a header of noteSize bytes with the kind of
// the note and a position in the stream, little endian, and no data. Because a note has a
// position, its order relative to the bytes does not matter.

const (
	// MessageID is the id of the active messages that connections use. The application must
	// not use it on a worker that it passes as Config.Worker.
	MessageID uint16 = 0x7563

	// Greeting is the EndpointParams.ClientID of both ends of a connection: each end
	// recognizes by it that the other end uses this package. Its last byte is the version
	// of the notes.
	Greeting uint64 = 0x75637020_6e657401

	noteSize = 9
)

// noteKind is a set of what a note says.
type noteKind uint8

const (
	noteMark noteKind = 1 << iota // tell me when you have read up to here
	noteRead                      // I have read up to here
	noteEnd                       // no bytes from me beyond here: answer my marks now
	noteStop                      // I will not read any more
)

// noteParams are the parameters of the messages.
var noteParams = &ucp.RequestParams{AMFlags: ucp.AMSendReply | ucp.AMSendEager | ucp.AMSendCopyHeader}

// tell sends a note. A note is lost only if the endpoint fails.
func (c *Conn) tell(ep *ucp.Endpoint, kind noteKind, at uint64) {
	if r := c.say(ep, kind, at); r != nil {
		c.see(r, nil)
	}
}

// say sends a note, and returns its request if the note has not left yet.
func (c *Conn) say(ep *ucp.Endpoint, kind noteKind, at uint64) *ucp.Request {
	var h [noteSize]byte
	h[0] = byte(kind)
	binary.LittleEndian.PutUint64(h[1:], at)
	r, _ := ep.AMSend(MessageID, h[:], nil, noteParams)
	return r
}

// answering sends the answers to marks one at a time, so that a peer that sets marks and
// does not receive the answers occupies memory for one. A later answer includes the earlier
// ones.
type answering struct {
	mu   sync.Mutex
	busy bool
	more bool
	next uint64 // if there is more
}

// begin reports whether the caller may send an answer. If not, the goroutine that is sending
// one sends this one behind it.
func (a *answering) begin(at uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy {
		a.next, a.more = max(a.next, at), true
		return false
	}
	a.busy = true
	return true
}

// done is told that an answer has gone out, and returns the next one if there is one.
func (a *answering) done() (at uint64, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, more = a.next, a.more
	a.busy, a.more = more, false
	return at, more
}

// haveRead tells the peer that its bytes up to a position were read.
func (c *Conn) haveRead(ep *ucp.Endpoint, at uint64) {
	if c.answer.begin(at) {
		c.answerOn(ep, at)
	}
}

// answerOn sends an answer, and those that have come up meanwhile.
func (c *Conn) answerOn(ep *ucp.Endpoint, at uint64) {
	for more := true; more; at, more = c.answer.done() {
		r := c.say(ep, noteRead, at)
		if r == nil {
			continue
		}
		c.see(r, func() {
			if at, more := c.answer.done(); more {
				c.answerOn(ep, at)
			}
		})
		return
	}
}

// question is a wait of Close until the peer says that it has read up to a position.
type question struct {
	at     uint64
	cancel context.CancelFunc
}

// answered is told of a position, or of the end of the endpoint.
func (c *Conn) answered(at uint64) {
	if q := c.asks.Load(); q != nil && at >= q.at && q.at > 0 {
		q.cancel()
	}
}

// onNote receives a note. It runs inside progress.
func onNote(m *ucp.AMMessage) error {
	ep := m.Reply()
	if ep == nil || len(m.Header()) != noteSize {
		return nil
	}
	c, ok := ep.UserData().(*Conn)
	if !ok {
		return nil
	}
	kind, at := noteKind(m.Header()[0]), binary.LittleEndian.Uint64(m.Header()[1:])
	if kind&noteMark != 0 {
		if at, due := c.marked.put(at, &c.taken); due {
			c.haveRead(ep, at)
		}
	}
	if kind&noteRead != 0 {
		c.acked.Store(at)
		c.answered(at)
		if c.starving.Load() {
			c.write.nudge()
		}
	}
	if kind&noteEnd != 0 {
		c.total.Store(at)
		c.ended.Store(true)
		c.read.nudge()
		if at, due := c.marked.rest(); due {
			c.haveRead(ep, at)
		}
	}
	if kind&noteStop != 0 {
		c.stopped.Store(true)
		c.write.nudge()
	}
	return nil
}
