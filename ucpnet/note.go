package ucpnet

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/ucp"
)

// What two ends that both are of this package tell each other besides the bytes: notes, as
// active messages on the endpoints of the connection. Each has a header of noteSize bytes,
// its kind and a position in the stream, in little endian, and no data. Positions make it
// irrelevant when a note comes relative to the bytes.

const (
	// MessageID is the id of the active messages that connections need. A worker that the
	// application gives must not use it for anything else.
	MessageID uint16 = 0x7563

	// Greeting is the EndpointParams.ClientID of both ends of a connection: by it they know
	// that the other one is of this package. Its last byte is the version of what is said
	// here.
	Greeting uint64 = 0x75637020_6e657401

	noteSize = 9
)

// noteKind is a set of what a note says.
type noteKind uint8

const (
	noteMark noteKind = 1 << iota // tell me when you have read up to here
	noteRead                      // I have read up to here
	noteEnd                       // no bytes from me beyond here
	noteStop                      // I will not read any more
)

// noteParams are the parameters of the messages.
var noteParams = &ucp.RequestParams{AMFlags: ucp.AMSendReply | ucp.AMSendEager | ucp.AMSendCopyHeader}

// tell sends a note. What is lost is so with the endpoint.
func (c *Conn) tell(ep *ucp.Endpoint, kind noteKind, at uint64) {
	var h [noteSize]byte
	h[0] = byte(kind)
	binary.LittleEndian.PutUint64(h[1:], at)
	if r, err := ep.AMSend(MessageID, h[:], nil, noteParams); err == nil && r != nil {
		c.see(r)
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
			c.tell(ep, noteRead, at)
		}
	}
	if kind&noteRead != 0 {
		c.acked.Store(at)
		if c.starving.Load() {
			c.write.nudge()
		}
	}
	if kind&noteEnd != 0 {
		c.total.Store(at)
		c.ended.Store(true)
		c.read.nudge()
	}
	if kind&noteStop != 0 {
		c.stopped.Store(true)
		c.write.nudge()
	}
	return nil
}
