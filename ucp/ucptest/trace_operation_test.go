//go:build linux

package ucptest

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// begin records the results of a call that starts an operation.
func (c *conversation) begin(o *talk, req *ucp.Request, err error, what string) {
	switch {
	case err != nil:
		c.say(fmt.Sprintf("%s: %s ends in the call: %s", o.at, o.name, statusText(err)))
	case req == nil:
		c.say(fmt.Sprintf("%s: %s is done in the call%s", o.at, o.name, what))
	default:
		o.req = req
		c.ops = append(c.ops, o)
	}
}

// talkAt adds an operation.
func (c *conversation) talkAt(name string, s *speaker) *talk {
	return &talk{name: name, at: s.name, w: s.Worker}
}

// ending returns a function that records the result of an operation.
func (c *conversation) ending(o *talk, what func(info ucp.TagRecvInfo) string) ending {
	return func(err error, info ucp.TagRecvInfo) {
		o.over = true
		text := ""
		if err == nil && what != nil {
			text = what(info)
		}
		c.say(fmt.Sprintf("%s: %s is over: %s%s", o.at, o.name, statusText(err), text))
	}
}

// protocols records which protocols operations have used since the last call.
func (c *conversation) protocols() {
	for _, o := range c.ops {
		if o.over || o.req.Done() {
			continue
		}
		if p := protocolOf(o.req); p != o.protocol {
			o.protocol = p
			c.say(fmt.Sprintf("%s: %s: %s", o.at, o.name, p))
		}
	}
}

// buffer allocates named memory. A datatype "generic" or "iov=N" makes it the buffer of p; a
// generic one can stop packing at an offset, or fail to unpack.
func (c *conversation) buffer(name string, n int, a *arguments, p *ucp.RequestParams) []byte {
	b := make([]byte, n)
	c.memory = append(c.memory, place{name, b})
	switch parts := a.number(a.setting("iov", "0")); {
	case a.flag("generic"):
		d := newSlices()
		d.step, d.packStop = 0, a.number(a.setting("stop", "0"))
		if a.flag("fails") {
			d.unpackErr = errUnpack
		}
		p.Buffer = ucp.Generic(d.dt, b, n)
	case parts > 0:
		var list [][]byte
		for i := range parts {
			list = append(list, b[n*i/parts:n*(i+1)/parts])
		}
		p.Buffer = ucp.IOV(list...)
	}
	return b
}

// argument returns the buffer argument of a call.
func argument(b []byte, p *ucp.RequestParams) []byte {
	if reflect.ValueOf(p.Buffer).IsZero() {
		return b
	}
	return nil
}

func (c *conversation) tag(a *arguments) ucp.Tag { return ucp.Tag(a.number(a.setting("tag", "1"))) }

func (c *conversation) opFlags(a *arguments, p *ucp.RequestParams) {
	for _, name := range slices.Sorted(maps.Keys(flagNames)) {
		if a.flag(name) {
			addFlag(p, flagNames[name])
		}
	}
}

// send NAME ENDPOINT SIZE [sync] [fast|multi|now] [generic|iov=N|from=WINDOW] [tag=T]
func (c *conversation) send(a *arguments) {
	name, ep, n := a.next(), c.endNamed(a.next()), a.number(a.next())
	o := c.talkAt(name, ep.at)
	p := sendParams(c.ending(o, nil))
	sync, tag := a.flag("sync"), c.tag(a)
	c.opFlags(a, p)
	var b []byte
	if from := a.setting("from", ""); from != "" {
		b = c.windows[from].buf[:n]
	} else {
		b = c.buffer(name, n, a, p)
	}
	ucttest.Fill(b, uint64(tag))
	start := ep.TagSend
	if sync {
		start = ep.TagSendSync
	}
	req, err := start(tag, argument(b, p), p)
	c.begin(o, req, err, "")
}

// recv NAME SIDE SIZE [generic|iov=N] [tag=T] [mask=M] [message=TAKEN]
func (c *conversation) recv(a *arguments) {
	name, s, n := a.next(), c.speakerAt(a.next()), a.number(a.next())
	o := c.talkAt(name, s)
	var b []byte
	got := func(info ucp.TagRecvInfo) string {
		data := "as sent"
		if !bytes.Equal(b[:info.Length], ucttest.Pattern(info.Length, uint64(info.SenderTag))) {
			data = "not as sent"
		}
		return fmt.Sprintf(", tag %#x, %d bytes, %s", uint64(info.SenderTag), info.Length, data)
	}
	var info ucp.TagRecvInfo
	p := recvParams(c.ending(o, got), &info)
	c.opFlags(a, p)
	tag, mask := c.tag(a), ucp.Tag(ucp.FullMask)
	if m := a.setting("mask", ""); m != "" {
		mask = ucp.Tag(a.number(m))
	}
	b = c.buffer(name, n, a, p)
	var req *ucp.Request
	var err error
	if from := a.setting("message", ""); from != "" {
		req, err = c.taken[from].Recv(argument(b, p), p)
	} else {
		req, err = s.TagRecv(tag, mask, argument(b, p), p)
	}
	what := ""
	if req == nil && err == nil {
		what = got(info)
	}
	c.begin(o, req, err, what)
}

// peek SIDE TAG looks for a message.
func (c *conversation) peek(a *arguments) {
	s, tag := c.speakerAt(a.next()), ucp.Tag(a.number(a.next()))
	if info, ok := peekMessage(s.Worker, tag); ok {
		c.say(fmt.Sprintf("%s: a message of tag %#x, %d bytes", s.name, uint64(info.SenderTag), info.Length))
	} else {
		c.say(fmt.Sprintf("%s: no message of tag %#x", s.name, uint64(tag)))
	}
}

// take NAME SIDE TAG takes a message out, to be received by this name.
func (c *conversation) take(a *arguments) {
	name, s, tag := a.next(), c.speakerAt(a.next()), ucp.Tag(a.number(a.next()))
	m, info, ok := takeMessage(s.Worker, tag)
	if !ok {
		c.say(fmt.Sprintf("%s: no message of tag %#x", s.name, uint64(tag)))
		return
	}
	c.taken[name] = m
	c.say(fmt.Sprintf("%s: %s is a message of tag %#x, %d bytes", s.name, name, uint64(info.SenderTag), info.Length))
}

// flush NAME ENDPOINT|SIDE
func (c *conversation) flush(a *arguments) {
	name, what := a.next(), a.next()
	if ep := c.ends[what]; ep != nil {
		o := c.talkAt(name, ep.at)
		req, err := ep.Flush(sendParams(c.ending(o, nil)))
		c.begin(o, req, err, "")
		return
	}
	s := c.speakerAt(what)
	o := c.talkAt(name, s)
	req, err := s.Worker.Flush(sendParams(c.ending(o, nil)))
	c.begin(o, req, err, "")
}

// fence SIDE
func (c *conversation) fence(a *arguments) {
	if err := c.speakerAt(a.next()).Fence(); err != nil {
		c.say("fence: " + statusText(err))
	}
}

// cancel NAME cancels an operation.
func (c *conversation) cancel(a *arguments) {
	name := a.next()
	for _, o := range c.ops {
		if o.name == name {
			o.w.Cancel(o.req)
			return
		}
	}
	c.t.Fatalf("%q: it is not under way", a.line)
}
