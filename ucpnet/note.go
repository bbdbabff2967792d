package ucpnet

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/ucx-go/ucx/ucp"
)

// Notes are control messages between two sides of a connection that both use this package. They
// are active messages on the endpoints of the connection. A note has a header of noteSize bytes
// with its kind and a position in the stream, little endian, and no data. Because a note has a
// position, its order relative to the bytes of the stream does not matter.

const (
	// MessageID is the id of the active messages that connections use. The application must
	// not use it on a worker that it passes as Config.Worker.
	MessageID uint16 = 0x7563

	// Greeting is the EndpointParams.ClientID of both sides of a connection. Each side recognizes
	// by it that the other side uses this package. Its last byte is the version of the notes.
	Greeting uint64 = 0x75637020_6e657401

	noteSize = 9
)

// noteKind is a bit set that says what a note means.
type noteKind uint8

const (
	noteMark noteKind = 1 << iota // requests a noteRead when all bytes up to the position are read
	noteRead                      // all bytes up to the position are read
	noteEnd                       // no bytes follow beyond the position; requests noteRead for all marks
	noteStop                      // the sender does not read any more
)

// noteParams are the parameters of the active messages that carry notes.
var noteParams = &ucp.RequestParams{AMFlags: ucp.AMSendReply | ucp.AMSendEager | ucp.AMSendCopyHeader}

// sendNote sends a note with a kind and a position. A note is lost only if the endpoint fails.
func (c *Conn) sendNote(ep *ucp.Endpoint, kind noteKind, at uint64) {
	if r := c.say(ep, kind, at); r != nil {
		c.waitInBackground(r, nil)
	}
}

// say sends a note like sendNote. It returns the request if the send has not completed yet, else nil.
func (c *Conn) say(ep *ucp.Endpoint, kind noteKind, at uint64) *ucp.Request {
	var h [noteSize]byte
	h[0] = byte(kind)
	binary.LittleEndian.PutUint64(h[1:], at)
	r, _ := ep.AMSend(MessageID, h[:], nil, noteParams)
	return r
}

// answering ensures that the answers to marks are sent one at a time, so that a peer that sends
// marks and does not receive the answers occupies the memory of only one answer. A later answer
// includes the earlier ones.
type answering struct {
	mu   sync.Mutex
	busy bool   // an answer is being sent
	more bool   // another answer must be sent afterwards
	next uint64 // the position of the next answer, if more is set
}

// begin reports whether the caller may send an answer for a position. If not, the goroutine that is
// sending an answer sends this one afterwards.
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

// done ends the sending of an answer, and returns the next one if there is one.
func (a *answering) done() (at uint64, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, more = a.next, a.more
	a.busy, a.more = more, false
	return at, more
}

// haveRead sends the answer that the peer's bytes up to a position were read, or leaves it to the
// goroutine that is sending an answer.
func (c *Conn) haveRead(ep *ucp.Endpoint, at uint64) {
	if c.answer.begin(at) {
		c.answerOn(ep, at)
	}
}

// answerOn sends an answer, and then the answers that have become due meanwhile.
func (c *Conn) answerOn(ep *ucp.Endpoint, at uint64) {
	for more := true; more; at, more = c.answer.done() {
		r := c.say(ep, noteRead, at)
		if r == nil {
			continue
		}
		c.waitInBackground(r, func() {
			if at, more := c.answer.done(); more {
				c.answerOn(ep, at)
			}
		})
		return
	}
}

// answerWait is a wait of Close for the peer's answer to the mark at a position.
type answerWait struct {
	at     uint64
	cancel context.CancelFunc
}

// answered is called when the peer has read up to a position, or with math.MaxUint64 when the
// endpoint has failed. It ends the wait of Close if the position of its question is reached.
func (c *Conn) answered(at uint64) {
	if q := c.asks.Load(); q != nil && at >= q.at && q.at > 0 {
		q.cancel()
	}
}

// onNote is the active message handler that receives notes. It runs inside progress.
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
