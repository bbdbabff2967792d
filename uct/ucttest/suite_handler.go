package ucttest

import (
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// testAMHandlers sets, replaces and removes handlers, also from inside a handler, and sends to
// ids without a handler.
func testAMHandlers(t *testing.T, f *Fixture) {
	logtest.Watch(t).Expect("without handler")
	a, b := f.Pair(t)
	k := &KindsOf(a.Iface.Attr())[0]
	s := &Sender{T: t, From: a, Endpoint: a.Connect(t, b)}
	first, second, last := new(Collector), new(Collector), b.Collect(t, 5)
	// send sends a message and waits for a second message, which arrives after the first is
	// handled.
	send := func(id uct.AMID, n uint64) {
		t.Helper()
		before := last.Len()
		s.ID = id
		Accept(t, func() error { return s.Number(k, n) }, a, b)
		s.ID = 5
		Accept(t, func() error { return s.Number(k, n) }, a, b)
		Until(t, "the message", func() bool { return last.Len() > before }, a, b)
	}
	send(3, 0)
	b.Handle(t, 3, first.Handler(3))
	send(3, 1)
	b.Handle(t, 3, second.Handler(3))
	send(3, 2)
	// A handler that replaces itself still handles the current message.
	b.Handle(t, 3, func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		b.Handle(t, 3, second.Handler(3))
		return first.Handler(3)(src, data, desc)
	})
	send(3, 3)
	send(3, 4)
	b.Handle(t, 3, nil)
	send(3, 5)
	send(4, 6)
	WantStatus(t, "a handler beyond the last id", b.Iface.SetAMHandler(uct.MaxAMIDs, first.Handler(3)), ucs.ErrInvalidParam)
	// An error also returns the data to the transport, and may end the connection.
	b.Handle(t, 3, func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		first.Handler(3)(src, data, desc)
		return ucs.ErrCanceled
	})
	s.ID = 3
	Accept(t, func() error { return s.Number(k, 7) }, a, b)
	Until(t, "the message", func() bool { return first.Len() == 3 }, a, b)
	for _, c := range []struct {
		name string
		got  []Message
		want []uint64
	}{
		{"first handler", first.Messages, []uint64{1, 3, 7}},
		{"second handler", second.Messages, []uint64{2, 4}},
		{"last handler", last.Messages, []uint64{0, 1, 2, 3, 4, 5, 6}},
	} {
		var got []uint64
		for _, m := range c.got {
			got = append(got, sequence(m.Data))
		}
		if len(got) != len(c.want) {
			t.Errorf("%s got messages %v, want %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s got messages %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// testAMFromHandlers runs several long ping-pong exchanges (rallies) in which handlers answer.
// The stack must not grow with their length.
func testAMFromHandlers(t *testing.T, f *Fixture) {
	const rallies, length = 4, 3000
	a, b := f.Pair(t)
	ab, ba := a.ConnectPair(t, b)
	if ba == nil {
		ba = b.Connect(t, a)
	}
	k := &KindsOf(a.Iface.Attr())[0]
	frames, deepest, done := make([]uintptr, 2000), 0, 0
	var last [rallies]uint64
	// player returns a handler that answers each message with the next number, over endpoint
	// to, with message id id.
	player := func(from *Host, to uct.Endpoint, id uct.AMID) uct.AMHandler {
		s := &Sender{T: t, From: from, Endpoint: to, ID: id}
		var answer func(n uint64)
		answer = func(n uint64) {
			switch err := s.Number(k, n); {
			case accepted(err):
			case err == ucs.ErrNoResource:
				queue(t, to, func() error { return s.Number(k, n) }, func() { answer(n) })
			default:
				t.Errorf("answering: %v", err)
			}
		}
		return func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			deepest = max(deepest, runtime.Callers(0, frames))
			n := sequence(data)
			rally, step := n%rallies, n/rallies
			if step < last[rally] {
				t.Errorf("rally %d: step %d after %d", rally, step, last[rally])
			}
			last[rally] = step
			if step == length {
				done++
				return nil
			}
			answer(n + rallies)
			return nil
		}
	}
	b.Handle(t, 6, player(b, ba, 7))
	a.Handle(t, 7, player(a, ab, 6))
	s := &Sender{T: t, From: a, Endpoint: ab, ID: 6}
	for i := range uint64(rallies) {
		Accept(t, func() error { return s.Number(k, i) }, a, b)
	}
	Until(t, "the rallies to end", func() bool { return done == rallies }, a, b)
	if deepest > 400 {
		t.Errorf("handlers ran on a stack of %d frames or more", deepest)
	}
}

// queue adds a pending request that runs send when dispatched. If PendingAdd returns
// ucs.ErrBusy, queue calls busy instead.
func queue(t testing.TB, ep uct.Endpoint, send func() error, busy func()) {
	t.Helper()
	p := NewPending(func() error {
		if err := send(); !accepted(err) {
			return err
		}
		return nil
	})
	switch err := ep.PendingAdd(&p.Pending); err {
	case nil:
	case ucs.ErrBusy:
		busy()
	default:
		t.Fatalf("adding a pending request: %v", err)
	}
}

// accepted reports whether err means that the operation was accepted.
func accepted(err error) bool { return err == nil || err == ucs.InProgress }
