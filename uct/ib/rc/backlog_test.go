//go:build linux

package rc_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// reader handles the messages of a scripted peer. It pauses the source after the message until.
type reader struct {
	got   []byte
	src   *uct.Source
	until byte
}

func (x *reader) handle(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	x.src = src
	x.got = append(x.got, data[0])
	if data[0] == x.until {
		src.Owner.(uct.Connection).PauseSource()
	}
	return nil
}

func (x *reader) resume() { x.src.Owner.(uct.Connection).ResumeSource() }

// TestPause checks that a paused source delivers nothing, that a resumed one delivers all deferred
// messages in order, and that a grant is given only when the message that asks for it is delivered.
func TestPause(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r, "RC_FC_WND_SIZE", "4")
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	x := &reader{until: 3}
	h.Handle(t, 1, x.handle)
	want := func(list ...byte) {
		t.Helper()
		ucttest.Settle(h)
		if !slices.Equal(x.got, list) {
			t.Fatalf("got %v, want %v", x.got, list)
		}
	}
	p.tell(1, 1)
	p.tell(1, 2)
	p.tell(1, 3)
	p.tell(0x41, 4) // asks for a grant at once
	p.tell(0x21, 5) // asks for a grant with the next message
	want(1, 2, 3)
	fill(t, p)
	first := p.Received()
	for _, m := range first {
		if m[0]&0x80 != 0 {
			t.Errorf("a grant for what was not read: %x", m)
		}
	}
	p.tell(0xe0) // a grant, so that this side can send
	ucttest.Settle(h)
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	p.tell(0x81, 6)
	ucttest.Settle(h)
	fill(t, p)
	p.Received()
	x.until = 5
	err := h.Worker.Arm()
	if err == ucs.ErrBusy { // the write that confirms the last sends has completed
		ucttest.Settle(h)
		err = h.Worker.Arm()
	}
	if err != nil {
		t.Errorf("a paused worker cannot sleep: %v", err)
	}
	x.resume()
	want2 := x.got
	if len(want2) != 3 {
		t.Error("delivered by the resuming")
	}
	if err := h.Worker.Arm(); err != ucs.ErrBusy {
		t.Errorf("arming with messages to deliver: %v", err)
	}
	want(1, 2, 3, 4, 5)
	if got := p.Received(); len(got) != 1 || string(got[0]) != "\xe0" {
		t.Errorf("heard %x", got)
	}
	p.tell(0xe0)
	ucttest.Settle(h)
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	if got := p.Received(); len(got) != 1 || got[0][0] != 0x81 {
		t.Errorf("heard %x", got)
	}
	x.until = 0
	x.resume()
	x.resume()
	p.tell(1, 7)
	want(1, 2, 3, 4, 5, 6, 7)
}

// TestPausedPeers checks that a paused peer that sends without end loses its connection. Of a
// paused peer that goes, or whose endpoint is closed, all messages that the device has received are
// delivered, before the failure is reported.
func TestPausedPeers(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r, "RC_FC_WND_SIZE", "4", "IB_SEG_SIZE", "256")
	h := f.Open(t)
	x := &reader{until: 1}
	var gone *scriptedPeer
	late := 0
	h.Handle(t, 1, func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		if gone != nil && src.Owner == gone.ep.(uct.SourceOwner) && h.Failed(gone.ep) != nil {
			late++
		}
		return x.handle(src, data, desc)
	})
	flood, closed, good := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
	gone = newScriptedPeer(t, r, h)
	for _, p := range []*scriptedPeer{flood, gone, closed} {
		for range 3 {
			p.tell(1, 1, 2)
		}
	}
	ucttest.Settle(h)
	if len(x.got) != 3 {
		t.Fatalf("%d messages", len(x.got))
	}
	for range 3000 {
		if h.Failed(flood.ep) != nil {
			break
		}
		flood.send(append([]byte{1}, make([]byte, 200)...))
		h.Worker.Progress()
	}
	if err := h.Failed(flood.ep); !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Errorf("sent without end: %v", err)
	}
	closed.ep.Close()
	check(t, gone.Ctx.Close())
	if err := gone.ep.Check(nil); err != ucs.InProgress {
		t.Error(err)
	}
	ucttest.Until(t, "the end of who is gone", func() bool { return h.Failed(gone.ep) != nil }, h)
	good.tell(1, 9)
	ucttest.Settle(h)
	if len(x.got) != 3+2+2+1 || late > 0 || len(h.Failures) != 2 {
		t.Errorf("%d messages, %d behind the end, failures %v", len(x.got), late, h.Failures)
	}
}

// TestResumedPeerBreaks checks a connection that fails after it was resumed, before its deferred
// messages are delivered. The failure delivers them, and the connection is served no more.
func TestResumedPeerBreaks(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r, "RC_VERBS_RX_MAX_POLL", "1") // messages of b keep the endpoint of a in limbo
	h := f.Open(t)
	a, b := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
	x := &reader{until: 1}
	h.Handle(t, 1, x.handle)
	const late, others = 60, 4
	a.tell(1, 1)
	for range late {
		a.tell(1, 2)
	}
	ucttest.Settle(h)
	if len(x.got) != 1 {
		t.Fatalf("%d messages", len(x.got))
	}
	check(t, a.Ctx.Close())
	if err := a.ep.Check(nil); err != ucs.InProgress {
		t.Fatal(err)
	}
	x.until = 0
	x.resume()
	ucttest.Until(t, "the end", func() bool { return h.Failed(a.ep) != nil }, h)
	b.Host = nil
	for range others {
		b.tell(1, 3)
	}
	ucttest.Settle(h)
	if len(x.got) != 1+late+others || len(h.Failures) != 1 {
		t.Errorf("%d messages, failures %v", len(x.got), h.Failures)
	}
}

// TestPausedMulti checks that the deferred bytes of all connections together are bounded. Beyond
// the limit the connection with the largest backlog fails, even if the last message came on it. The
// other connections lose nothing.
func TestPausedMulti(t *testing.T) {
	for _, last := range []bool{false, true} {
		r := newRig(t, verbstest.Port{})
		f := fixture(t, r)
		h := f.Open(t)
		x := &reader{until: 1}
		h.Handle(t, 1, x.handle)
		hog, a, b := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
		for _, p := range []*scriptedPeer{hog, a, b} {
			p.tell(1, 1)
		}
		ucttest.Settle(h)
		const each = 250
		rc.MostPutOff(h.Iface, 16*each)
		say := func(p *scriptedPeer, n int) {
			for range n {
				p.tell(append([]byte{1, 2}, make([]byte, each-48-2)...)...)
			}
			ucttest.Settle(h)
		}
		if !last {
			say(hog, 8)
		}
		say(a, 4)
		say(b, 4)
		if n := rc.PutOff(h.Iface); n%each != 0 || len(h.Failures) != 0 {
			t.Errorf("%d bytes wait, failures %v", n, h.Failures)
		}
		want := 8
		if last {
			say(hog, 9)
		} else {
			say(b, 1)
			want++
		}
		if err := h.Failed(hog.ep); !errors.Is(err, ucs.ErrExceedsLimit) || len(h.Failures) != 1 {
			t.Errorf("failures %v", h.Failures)
		}
		if n := rc.PutOff(h.Iface); n != want*each {
			t.Errorf("%d bytes wait, want %d", n, want*each)
		}
		x.until, x.got = 0, nil
		for _, p := range []*scriptedPeer{a, b} {
			p.ep.(uct.Connection).ResumeSource()
		}
		ucttest.Settle(h)
		if n := rc.PutOff(h.Iface); n != 0 || len(x.got) != want {
			t.Errorf("%d messages of %d, %d bytes wait", len(x.got), want, n)
		}
	}
}
