//go:build linux

package ib

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestConcerned: an interface hears of its own objects, its port, and the end of the device;
// not of others', nor of those that are closed, which the event does not name.
func TestConcerned(t *testing.T) {
	own, other := new(verbs.CQ), new(verbs.CQ)
	srq, others := new(verbs.SRQ), new(verbs.SRQ)
	i := &Iface{Port: &Port{Num: 2}, RecvCQ: own, SendCQ: new(verbs.CQ), SRQ: srq}
	without := &Iface{Port: &Port{Num: 1}, RecvCQ: other, SendCQ: other}
	for _, c := range []struct {
		e              verbs.AsyncEvent
		with, withThat bool // i, and the other
	}{
		{verbs.AsyncEvent{Type: verbs.EventPortErr, Port: 2}, true, false},
		{verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1}, false, true},
		{verbs.AsyncEvent{Type: verbs.EventDeviceFatal}, true, true},
		{verbs.AsyncEvent{Type: verbs.EventCQErr, CQ: own}, true, false},
		{verbs.AsyncEvent{Type: verbs.EventCQErr, CQ: i.SendCQ}, true, false},
		{verbs.AsyncEvent{Type: verbs.EventCQErr, CQ: other}, false, true},
		{verbs.AsyncEvent{Type: verbs.EventSRQErr, SRQ: srq}, true, false},
		{verbs.AsyncEvent{Type: verbs.EventSRQErr, SRQ: others}, false, false},
		{verbs.AsyncEvent{Type: verbs.EventSRQErr}, false, false},
		{verbs.AsyncEvent{Type: verbs.EventQPFatal}, false, false},
		{verbs.AsyncEvent{Type: verbs.EventCQErr}, false, false},
		{verbs.AsyncEvent{Type: verbs.EventQPLastWQEReached}, false, false},
	} {
		if a, b := i.concerned(c.e), without.concerned(c.e); a != c.with || b != c.withThat {
			t.Errorf("%+v: %v, and the other %v", c.e, a, b)
		}
	}
}

// heard is what an interface was told.
type heard struct{ list []verbs.AsyncEvent }

func (h *heard) AsyncEvent(e verbs.AsyncEvent) { h.list = append(h.list, e) }

// TestMailbox: who is told nothing for long is told of what happened last, in its order, and no more
// is kept for it.
func TestMailbox(t *testing.T) {
	s := newSearching(t)
	i, w := s.seeker()
	i.Port = &Port{Domain: s.domain}
	h := new(heard)
	i.user = h
	n := &s.domain.news
	n.mu.Lock()
	for k := range maxLetters + 10 {
		i.letters.put(verbs.AsyncEvent{Type: verbs.EventPortActive, Port: k})
	}
	if got := len(i.letters.letters); got != maxLetters {
		t.Errorf("%d letters are kept", got)
	}
	n.mu.Unlock()
	s.until(w, "the news", func() bool { return len(h.list) > 0 })
	if len(h.list) != maxLetters || h.list[0].Port != 10 || h.list[maxLetters-1].Port != maxLetters+9 {
		t.Errorf("told of %d events, from %d on", len(h.list), h.list[0].Port)
	}
	if i.ReadNews() != 0 {
		t.Error("told twice")
	}
}
