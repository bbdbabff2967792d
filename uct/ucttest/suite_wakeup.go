package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// wakeTimeout bounds the wait for a wakeup that must come, in milliseconds.
const wakeTimeout = 10000

// testWakeup checks the contract of Arm: once it has returned nil, whatever
// comes makes the descriptor readable; what came before makes it refuse or the
// descriptor readable. Nothing is lost.
func testWakeup(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	a, b := st.a, st.b
	if a.Iface.Attr().Events&uct.EventFD == 0 {
		t.Skip("no event descriptor")
	}
	fd := b.Worker.EventFD()
	for round := range 20 {
		Settle(a, b)
		// Arm with nothing to do, then a message.
		Until(t, "the worker to be armed", func() bool { return b.Worker.Arm() == nil }, a, b)
		if readable(t, b, 0) {
			Settle(a, b) // a stale event is allowed once
			Until(t, "the worker to be armed", func() bool { return b.Worker.Arm() == nil }, a, b)
		}
		Accept(t, st.send, a)
		f.flush(t, st.ep, a)
		if !readable(t, b, wakeTimeout) {
			t.Fatalf("round %d: armed, then a message came, and the descriptor stayed silent", round)
		}
		st.wait()

		// A message, then Arm.
		Settle(a, b)
		Until(t, "the worker to be armed", func() bool { return b.Worker.Arm() == nil }, a, b)
		Accept(t, st.send, a)
		f.flush(t, st.ep, a)
		if err := b.Worker.Arm(); err == nil {
			if !readable(t, b, wakeTimeout) {
				t.Fatalf("round %d: armed after a message came, and the descriptor stayed silent", round)
			}
		} else {
			WantStatus(t, "arming after a message came", err, ucs.ErrBusy)
		}
		st.wait()

		// Waiting by descriptor alone brings everything.
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

// testWakeupFor checks that an event that was left out does not lose anything: it is found by
// progress, and tells again when it is asked for.
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
			t.Fatalf("round %d: armed for all after a message came, and the descriptor stayed silent", round)
		}
		if err != nil {
			WantStatus(t, "arming after a message came", err, ucs.ErrBusy)
		}
		st.wait()
	}
	if _, leaves := b.Iface.(uct.EventArmer); leaves && silent == 0 { // devices may tell of what was asked for before
		t.Error("armed for sends, each message made the descriptor readable")
	}
}

// testWakeupSender lets the sender sleep on a full endpoint with requests
// waiting: when the peer takes what was sent, the sender is woken.
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
				t.Fatalf("round %d: asleep with %d of %d messages, %d of which arrived meanwhile",
					round, len(st.got), st.next, len(st.got)-before)
			}
		}
		st.wait()
	}
}

// woken waits until the sender's descriptor is readable, or there is nothing to wake it for: all
// messages have arrived. Meanwhile the peer goes on: a device may bring what is under way when
// the peer has been found idle, and find no buffers.
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

// flush makes sure that what was sent has left, progressing the sender alone.
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
