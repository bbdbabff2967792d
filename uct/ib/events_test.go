//go:build linux

package ib

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestConcerned checks that an interface handles the events of its own objects and port, and the
// fatal error of the device. It ignores those of other objects, and those of closed objects, which
// the event does not name.
func TestConcerned(t *testing.T) {
	own, other := new(verbs.CQ), new(verbs.CQ)
	srq, others := new(verbs.SRQ), new(verbs.SRQ)
	i := &Iface{Port: &Port{Num: 2}, RecvCQ: own, SendCQ: new(verbs.CQ), SRQ: srq}
	without := &Iface{Port: &Port{Num: 1}, RecvCQ: other, SendCQ: other}
	for _, c := range []struct {
		e              verbs.AsyncEvent
		with, withThat bool // whether i is concerned, and the other interface
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
