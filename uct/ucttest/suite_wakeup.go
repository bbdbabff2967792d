package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// wakeTimeout bounds the wait for a wakeup that must come, in milliseconds.
const wakeTimeout = 10000

// testWakeup checks the contract of Arm: after Arm has returned nil, every event makes the
// descriptor readable. An event before Arm makes Arm return ucs.ErrBusy, or makes the
// descriptor readable. No event is lost.
func testWakeup(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	a, b := st.a, st.b
	if a.Iface.Attr().Events&uct.EventFD == 0 {
		t.Skip("no event descriptor")
	}
	fd := b.Worker.EventFD()
	for round := range 20 {
		Settle(a, b)
		// Arm an idle worker, then send a message.
		Until(t, "the worker to be armed", func() bool { return b.Worker.Arm() == nil }, a, b)
		if readable(t, b, 0) {
			Settle(a, b) // one stale event is permitted
			Until(t, "the worker to be armed", func() bool { return b.Worker.Arm() == nil }, a, b)
		}
		Accept(t, st.send, a)
		f.flush(t, st.ep, a)
		if !readable(t, b, wakeTimeout) {
			t.Fatalf("round %d: armed, then a message arrived, and the descriptor did not become readable", round)
		}
		st.wait()

		// Send a message, then arm.
		Settle(a, b)
		Until(t, "the worker to be armed", func() bool { return b.Worker.Arm() == nil }, a, b)
		Accept(t, st.send, a)
		f.flush(t, st.ep, a)
		if err := b.Worker.Arm(); err == nil {
			if !readable(t, b, wakeTimeout) {
				t.Fatalf("round %d: armed after a message arrived, and the descriptor did not become readable", round)
			}
		} else {
			WantStatus(t, "arming after a message came", err, ucs.ErrBusy)
		}
		st.wait()

		// A worker that waits only for the descriptor receives all messages.
		const burst = 10
		for k := 0; k < burst && accepted(st.send()); k++ {
		}
		f.flush(t, st.ep, a)
		for tries := 0; uint64(len(st.got)) < st.next; tries++ {
			if tries > 1000 {
				t.Fatalf("round %d: woken 1000 times, %d of %d messages", round, len(st.got), st.next)
			}
			if b.Worker.Progress() > 0 || b.Worker.Arm() != nil {
				continue
			}
			if uint64(len(st.got)) < st.next && !readable(t, b, wakeTimeout) {
				t.Fatalf("round %d: asleep with %d of %d messages", round, len(st.got), st.next)
			}
		}
		st.wait()
	}
	if b.Worker.EventFD() != fd {
		t.Error("the worker's descriptor changes")
	}
}

// testWakeupFor checks that an event that was not armed for is not lost: progress handles it,
// and it wakes the worker again once the worker is armed for it.
func testWakeupFor(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	a, b := st.a, st.b
	if a.Iface.Attr().Events&uct.EventFD == 0 {
		t.Skip("no event descriptor")
	}
	silent := 0
	for round := range 20 {
		Settle(a, b)
		Until(t, "the worker to be armed for sends", func() bool { return b.Worker.ArmFor(uct.EventSendComp) == nil }, a, b)
		Accept(t, st.send, a)
		f.flush(t, st.ep, a)
		if !readable(t, b, 0) {
			silent++
		}
		err := b.Worker.Arm()
		if err == nil && !readable(t, b, wakeTimeout) {
			t.Fatalf("round %d: armed for all after a message arrived, and the descriptor did not become readable", round)
		}
		if err != nil {
			WantStatus(t, "arming after a message came", err, ucs.ErrBusy)
		}
		st.wait()
	}
	if f.SelectiveWakeup && silent == 0 { // devices may report events of an earlier Arm
		t.Error("armed for sends, each message made the descriptor readable")
	}
}

// testWakeupSender lets the sender sleep on a full endpoint with pending requests, and checks
// that the sender is woken when the peer receives messages.
func testWakeupSender(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	a, b := st.a, st.b
	if a.Iface.Attr().Events&uct.EventFD == 0 {
		t.Skip("no event descriptor")
	}
	for round := range 5 {
		st.whenFull(func() { st.pendMany(5) })
		for tries := 0; uint64(len(st.got)) < st.next; tries++ {
			if tries > 1000 {
				t.Fatalf("round %d: woken 1000 times, %d of %d messages", round, len(st.got), st.next)
			}
			Until(t, "the sender to be armed", func() bool {
				return a.Worker.Progress() == 0 && a.Worker.Arm() == nil
			})
			before := len(st.got)
			Settle(b)
			if !st.woken() {
				t.Fatalf("round %d: asleep with %d of %d messages, of which %d arrived in the meantime",
					round, len(st.got), st.next, len(st.got)-before)
			}
		}
		st.wait()
	}
}

// woken waits until the sender's descriptor is readable, or until all messages have arrived and
// there is no reason to wake the sender. It progresses the peer in between: a device may
// deliver messages in flight after the peer was found idle, and need new receive buffers.
func (st *stream) woken() bool {
	st.t.Helper()
	const slice = 10
	for range wakeTimeout / slice {
		if uint64(len(st.got)) >= st.next || readable(st.t, st.a, slice) {
			return true
		}
		Settle(st.b)
	}
	return false
}

// flush waits until all sent messages have left, and progresses only the sender.
func (f *Fixture) flush(t *testing.T, ep uct.Endpoint, h *Host) {
	t.Helper()
	if f.Silent {
		Settle(h)
		return
	}
	c := NewCompletion(1)
	err := Accept(t, func() error { return ep.Flush(uct.FlushLocal, &c.Completion) }, h)
	c.Finish(t, err, h)
}
