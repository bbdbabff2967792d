//go:build linux

package ucptest

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// testForeignParameters checks that every call refuses parameters of other kinds of operations
// before it has any effect, however short the message is.
func testForeignParameters(t *testing.T, tr transport) {
	for _, size := range []int{8, 100_000} {
		r := newRig(t, tr)
		a, b := r.oneSidedPair()
		ep := a.connect(b)
		r.warm(ep, b)
		w := r.unpack(ep, b.expose(make([]byte, size), 0))
		mem := a.expose(make([]byte, size), 0)
		buf, word := mem.Bytes(), make([]byte, 8)
		var o outcome
		given := map[string]ucp.RequestParams{
			"Buffer":       {Buffer: ucp.Bytes(buf)},
			"OnSend":       {OnSend: o.onSend},
			"OnTagRecv":    {OnTagRecv: o.onRecv},
			"both":         {OnSend: o.onSend, OnTagRecv: o.onRecv},
			"TagInfo":      {TagInfo: new(ucp.TagRecvInfo)},
			"MemoryType":   {MemoryType: ucs.MemoryHost},
			"Memory":       {Memory: mem},
			"ReplyBuffer":  {ReplyBuffer: word},
			"CloseFlags":   {CloseFlags: ucp.CloseForce},
			"bad close":    {CloseFlags: 1 << 5},
			"StreamFlags":  {StreamFlags: ucp.StreamRecvWaitAll},
			"bad stream":   {StreamFlags: 1 << 7},
			"OnStreamRecv": {OnStreamRecv: func(*ucp.Request, error, int, any) {}},
			"fast":         {Flags: ucp.OpFastComplete},
			"multi":        {Flags: ucp.OpMultiSend},
			"unknown":      {Flags: 1 << 3},
			"contrary":     {Flags: ucp.OpNoImmediate | ucp.OpForceImmediate},
		}
		sends := []string{"OnSend", "MemoryType", "Memory", "fast", "multi"}
		for _, c := range []struct {
			name  string
			takes []string
			start func(p *ucp.RequestParams) (*ucp.Request, error)
		}{
			{"send", sends, func(p *ucp.RequestParams) (*ucp.Request, error) { return ep.TagSend(1, buf, p) }},
			{"synchronous send", sends, func(p *ucp.RequestParams) (*ucp.Request, error) { return ep.TagSendSync(1, buf, p) }},
			{"receive", []string{"OnTagRecv", "TagInfo", "MemoryType", "multi"}, func(p *ucp.RequestParams) (*ucp.Request, error) {
				return b.TagRecv(2, ucp.FullMask, buf, p)
			}},
			{"put", sends, func(p *ucp.RequestParams) (*ucp.Request, error) { return ep.Put(buf, w.addr, w.key, p) }},
			{"get", []string{"OnSend", "MemoryType", "Memory", "multi"}, func(p *ucp.RequestParams) (*ucp.Request, error) {
				return ep.Get(buf, w.addr, w.key, p)
			}},
			{"atomic", []string{"OnSend", "MemoryType", "ReplyBuffer", "multi"}, func(p *ucp.RequestParams) (*ucp.Request, error) {
				return ep.Atomic(ucp.AtomicAdd, word64(1), (w.addr+7)&^7, w.key, p)
			}},
			{"flush", []string{"OnSend"}, ep.Flush},
			{"worker flush", []string{"OnSend"}, a.Flush},
			{"close", []string{"OnSend", "CloseFlags"}, ep.CloseAsync},
		} {
			for name, p := range given {
				if slices.Contains(c.takes, name) {
					continue
				}
				if req, err := c.start(&p); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
					t.Errorf("%s of %d bytes with %s: %v, %v", c.name, size, name, req, err)
				}
			}
			for _, name := range c.takes {
				if c.name == "receive" {
					r.must(ep.TagSend(2, buf[:8], nil))
				}
				if c.name == "close" { // can be closed only once
					break
				}
				p := given[name]
				req, err := c.start(&p)
				if c.name == "send" || c.name == "synchronous send" {
					r.must(b.TagRecv(1, ucp.FullMask, make([]byte, size), nil))
				}
				r.must(req, err)
			}
		}
		r.settle()
		if _, ok := b.TagPeek(0, 0); ok {
			t.Error("a refused send has arrived")
		}
		if o.calls == 0 {
			t.Error("of the operations that take a callback none has called it")
		}
	}
}

// testForeignToMessage checks that a message that was taken can still be received after a receive
// with wrong parameters was refused.
func testForeignToMessage(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	req := r.started(ep.TagSend(1, message(1), &ucp.RequestParams{Flags: ucp.OpNoImmediate}))
	r.arrived(b, 1)
	m, _ := b.TagTake(1, ucp.FullMask)
	buf := make([]byte, 16)
	for _, p := range []ucp.RequestParams{
		{OnSend: new(outcome).onSend}, {Buffer: ucp.Bytes(buf)}, {ReplyBuffer: buf}, {Flags: 1}, {CloseFlags: ucp.CloseForce},
	} {
		if req, err := m.Recv(buf, &p); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%+v: %v, %v", p, req, err)
		}
	}
	r.must(m.Recv(buf, nil))
	r.must(req, nil)
}
