//go:build linux

package ucptest

import (
	"bytes"
	"fmt"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// amFlagNames are the names of the flags of active messages in commands.
var amFlagNames = []struct {
	name string
	flag ucp.AMSendFlags
}{
	{"reply", ucp.AMSendReply}, {"eager", ucp.AMSendEager}, {"offer", ucp.AMSendRndv}, {"copy", ucp.AMSendCopyHeader},
}

// am NAME ENDPOINT ID SIZE [header=N] [reply] [eager] [offer] [copy] [iov=N|from=WINDOW] sends an active message.
func (c *conversation) am(a *arguments) {
	name, ep, id, n := a.next(), c.endNamed(a.next()), a.number(a.next()), a.number(a.next())
	o := c.talkAt(name, ep.at)
	p := sendParams(c.ending(o, nil))
	c.opFlags(a, p)
	for _, f := range amFlagNames {
		if a.flag(f.name) {
			p.AMFlags |= f.flag
		}
	}
	header := ucttest.Pattern(a.number(a.setting("header", "0")), uint64(id)+1)
	var b []byte
	if from := a.setting("from", ""); from != "" {
		b = c.windows[from].buf[:n]
	} else {
		b = c.buffer(name, n, a, p)
	}
	ucttest.Fill(b, uint64(id))
	req, err := ep.AMSend(uint16(id), header, argument(b, p), p)
	c.begin(o, req, err, "")
}

// errRefused is the error with which a handler of a trace refuses a message.
var errRefused = fmt.Errorf("the handler refuses it: %w", ucs.ErrRejected)

// handle SIDE ID drop|refuse|receive=NAME|keep=NAME|answer=NAME [persistent] sets the handler of an
// id: what it does with each message, and the name for that. An answer is an active message with
// the same id and data. A kept message is received or released by its name.
func (c *conversation) handle(a *arguments) {
	s, id := c.speakerAt(a.next()), uint16(a.number(a.next()))
	receive, keep, answer := a.setting("receive", ""), a.setting("keep", ""), a.setting("answer", "")
	refuse := a.flag("refuse")
	p := ucp.AMHandlerParams{ID: id}
	if a.flag("persistent") {
		p.Flags = ucp.AMPersistentData
	}
	p.Handler = func(m *ucp.AMMessage) error {
		c.say(fmt.Sprintf("%s: handler %d: %s", s.name, id, describeActive(m)))
		switch {
		case refuse:
			return errRefused
		case receive != "":
			c.receiveActive(receive, s, m)
		case keep != "":
			m.Keep()
			c.active[keep] = m
		case answer != "":
			o := c.talkAt(answer, s)
			p := sendParams(c.ending(o, nil))
			p.AMFlags = ucp.AMSendEager
			req, err := m.Reply().AMSend(id, nil, bytes.Clone(m.Data()), p)
			c.begin(o, req, err, "")
		}
		return nil
	}
	if !a.flag("drop") && !refuse && receive+keep+answer == "" {
		c.t.Fatalf("%q: what is the handler to do?", a.line)
	}
	if err := s.SetAMHandler(p); err != nil {
		c.t.Fatal(err)
	}
}

// unhandle SIDE ID removes a handler.
func (c *conversation) unhandle(a *arguments) {
	if err := c.speakerAt(a.next()).SetAMHandler(ucp.AMHandlerParams{ID: uint16(a.number(a.next()))}); err != nil {
		c.t.Fatal(err)
	}
}

// describeActive describes a message that a handler gets.
func describeActive(m *ucp.AMMessage) string {
	text := fmt.Sprintf("%d bytes", m.Len())
	switch {
	case m.Offered():
		text += " offered"
	case bytes.Equal(m.Data(), ucttest.Pattern(m.Len(), uint64(m.ID()))):
		text += " as sent"
	default:
		text += " not as sent"
	}
	if n := len(m.Header()); n > 0 {
		text += fmt.Sprintf(", a header of %d", n)
		if !bytes.Equal(m.Header(), ucttest.Pattern(n, uint64(m.ID())+1)) {
			text += " not as sent"
		}
	}
	if m.Reply() != nil {
		text += ", can be answered"
	}
	return text
}

// receiveActive starts to receive the data of a message.
func (c *conversation) receiveActive(name string, s *speaker, m *ucp.AMMessage) {
	b := make([]byte, m.Len())
	id := uint64(m.ID())
	c.memory = append(c.memory, place{name, b})
	o := c.talkAt(name, s)
	got := func(n int) string {
		if n != len(b) || !bytes.Equal(b, ucttest.Pattern(n, id)) {
			return fmt.Sprintf(", %d bytes not as sent", n)
		}
		return fmt.Sprintf(", %d bytes as sent", n)
	}
	n := 0
	p := &ucp.RequestParams{RecvLength: &n}
	p.OnAMRecv = func(_ *ucp.Request, err error, n int, _ any) {
		c.ending(o, func(ucp.TagRecvInfo) string { return got(n) })(err, ucp.TagRecvInfo{})
	}
	req, err := m.Recv(b, p)
	what := ""
	if req == nil && err == nil {
		what = got(n)
	}
	c.begin(o, req, err, what)
}

// receive NAME KEPT receives the data of a message that was kept.
func (c *conversation) receive(a *arguments) {
	name, what := a.next(), a.next()
	m := c.active[what]
	if m == nil {
		c.t.Fatalf("%q: nothing was kept", a.line)
	}
	for _, s := range c.sides {
		if s.name == a.setting("at", "b") {
			c.receiveActive(name, s, m)
		}
	}
}

// release KEPT releases a message that was kept.
func (c *conversation) release(a *arguments) { c.active[a.next()].Release() }

// queue SIDE ID makes a queue for an id; next SIDE ID takes a message out of it.
func (c *conversation) queue(a *arguments) {
	s, id := c.speakerAt(a.next()), uint16(a.number(a.next()))
	q, err := s.NewAMQueue(ucp.AMQueueParams{ID: id, Offers: true})
	if err != nil {
		c.t.Fatal(err)
	}
	c.queues[s.name] = q
}

func (c *conversation) nextActive(a *arguments) {
	s := a.next()
	m, ok := c.queues[s].TryNext()
	if !ok {
		c.say(s + ": the queue is empty")
		return
	}
	c.say(fmt.Sprintf("%s: out of the queue: %s", s, describeActive(m)))
	m.Release()
}
