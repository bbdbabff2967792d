//go:build linux

package ucptest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// window NAME SIDE SIZE [allocate] registers memory for peers, or allocates it.
func (c *conversation) window(a *arguments) {
	name, s, n := a.next(), c.speakerAt(a.next()), a.number(a.next())
	w := &opening{at: s, keys: make(map[*end]*ucp.Rkey)}
	var err error
	if s.raw != nil {
		w.buf = ucttest.Pattern(n, 1) // like a message of tag 1
		err = s.raw.open(w.buf)
	} else if a.flag("allocate") {
		if w.mem, err = allocateMemory(s.ctx, n); err == nil {
			w.buf = w.mem.Bytes()
		}
	} else {
		w.buf = make([]byte, n)
		w.mem, err = registerMemory(s.ctx, w.buf)
	}
	if err != nil {
		c.t.Fatalf("%q: %v", a.line, err)
	}
	c.windows[name] = w
	c.memory = append(c.memory, place{name, w.buf})
}

// unmap NAME unmaps a window.
func (c *conversation) unmap(a *arguments) {
	w := c.windows[a.next()]
	if err := w.mem.Close(); err != nil {
		c.t.Fatalf("%q: %v", a.line, err)
	}
	w.mem = nil
}

// target parses WINDOW or WINDOW+OFFSET and returns its address and key.
func (c *conversation) target(ep *end, text string, a *arguments) (*opening, uint64, *ucp.Rkey) {
	c.t.Helper()
	name, off, _ := strings.Cut(text, "+")
	w := c.windows[name]
	if w == nil {
		c.t.Fatalf("%q: no such window", text)
	}
	addr := addressOf(w.buf)
	if off != "" {
		addr += uint64(a.number(off))
	}
	if w.keys[ep] == nil {
		packed, err := w.mem.PackRkey()
		if err == nil {
			w.keys[ep], err = ep.UnpackRkey(packed)
		}
		if err != nil {
			c.t.Fatalf("%q: %v", text, err)
		}
	}
	return w, addr, w.keys[ep]
}

// put NAME ENDPOINT SIZE WINDOW[+OFFSET] [now] [generic|iov=N]
func (c *conversation) put(a *arguments) {
	name, ep, n := a.next(), c.endNamed(a.next()), a.number(a.next())
	_, addr, key := c.target(ep, a.next(), a)
	o := c.talkAt(name, ep.at)
	p := sendParams(c.ending(o, nil))
	c.opFlags(a, p)
	b := ucttest.Fill(c.buffer(name, n, a, p), 7)
	req, err := ep.Put(argument(b, p), addr, key, p)
	c.begin(o, req, err, "")
}

// get NAME ENDPOINT SIZE WINDOW[+OFFSET] [iov=N]
func (c *conversation) get(a *arguments) {
	name, ep, n := a.next(), c.endNamed(a.next()), a.number(a.next())
	w, addr, key := c.target(ep, a.next(), a)
	o := c.talkAt(name, ep.at)
	var b []byte
	got := func(ucp.TagRecvInfo) string {
		off := int(addr - addressOf(w.buf))
		if bytes.Equal(b, w.buf[off:off+n]) {
			return ", as it is there"
		}
		return ", not as it is there"
	}
	p := sendParams(c.ending(o, got))
	c.opFlags(a, p)
	b = c.buffer(name, n, a, p)
	req, err := ep.Get(argument(b, p), addr, key, p)
	what := ""
	if req == nil && err == nil {
		what = got(ucp.TagRecvInfo{})
	}
	c.begin(o, req, err, what)
}

// atomic NAME ENDPOINT OP SIZE WINDOW[+OFFSET] OPERAND [fetch] [swap=NEW] [now]
func (c *conversation) atomic(a *arguments) {
	name, ep, op, size := a.next(), c.endNamed(a.next()), a.next(), a.number(a.next())
	_, addr, key := c.target(ep, a.next(), a)
	x := uint64(a.number(a.next()))
	o := c.talkAt(name, ep.at)
	var reply []byte
	got := func(ucp.TagRecvInfo) string {
		if reply == nil {
			return ""
		}
		return fmt.Sprintf(", it was %#x", wordOf(reply))
	}
	if a.flag("fetch") {
		reply = make([]byte, size)
	}
	if s := a.setting("swap", ""); s != "" {
		reply = binary.NativeEndian.AppendUint64(nil, uint64(a.number(s)))[:size]
	}
	p := sendParams(c.ending(o, got))
	c.opFlags(a, p)
	req, err := startAtomic(ep.Endpoint, atomicOps[op], x, size, reply, addr, key, p)
	what := ""
	if req == nil && err == nil {
		what = got(ucp.TagRecvInfo{})
	}
	c.begin(o, req, err, what)
}

func wordOf(b []byte) uint64 {
	if len(b) == 4 {
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

// show WINDOW[+OFFSET] SIZE prints a word of memory.
func (c *conversation) show(a *arguments) {
	name, off, _ := strings.Cut(a.next(), "+")
	w := c.windows[name]
	at := 0
	if off != "" {
		at = a.number(off)
	}
	c.say(fmt.Sprintf("%s: %#x", name, wordOf(w.buf[at:at+a.number(a.next())])))
}

// compare WINDOW[+OFFSET] NAME compares memory with the buffer of an operation.
func (c *conversation) compare(a *arguments) {
	where, what := a.next(), a.next()
	name, off, _ := strings.Cut(where, "+")
	w := c.windows[name]
	at := 0
	if off != "" {
		at = a.number(off)
	}
	for _, p := range c.memory {
		if p.name == what {
			verb := "differs from"
			if bytes.Equal(p.buf, w.buf[at:at+len(p.buf)]) {
				verb = "holds"
			}
			c.say(fmt.Sprintf("%s %s %s, %d bytes", where, verb, what, len(p.buf)))
			return
		}
	}
	c.t.Fatalf("%q: there is no %q", a.line, what)
}
