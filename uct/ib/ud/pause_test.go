//go:build linux

package ud_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestPause checks that a paused source delivers nothing after the message whose handler paused it.
// The peer keeps its messages, does not declare this side dead although its timeout passes, and all
// messages arrive in order after the source is resumed. Another source is not affected.
func TestPause(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	c := f.Open(t)
	ep, other := a.Connect(t, b), c.Connect(t, b)
	var src *uct.Source
	var got []uint64
	pauseAt := 10
	b.Handle(t, 1, func(s *uct.Source, data []byte, _ *uct.AMDesc) error {
		src = s
		if got = append(got, binary.LittleEndian.Uint64(data)); len(got) == pauseAt {
			s.Owner.(uct.Connection).PauseSource()
		}
		return nil
	})
	fromOther := b.Collect(t, 2)
	sent := uint64(0)
	send := func() bool {
		if ep.AMShort(1, sent, nil, 0, nil) == nil {
			sent++
			return true
		}
		return false
	}
	for ; sent < 300; send() {
		ucttest.Progress(a, b)
		if len(got) >= pauseAt {
			break
		}
	}
	for send() {
	}
	start := ud.Counters(b.Iface).Halted
	for range 3 {
		was := len(got)
		if was != pauseAt {
			t.Fatalf("%d messages, paused at %d", was, pauseAt)
		}
		// Let the peer's timeout pass.
		for rounds := 0; ud.Counters(a.Iface).Timeouts < 100 && rounds < 200; rounds++ {
			ucttest.Accept(t, func() error { return other.AMShort(2, 1, nil, 0, nil) }, c, b, a)
			fromOther.Wait(t, 1, c, b, a)
			fromOther.Take()
			ucttest.Settle(a, b)
			send()
		}
		if len(got) != was {
			t.Fatalf("%d messages came while it was paused", len(got)-was)
		}
		pauseAt += 20
		src.Owner.(uct.Connection).ResumeSource()
		ucttest.Until(t, "more", func() bool { send(); return len(got) >= pauseAt }, a, b)
	}
	if ud.Counters(b.Iface).Halted == start {
		t.Error("nothing was refused")
	}
	pauseAt = -1
	src.Owner.(uct.Connection).ResumeSource()
	ucttest.Until(t, "all", func() bool { return len(got) == int(sent) }, a, b)
	for k, n := range got {
		if n != uint64(k) {
			t.Fatalf("message %d in place %d", n, k)
		}
	}
	refused := ud.Counters(b.Iface).Halted
	for range 50 {
		ucttest.Accept(t, func() error { return ep.AMShort(1, sent, nil, 0, nil) }, a, b)
		sent++
	}
	ucttest.Until(t, "all", func() bool { return len(got) == int(sent) }, a, b)
	if n := ud.Counters(b.Iface).Halted; n != refused {
		t.Errorf("%d messages were refused after it went on", n-refused)
	}
	if len(a.Failures)+len(b.Failures)+len(c.Failures) != 0 {
		t.Errorf("%+v %+v %+v", a.Failures, b.Failures, c.Failures)
	}
}

// TestPausedAndDropped checks that the late messages of a dropped connection are discarded.
func TestPausedAndDropped(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	var src *uct.Source
	got := 0
	b.Handle(t, 1, func(s *uct.Source, _ []byte, _ *uct.AMDesc) error {
		src = s
		got++
		s.Owner.(uct.Connection).PauseSource()
		return nil
	})
	for k := range uint64(5) {
		ucttest.Accept(t, func() error { return ep.AMShort(1, k, nil, 0, nil) }, a, b)
	}
	ucttest.Until(t, "a message", func() bool { return got == 1 }, a, b)
	src.Owner.(uct.Connection).ResumeSource()
	src.Drop(ucs.ErrCanceled)
	ucttest.Settle(a, b)
	if got != 1 {
		t.Errorf("%d messages", got)
	}
}

// TestPausedAndGone checks that acknowledged messages of a paused connection are delivered before
// the failure of its peer is reported, even if a handler pauses it again.
func TestPausedAndGone(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, "UD_ASYNC", "y")
	f.Component = net.Still()
	h := f.Open(t)
	p := newScriptedPeer(t, net.Devices()[1], h)
	ep, id := p.answered()
	var src *uct.Source
	var got []byte
	h.Handle(t, 1, func(s *uct.Source, data []byte, _ *uct.AMDesc) error {
		if h.Failed(ep) != nil {
			t.Error("told before the message")
		}
		src = s
		got = append(got, data[0])
		s.Owner.(uct.Connection).PauseSource()
		return nil
	})
	p.send(packed(wire.AMHeader(id, 1, 2, 1), 'a'))
	ucttest.Settle(h)
	gone := rigtest.Watch(src)
	src.Owner.(uct.Connection).ResumeSource()
	ucttest.Settle(h)
	ud.Look(h.Iface) // records the calls of Progress so far
	for k := range wire.PSN(3) {
		p.sendWith(packed(wire.AMHeader(id, 1, 3+k, 1), 'b'+byte(k)))
	}
	ud.Look(h.Iface)
	src.Owner.(uct.Connection).PauseSource()
	if c := ud.Counters(h.Iface); c.Delivered != 4 || len(got) != 1 {
		t.Fatalf("%q, %+v", got, c)
	}
	p.sendWith(packed(wire.NewHeader(id, wire.FlagRefuse, 6, 1)))
	ucttest.Settle(h)
	if string(got) != "abcd" || h.Failed(ep) == nil || gone.N != 1 || !errors.Is(gone.Why, ucs.ErrConnectionReset) || ud.LateBytes(h.Iface) != 0 {
		t.Errorf("%q, failure %v, told %d times, %d bytes wait", got, h.Failed(ep), gone.N, ud.LateBytes(h.Iface))
	}
}

// TestPutOffBytes checks that the late messages of all connections together are bounded. At the
// limit the background work takes no more messages. The peers keep them, and send them when there
// is room.
func TestPutOffBytes(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, "UD_ASYNC", "y", "UD_TIMEOUT", "60ms")
	f.Component = net.Still()
	h := f.Open(t)
	p := newScriptedPeer(t, net.Devices()[1], h)
	got := h.Collect(t, 5)
	const conns = 6
	var ids [conns]uint32
	for k := range ids {
		ids[k] = p.connect(uint32(k), uint32(k))
	}
	ucttest.Settle(h)
	defer ud.MostLate(h.Iface, 10000)()
	ud.Look(h.Iface) // records the calls of Progress so far
	var next [conns]wire.PSN
	say := func() {
		for k := range ids {
			p.sendWith(packed(wire.AMHeader(ids[k], 5, next[k]+2, 1), make([]byte, 1000)...))
		}
		was := ud.Counters(h.Iface).Delivered
		ud.Look(h.Iface)
		for n := ud.Counters(h.Iface).Delivered - was; n > 0; n-- {
			next[(n-1)%conns]++ // the first connections come first
		}
	}
	for range 20 {
		say()
	}
	c := ud.Counters(h.Iface)
	if c.Delivered < 9 || c.Delivered > 16 || c.Halted < 80 || got.Len() != 0 {
		t.Errorf("%d messages taken, %d left", c.Delivered, c.Halted)
	}
	taken := int(c.Delivered)
	ucttest.Settle(h)
	if got.Len() != taken {
		t.Errorf("%d messages of %d", got.Len(), taken)
	}
	if n := ud.LateBytes(h.Iface); n != 0 {
		t.Errorf("%d bytes wait", n)
	}
	p.send(packed(wire.AMHeader(ids[conns-1], 5, next[conns-1]+2, 1), 1))
	got.Wait(t, taken+1, h)
}

// TestPausedBytes checks that at the limit paused connections take no messages, not even one now
// and then, and that other connections do.
func TestPausedBytes(t *testing.T) {
	_, h, p := two(t, "UD_TIMEOUT", "60ms", "UD_ASYNC", "y")
	id, other := p.connect(1, 0), p.connect(2, 1)
	var src *uct.Source
	n := 0
	h.Handle(t, 5, func(s *uct.Source, _ []byte, _ *uct.AMDesc) error {
		n++
		s.Owner.(uct.Connection).PauseSource()
		src = s
		return nil
	})
	got := h.Collect(t, 6)
	restore := ud.MostLate(h.Iface, 1)
	p.send(packed(wire.AMHeader(id, 5, 2, 1), 1))
	ucttest.Settle(h)
	one := func(psn wire.PSN) bool { // reports whether a message is taken soon
		was := ud.Counters(h.Iface).Delivered
		for start := time.Now(); time.Since(start) < 100*time.Millisecond; time.Sleep(time.Millisecond) {
			p.send(packed(wire.AMHeader(id, 5, psn, 1), 1))
			ucttest.Settle(h)
			if ud.Counters(h.Iface).Delivered != was {
				return true
			}
		}
		return false
	}
	if !one(3) || one(4) || n != 1 {
		t.Errorf("%d messages, %d bytes wait", n, ud.LateBytes(h.Iface))
	}
	for range 2 { // also after background work, in which no connection takes any
		ud.Look(h.Iface)
	}
	p.send(packed(wire.AMHeader(other, 6, 2, 1), 1))
	got.Wait(t, 1, h)
	restore()
	src.Owner.(uct.Connection).ResumeSource()
	ucttest.Settle(h)
	if n != 2 || ud.LateBytes(h.Iface) != 0 {
		t.Errorf("%d messages, %d bytes wait", n, ud.LateBytes(h.Iface))
	}
	// Late messages of a dropped connection no longer count.
	if !one(4) || ud.LateBytes(h.Iface) == 0 {
		t.Errorf("%d bytes wait", ud.LateBytes(h.Iface))
	}
	src.Drop(ucs.ErrCanceled)
	ucttest.Settle(h)
	if ud.LateBytes(h.Iface) != 0 {
		t.Errorf("%d bytes wait of a connection that is gone", ud.LateBytes(h.Iface))
	}
}
