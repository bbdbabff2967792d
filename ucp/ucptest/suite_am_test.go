//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var amCases = []testCase{
	{"sizes, headers and flags", everySwitch, testAMTransfer},
	{"datatypes at both ends", fewSwitches, testAMDatatypes},
	{"order", fewSwitches, testAMOrder},
	{"messages for any id", anywhere, testAMIDs},
	{"forced completion", anywhere, testAMForced},
	{"immediate completion", anywhere, testAMImmediate},
	{"a datatype that stops packing", anywhere, testAMPackStops},
	{"sends to oneself out of handlers", oneSide, testAMNested},
	{"panics of handlers", anywhere, testAMPanics},
	{"handlers that close the endpoint", anywhere, testAMHandlerCloses},
	{"closing of a worker that has messages", anywhere, testAMWorkerCloses},
}

// amFeatures are the features that tests of active messages need.
const amFeatures = features | ucp.FeatureAM

// activePair is pair with active messages.
func (r *rig) activePair() (a, b *side) {
	r.Helper()
	return r.activePairWith(ucp.WorkerParams{})
}

func (r *rig) activePairWith(wp ucp.WorkerParams) (a, b *side) {
	r.Helper()
	a = r.openWith(ucp.ContextParams{Features: amFeatures}, wp)
	if r.loopback {
		return a, a
	}
	return a, r.openWith(ucp.ContextParams{Features: amFeatures}, wp)
}

// handle sets a handler for an id.
func (s *side) handle(id uint16, fn ucp.AMHandler, flags ...ucp.AMHandlerFlags) {
	s.rig.Helper()
	p := ucp.AMHandlerParams{ID: id, Handler: fn}
	for _, f := range flags {
		p.Flags |= f
	}
	if err := s.SetAMHandler(p); err != nil {
		s.rig.Fatal(err)
	}
}

// amGot is a message that a sink has received.
type amGot struct {
	header, data []byte
	offered      bool
	replies      bool
	err          error
	done         bool
}

// amSink is a handler that receives every message.
type amSink struct {
	*rig
	got []*amGot
}

func (s *amSink) handle(m *ucp.AMMessage) error {
	g := &amGot{header: bytes.Clone(m.Header()), offered: m.Offered(), replies: m.Reply() != nil, data: make([]byte, m.Len())}
	s.got = append(s.got, g)
	if !m.Offered() {
		copy(g.data, m.Data())
		g.done = true
		return nil
	}
	if m.Data() != nil {
		s.Errorf("an offer has %d bytes of data", len(m.Data()))
	}
	req, err := m.Recv(g.data, &ucp.RequestParams{OnAMRecv: func(req *ucp.Request, err error, n int, _ any) {
		if err == nil && n != len(g.data) {
			s.Errorf("%d bytes received, want %d", n, len(g.data))
		}
		g.err, g.done = err, true
		req.Free()
	}})
	if req == nil {
		g.err, g.done = err, true
	}
	return nil
}

// next waits for message n.
func (s *amSink) next(n int) *amGot {
	s.Helper()
	s.until(fmt.Sprintf("message %d", n), func() bool { return len(s.got) > n && s.got[n].done })
	if s.got[n].err != nil {
		s.Fatal(s.got[n].err)
	}
	return s.got[n]
}

// sink sets a sink as the handler of an id.
func (s *side) sink(id uint16) *amSink {
	s.rig.Helper()
	k := &amSink{rig: s.rig}
	s.handle(id, k.handle)
	return k
}

// testAMTransfer sends messages of every size, with headers of every size and all
// flags.
func testAMTransfer(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	sink := b.sink(3)
	most := a.Attr().MaxAMHeader
	if most < 64 {
		t.Fatalf("headers of %d bytes at most", most)
	}
	sent := uint64(0)
	for _, n := range sizes {
		for _, h := range []int{0, 1, 8, 100, most - 1, most} {
			for flags := ucp.AMSendFlags(0); flags < 16; flags++ {
				if h > 8 && flags&^ucp.AMSendReply != 0 && flags != 4 && flags != 10 {
					continue
				}
				// Messages of many packets do not depend on the length of the header.
				if n > 1<<14 && (h != 0 && h != most || n < 1<<20 && flags&^(ucp.AMSendEager|ucp.AMSendRndv) != 0) && !needtest.Full {
					continue
				}
				header, src := ucttest.Pattern(h, uint64(n)), ucttest.Pattern(n, uint64(h))
				k := len(sink.got)
				req, err := ep.AMSend(3, header, src, &ucp.RequestParams{AMFlags: flags})
				if err != nil {
					t.Fatal(err)
				}
				if flags&ucp.AMSendCopyHeader != 0 {
					header = bytes.Clone(header)
					clear(header[:0])
				}
				got := sink.next(k)
				r.must(req, nil)
				sent++
				what := fmt.Sprintf("%d bytes behind a header of %d, flags %#x", n, h, flags)
				if !bytes.Equal(got.header, header) || !bytes.Equal(got.data, src) {
					t.Fatalf("%s: not what was sent", what)
				}
				if want := flags&ucp.AMSendReply != 0; got.replies != want {
					t.Errorf("%s: can be answered %v", what, got.replies)
				}
				switch {
				case flags&ucp.AMSendEager != 0 && got.offered:
					t.Errorf("%s: offered", what)
				case flags&(ucp.AMSendEager|ucp.AMSendRndv) == ucp.AMSendRndv && !got.offered:
					t.Errorf("%s: not offered", what)
				}
			}
		}
	}
	if s := a.Stats(); s.AMSends != sent || s.TagSends != 0 {
		t.Errorf("%d active and %d tagged messages counted, %d were sent", s.AMSends, s.TagSends, sent)
	}
	if s := b.Stats(); s.AMRecvs != sent || s.UnexpectedBytes != 0 {
		t.Errorf("%d messages counted, %d were handled; %d bytes are held", s.AMRecvs, sent, s.UnexpectedBytes)
	}
}

// testAMDatatypes sends from and receives into memory of every datatype.
func testAMDatatypes(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	var into layout
	var dst []byte
	var rreq *ucp.Request
	var rerr error
	handled := false
	b.handle(3, func(m *ucp.AMMessage) error {
		handled = true
		dst = make([]byte, m.Len())
		rreq, rerr = m.Recv(nil, &ucp.RequestParams{Buffer: into.make(dst)})
		return nil
	})
	header := []byte("header")
	for _, n := range sizes {
		for _, from := range layouts {
			for _, into = range layouts {
				for _, flags := range []ucp.AMSendFlags{0, ucp.AMSendEager, ucp.AMSendRndv | ucp.AMSendReply} {
					src := ucttest.Pattern(n, 5)
					handled = false
					req, err := ep.AMSend(3, header, nil, &ucp.RequestParams{Buffer: from.make(src), AMFlags: flags})
					if err != nil {
						t.Fatal(err)
					}
					r.until("the handler", func() bool { return handled })
					r.must(rreq, rerr)
					r.must(req, nil)
					ucttest.SameBytes(t, fmt.Sprintf("%d bytes, %s to %s, flags %#x", n, from.name, into.name, flags), dst, src)
				}
			}
		}
	}
}

// testAMOrder checks that messages of one packet, and offers, are handled in the order in which
// they were sent, and so are messages of several packets.
func testAMOrder(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	sink := b.sink(1)
	const rounds = 40
	for _, long := range []bool{false, true} {
		sink.got = nil
		var reqs []*ucp.Request
		for k := range rounds {
			n, flags := 0, ucp.AMSendReply
			switch {
			case long:
				n, flags = 100_000+k*1000, ucp.AMSendEager
			case k%3 == 0:
				n, flags = 5000, ucp.AMSendRndv
			case k%3 == 1:
				n, flags = 500, 0
			}
			req, err := ep.AMSend(1, []byte{byte(k)}, ucttest.Pattern(n, uint64(k)), &ucp.RequestParams{AMFlags: flags | ucp.AMSendCopyHeader})
			if err != nil {
				t.Fatal(err)
			}
			reqs = append(reqs, req)
		}
		for k := range rounds {
			got := sink.next(k)
			if !bytes.Equal(got.header, []byte{byte(k)}) || !bytes.Equal(got.data, ucttest.Pattern(len(got.data), uint64(k))) {
				t.Fatalf("long %v: message %d is number %v", long, k, got.header)
			}
		}
		for _, req := range reqs {
			r.must(req, nil)
		}
	}
}

// testAMIDs checks that any number can be an id, with its own handler, which can be replaced and
// removed.
func testAMIDs(t *testing.T, tr transport) {
	r := newRig(t, tr)
	r.log.Allow("active message without handler")
	a, b := r.activePair()
	ep := a.connect(b)
	var called []uint16
	ids := []uint16{0, 1, 255, 256, 0x1234, 65534, 65535}
	for _, id := range ids {
		b.handle(id, func(m *ucp.AMMessage) error {
			if m.ID() != id {
				t.Errorf("the handler of %d is called for %d", id, m.ID())
			}
			called = append(called, id)
			return nil
		})
	}
	for _, id := range ids {
		r.must(ep.AMSend(id, nil, nil, nil))
	}
	r.until("messages", func() bool { return len(called) == len(ids) })
	if !slices.Equal(called, ids) {
		t.Errorf("called %v", called)
	}
	replaced := false
	b.handle(255, func(*ucp.AMMessage) error { replaced = true; return nil })
	r.must(ep.AMSend(255, nil, nil, nil))
	r.until("the new handler", func() bool { return replaced })
	b.handle(255, nil)
	r.must(ep.AMSend(255, nil, nil, nil))
	r.until("the drop", func() bool { return b.Stats().AMNoHandler == 1 })
	if err := b.SetAMHandler(ucp.AMHandlerParams{ID: 1, Flags: 1 << 2}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("unknown flags: %v", err)
	}
}

// testAMForced checks that OpForceImmediate completes an operation in its call or does nothing.
func testAMForced(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	sink := b.sink(2)
	force := &ucp.RequestParams{Flags: ucp.OpForceImmediate}
	for _, n := range []int{0, 8, 1000, 1 << 20} {
		for _, flags := range []ucp.AMSendFlags{0, ucp.AMSendReply, ucp.AMSendRndv} {
			k := len(sink.got)
			force.AMFlags = flags
			req, err := ep.AMSend(2, []byte("h"), make([]byte, n), force)
			switch {
			case req != nil:
				t.Fatalf("%d bytes: a request", n)
			case err == nil:
				if sink.next(k); flags == ucp.AMSendRndv || n == 1<<20 {
					t.Errorf("%d bytes, flags %#x: done in the call", n, flags)
				}
			case !errors.Is(err, ucs.ErrNoResource):
				t.Errorf("%d bytes: %v", n, err)
			default:
				if r.settle(); len(sink.got) > k {
					t.Errorf("%d bytes: not sent, and received", n)
				}
			}
		}
	}
	var kept *ucp.AMMessage
	b.handle(2, func(m *ucp.AMMessage) error {
		if req, err := m.Recv(make([]byte, m.Len()), &ucp.RequestParams{Flags: ucp.OpForceImmediate}); req != nil || !errors.Is(err, ucs.ErrNoResource) {
			t.Errorf("receiving an offer in the call: %v, %v", req, err)
		}
		m.Keep()
		kept = m
		return nil
	})
	req := r.started(ep.AMSend(2, nil, make([]byte, 100), &ucp.RequestParams{AMFlags: ucp.AMSendRndv}))
	r.until("the offer", func() bool { return kept != nil })
	r.must(kept.Recv(make([]byte, 100), nil)) // the message was not consumed
	r.must(req, nil)
}

// testAMImmediate checks requests and lengths of receives that complete in their call.
func testAMImmediate(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	handled := 0
	b.handle(2, func(m *ucp.AMMessage) error {
		handled++
		buf := make([]byte, 10)
		n := -1
		if m.Header()[0] == 0 {
			if req, err := m.Recv(buf, &ucp.RequestParams{RecvLength: &n}); req != nil || err != nil || n != 7 {
				t.Errorf("receive: %v, %v, %d bytes", req, err, n)
			}
			return nil
		}
		calls := 0
		req, err := m.Recv(buf, &ucp.RequestParams{RecvLength: &n, Flags: ucp.OpNoImmediate, UserData: "mine",
			OnAMRecv: func(_ *ucp.Request, err error, n int, data any) {
				if calls++; err != nil || n != 7 || data != "mine" {
					t.Errorf("callback: %v, %d, %v", err, n, data)
				}
			}})
		if err != nil || req == nil || !req.Done() || req.Err() != nil || calls != 1 || n != -1 {
			t.Errorf("receive: %v, %v, %d calls, %d bytes told", req, err, calls, n)
		}
		req.Free()
		return nil
	})
	for k := range byte(2) {
		r.must(ep.AMSend(2, []byte{k}, make([]byte, 7), &ucp.RequestParams{AMFlags: ucp.AMSendEager | ucp.AMSendCopyHeader}))
		r.until("the handler", func() bool { return handled == int(k)+1 })
	}
	for _, p := range []*ucp.RequestParams{
		{OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {}}, {TagInfo: new(ucp.TagRecvInfo)}, {RecvLength: new(int)},
		{OnAMRecv: func(*ucp.Request, error, int, any) {}}, {ReplyBuffer: make([]byte, 8)}, {AMFlags: 1 << 4},
	} {
		if req, err := ep.AMSend(2, nil, nil, p); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%+v: %v, %v", p, req, err)
		}
	}
	for _, p := range []*ucp.RequestParams{{AMFlags: ucp.AMSendReply}, {RecvLength: new(int)}, {OnAMRecv: func(*ucp.Request, error, int, any) {}}} {
		if req, err := ep.TagSend(2, nil, p); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("a tagged send with %+v: %v, %v", p, req, err)
		}
	}
}

// testAMPackStops checks that a datatype that stops packing fails the send.
func testAMPackStops(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	b.handle(2, func(*ucp.AMMessage) error { return nil })
	for _, n := range []int{100, 300_000} {
		d := newSlices()
		d.packStop, d.step = n/2, n/4
		p := &ucp.RequestParams{Buffer: ucp.Generic(d.dt, make([]byte, n), n), AMFlags: ucp.AMSendEager}
		if err := r.finish(ep.AMSend(2, []byte("header"), nil, p)); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if d.started != d.finished {
			t.Errorf("%d bytes: %d states started, %d finished", n, d.started, d.finished)
		}
	}
}

// testAMNested: a handler sends to its own worker again and again. The calls do not nest without
// bound, and Progress returns.
func testAMNested(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, _ := r.activePair()
	ep := a.connect(a)
	var handled, depth, deepest int
	stop := false
	a.handle(1, func(m *ucp.AMMessage) error {
		handled++
		depth++
		deepest = max(deepest, depth)
		if !stop {
			if _, err := ep.AMSend(1, m.Header(), make([]byte, handled%3*5000), &ucp.RequestParams{AMFlags: ucp.AMSendCopyHeader}); err != nil {
				t.Errorf("a send of a handler: %v", err)
				stop = true
			}
		}
		depth--
		return nil
	})
	r.must(ep.AMSend(1, []byte("to myself"), nil, nil))
	for rounds := 0; handled < 1000; rounds++ {
		if r.progress(); rounds > 100_000 {
			t.Fatalf("only %d messages in %d rounds", handled, rounds)
		}
	}
	if deepest > 16 {
		t.Errorf("%d handlers inside each other", deepest)
	}
	stop = true
	r.settle()
}

// testAMPanics checks that the worker still works after a handler has panicked, and that a message
// that the handler had not received counts as refused.
func testAMPanics(t *testing.T, tr transport) {
	r := newRig(t, tr)
	r.log.Allow("another panic in a callback")
	a, b := r.activePair()
	ep := a.connect(b)
	p := &panics{rig: r, t: t}
	for _, flags := range []ucp.AMSendFlags{0, ucp.AMSendReply, ucp.AMSendRndv, ucp.AMSendEager} {
		handled := 0
		b.handle(2, func(*ucp.AMMessage) error { handled++; panic(errPanic) })
		var req *ucp.Request
		p.call(func() {
			var err error
			req, err = ep.AMSend(2, []byte("h"), make([]byte, 50_000), &ucp.RequestParams{AMFlags: flags})
			if err != nil {
				t.Fatal(err)
			}
		})
		p.until("the handler", func() bool { return handled == 1 })
		if req != nil {
			p.until("the end of the send", req.Done)
			req.Free()
		}
	}
	if p.raised == 0 {
		t.Error("nothing was raised")
	}
	sink := b.sink(2)
	r.must(ep.AMSend(2, nil, make([]byte, 50_000), nil))
	sink.next(0)
}

// testAMHandlerCloses checks that a handler may close the endpoint over which its message has
// arrived.
func testAMHandlerCloses(t *testing.T, tr transport) {
	for _, flags := range []ucp.AMSendFlags{ucp.AMSendReply, ucp.AMSendEager, ucp.AMSendRndv} {
		r := newRig(t, tr)
		a, b := r.activePair()
		ep := a.connect(b)
		if !r.loopback {
			b.connect(a) // the application's endpoint, which the messages name
		}
		handled := 0
		b.handle(2, func(m *ucp.AMMessage) error {
			if handled++; m.Reply() == nil {
				t.Error("cannot be answered")
				return nil
			}
			req, err := m.Reply().CloseAsync(nil)
			if err != nil && handled == 1 {
				t.Errorf("closing: %v", err)
			}
			req.Free()
			return nil
		})
		for range 3 {
			req, err := ep.AMSend(2, []byte("h"), make([]byte, 100_000), &ucp.RequestParams{AMFlags: flags | ucp.AMSendReply | ucp.AMSendCopyHeader})
			if err != nil && !errors.Is(err, ucs.ErrNotConnected) && !errors.Is(err, ucs.ErrCanceled) {
				t.Fatal(err)
			}
			req.Free()
		}
		r.until("a handler", func() bool { return handled > 0 })
		r.settle()
	}
}

// testAMWorkerCloses checks that messages that are kept, queued or incomplete do not prevent the
// close of a worker, and can be released after it.
func testAMWorkerCloses(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	var kept []*ucp.AMMessage
	keep := func(m *ucp.AMMessage) error {
		m.Keep()
		kept = append(kept, m)
		return nil
	}
	b.handle(1, keep)
	b.handle(2, keep, ucp.AMPersistentData)
	q, err := b.NewAMQueue(ucp.AMQueueParams{ID: 3, Offers: true})
	if err != nil {
		t.Fatal(err)
	}
	for id := uint16(1); id <= 3; id++ {
		for _, n := range []int{0, 8, 5000, 100_000} {
			for _, flags := range []ucp.AMSendFlags{ucp.AMSendEager, ucp.AMSendRndv} {
				req, err := ep.AMSend(id, []byte("h"), make([]byte, n), &ucp.RequestParams{AMFlags: flags | ucp.AMSendCopyHeader})
				if err != nil {
					t.Fatal(err)
				}
				req.Free()
			}
		}
	}
	r.until("messages", func() bool { return len(kept) == 16 && b.Stats().Unexpected >= 8 })
	b.close()
	for i, m := range kept {
		func() {
			defer func() { // the data of messages in the transport's memory is gone
				if v := recover(); v != nil && i < 8 {
					t.Errorf("releasing message %d: %v", i, v)
				}
			}()
			m.Release()
		}()
	}
	if m, ok := q.TryNext(); ok {
		t.Errorf("a queue of a closed worker has a message %d", m.ID())
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	r.sides = slices.DeleteFunc(r.sides, func(s *side) bool { return s == b })
}
