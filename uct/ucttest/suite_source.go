package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// sourceUser counts the calls of SourceGone.
type sourceUser struct{ gone int }

func (u *sourceUser) SourceGone() { u.gone++ }

// testSources checks that messages of an endpoint come from one source, that the end of the
// source is reported, and that a receiver can drop the source. It is skipped for transports
// that cannot tell peers apart. If endpoints are connected in pairs, the source is the
// receiver's endpoint and ends with it; the sender may detect that only by an endpoint check.
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
		t.Skip("the transport does not report the source of messages")
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
	Until(t, "the notification of the first endpoint's end", func() bool { return user.gone > 0 }, a, b)
	if other.gone != 0 {
		t.Error("the end of one endpoint was notified for another")
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
	Until(t, "the notification of a refused source's end", func() bool { return other.gone > 0 }, a, b)
	Until(t, "the failure of its endpoint", failed(second), a, b)

	third := a.Connect(t, b)
	user2 := new(sourceUser)
	src = from(third, 3)
	src.User = user2
	src.Drop(ucs.ErrCanceled)
	Until(t, "the failure of a dropped endpoint", failed(third), a, b)
	if user.gone != 1 || other.gone != 1 || user2.gone != 1 {
		t.Errorf("the ends were notified %d, %d and %d times, want once each", user.gone, other.gone, user2.gone)
	}
}

// testSharedSources checks that Source.Shared is true exactly while an endpoint of the receiver
// sends on the connection.
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
		t.Skip("the transport does not report the source of messages")
	}
	user := new(sourceUser)
	src.User = user
	if sends == nil {
		if src.Shared() {
			t.Error("Source.Shared is true, but no endpoint sends on the connection")
		}
		sends = b.Connect(t, a)
		send(b, sends, 6, &back)
	}
	h, ok := sends.(uct.NetworkEndpoint)
	if holds := ok && h.Source() == src; src.Shared() != holds {
		t.Errorf("shared: %v, an endpoint sends on the connection: %v", !holds, holds)
	}
	if sends.Close(); user.gone == 0 && src.Shared() {
		t.Error("a closed endpoint sends on the connection")
	}
}

// ask lets an endpoint check its peer, if the transport supports that.
func ask(t *testing.T, h *Host, ep uct.Endpoint) {
	t.Helper()
	if h.Iface.Attr().Flags.Has(uct.IfaceEpCheck) {
		ep.Check(nil)
	}
}
