//go:build linux

package ucptest

import (
	"bytes"
	"fmt"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// ssend NAME ENDPOINT SIZE [fast|multi|now|callback] [generic|iov=N] [tag=T] sends bytes over the
// stream; the tag selects their pattern as for messages.
func (c *conversation) streamSend(a *arguments) {
	name, ep, n := a.next(), c.endNamed(a.next()), a.number(a.next())
	o := c.talkAt(name, ep.at)
	p := sendParams(c.ending(o, nil))
	c.opFlags(a, p)
	b := c.buffer(name, n, a, p)
	ucttest.Fill(b, uint64(c.tag(a)))
	req, err := ep.StreamSend(argument(b, p), p)
	c.begin(o, req, err, "")
}

// srecv NAME ENDPOINT SIZE [all] [elem=N] [now|callback] [generic|iov=N] [of=TAG+OFFSET] receives
// from the stream. With "of" it reports whether the bytes are those of the pattern.
func (c *conversation) streamRecv(a *arguments) {
	name, ep, size := a.next(), c.endNamed(a.next()), a.number(a.next())
	o := c.talkAt(name, ep.at)
	var b []byte
	of := a.setting("of", "")
	got := func(n int) string {
		return fmt.Sprintf(", %d bytes%s", n, c.asSent(b[:n], of, a))
	}
	p := &ucp.RequestParams{OnStreamRecv: func(_ *ucp.Request, err error, n int, _ any) {
		o.over = true
		text := ""
		if err == nil || n > 0 {
			text = got(n)
		}
		c.say(fmt.Sprintf("%s: %s is over: %s%s", o.at, o.name, statusText(err), text))
	}}
	if a.flag("all") {
		p.StreamFlags = ucp.StreamRecvWaitAll
	}
	c.opFlags(a, p)
	elem := a.number(a.setting("elem", "0"))
	b = c.buffer(name, size, a, p)
	if elem > 0 {
		p.Buffer = ucp.Elements(b, elem)
	}
	n, req, err := ep.StreamRecv(argument(b, p), p)
	what := ""
	if req == nil && err == nil {
		what = got(n)
	}
	c.begin(o, req, err, what)
}

// asSent returns whether bytes are those of TAG+OFFSET, as text.
func (c *conversation) asSent(b []byte, of string, a *arguments) string {
	if of == "" {
		return ""
	}
	var tag, off int
	if _, err := fmt.Sscanf(of, "%d+%d", &tag, &off); err != nil {
		c.t.Fatalf("%q: %v", a.line, err)
	}
	if bytes.Equal(b, ucttest.Pattern(off+len(b), uint64(tag))[off:]) {
		return ", as sent"
	}
	return ", not as sent"
}

// sdata ENDPOINT takes the next bytes with StreamRecvData and releases them.
func (c *conversation) streamData(a *arguments) {
	ep := c.endNamed(a.next())
	d, err := ep.StreamRecvData()
	if err != nil {
		c.say(fmt.Sprintf("%s: no data: %s", ep.at.name, statusText(err)))
		return
	}
	c.say(fmt.Sprintf("%s: %d bytes in the library's memory", ep.at.name, len(d.Bytes())))
	d.Release()
}

// spoll SIDE [ROOM] lists the endpoints with data to read.
func (c *conversation) streamPoll(a *arguments) {
	s := c.speakerAt(a.next())
	list := make([]ucp.StreamReady, 8)
	if len(a.words) > 0 {
		list = list[:a.number(a.next())]
	}
	n, err := s.StreamPoll(list)
	if err != nil {
		c.t.Fatalf("%q: %v", a.line, err)
	}
	text := s.name + ": to read:"
	for _, e := range list[:n] {
		for name, ep := range c.ends {
			if ep.Endpoint == e.Endpoint {
				text += " " + name
			}
		}
	}
	c.say(text)
}
