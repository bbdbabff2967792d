package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// sourceUser counts how often it is told of an end.
type sourceUser struct{ gone int }

func (u *sourceUser) SourceGone() { u.gone++ }

// testSources checks that messages of an endpoint come from one source, that the
// end of that is told, and that a receiver can drop it. Transports that cannot
// tell peers apart name no sources. Where endpoints are connected in pairs the source is one
// of them: it ends with that, and the other side may have to ask to find out.
func testSources(t *testing.T, f *Fixture) {
	const dropped = ^uint64(0)
	a, b := f.Pair(t)
	k := &KindsOf(a.Iface.Attr())[0]
	var last *uct.Source
	total := 0
	b.Handle(t, 5, func(src *uct.Source, data []byte, _ *uct.AMDesc) error {
		last = src
		total++
		if sequence(data) == dropped {
			return ucs.ErrInvalidParam
		}
		return nil
	})
	from := func(ep uct.Endpoint, n uint64) *uct.Source {
		t.Helper()
		before := total
		s := &Sender{T: t, From: a, Endpoint: ep, ID: 5}
		Accept(t, func() error { return s.Number(k, n) }, a, b)
		Until(t, "the message", func() bool { return total > before }, a, b)
		return last
	}
	first, back := a.ConnectPair(t, b)
	src := from(first, 0)
	if src == nil {
		t.Skip("the transport does not know where messages come from")
	}
	user := new(sourceUser)
	src.User = user
	if again := from(first, 1); again != src {
		t.Error("two messages of one endpoint come from different sources")
	}
	second := a.Connect(t, b)
	other := new(sourceUser)
	if s := from(second, 2); s == src {
		t.Error("messages of two endpoints come from the same source")
	} else {
		s.User = other
	}
	first.Close()
	if back != nil {
		back.Close()
	} else if f.Silent {
		src.Drop(ucs.ErrCanceled)
	}
	Until(t, "the end of the first endpoint to be told", func() bool { return user.gone > 0 }, a, b)
	if other.gone != 0 {
		t.Error("the end of one endpoint is told for another")
	}
	failed := func(ep uct.Endpoint) func() bool {
		return func() bool {
			if back != nil || f.Silent {
				ask(t, a, ep)
			}
			return a.Failed(ep) != nil
		}
	}
	from(second, dropped)
	Until(t, "the end of a refused source to be told", func() bool { return other.gone > 0 }, a, b)
	Until(t, "the failure of its endpoint", failed(second), a, b)

	third := a.Connect(t, b)
	user2 := new(sourceUser)
	src = from(third, 3)
	src.User = user2
	src.Drop(ucs.ErrCanceled)
	Until(t, "the failure of a dropped endpoint", failed(third), a, b)
	if user.gone != 1 || other.gone != 1 || user2.gone != 1 {
		t.Errorf("the ends were told %d, %d and %d times, want once each", user.gone, other.gone, user2.gone)
	}
}

// testSharedSources: a connection on which an endpoint of the receiver sends says so, as
// long as it does, and no other one.
func testSharedSources(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	k := &KindsOf(a.Iface.Attr())[0]
	var src *uct.Source
	back, got := 0, 0
	b.Handle(t, 5, func(s *uct.Source, _ []byte, _ *uct.AMDesc) error { src = s; got++; return nil })
	a.Handle(t, 6, func(*uct.Source, []byte, *uct.AMDesc) error { back++; return nil })
	send := func(from *Host, ep uct.Endpoint, id uct.AMID, n *int) {
		t.Helper()
		s := &Sender{T: t, From: from, Endpoint: ep, ID: id}
		Accept(t, func() error { return s.Number(k, 0) }, a, b)
		Until(t, "the message", func() bool { return *n > 0 }, a, b)
	}
	there, sends := a.ConnectPair(t, b)
	send(a, there, 5, &got)
	if src == nil {
		t.Skip("the transport does not know where messages come from")
	}
	user := new(sourceUser)
	src.User = user
	if sends == nil {
		if src.Shared() {
			t.Error("an endpoint that there is not sends on the connection")
		}
		sends = b.Connect(t, a)
		send(b, sends, 6, &back)
	}
	h, ok := sends.(uct.SourceHolder)
	if holds := ok && h.Source() == src; src.Shared() != holds {
		t.Errorf("shared: %v, and there is an endpoint that sends on the connection: %v", !holds, holds)
	}
	if sends.Close(); user.gone == 0 && src.Shared() {
		t.Error("a closed endpoint sends on the connection")
	}
}

// ask lets an endpoint look for its peer, if it can.
func ask(t *testing.T, h *Host, ep uct.Endpoint) {
	t.Helper()
	if h.Iface.Attr().Flags.Has(uct.IfaceEpCheck) {
		optional[uct.Checker](t, ep).Check(nil)
	}
}
