//go:build linux

package flow

import (
	"testing"
	"time"
)

// TestHalt checks that an endpoint that is halted for three minutes takes few messages, that its
// peer does not declare it dead, and that all messages arrive at once when it resumes.
func TestHalt(t *testing.T) {
	n, a, b, e := pair(t)
	n.push(a, e, 300, 8)
	n.run()
	f := b.accepted[0]
	was := len(b.of(f).got)
	f.Halt()
	for a.send(e, 8) {
	}
	sent := n.sent
	n.pass(3 * time.Minute)
	got := len(b.of(f).got) - was
	if a.of(e).failed != nil || e.Idle() {
		t.Fatalf("failed: %v", a.of(e).failed)
	}
	if got == 0 || got > 40 {
		t.Errorf("%d messages were taken meanwhile", got)
	}
	if n.sent-sent > 2000 {
		t.Errorf("%d packets in three minutes", n.sent-sent)
	}
	now := n.now
	f.Resume()
	b.it.Dispatch()
	n.settle()
	n.same(a, e)
	if n.now != now {
		t.Error("it took some time")
	}
	n.push(a, e, 100, 8)
	n.run()
	n.same(a, e)
}

// TestHaltedSends checks that a halted endpoint can send, and handles acknowledgements.
func TestHaltedSends(t *testing.T) {
	n, a, b, e := pair(t)
	f := b.open(a)
	f.Halt()
	a.send(e, 8)
	n.push(b, f, 100, 8)
	for !f.Idle() {
		n.settle()
		n.tick()
	}
	n.same(b, f)
	if len(b.of(f).got) != 0 {
		t.Error("a message was taken")
	}
	f.Resume()
	f.Resume()
	n.run()
	n.same(a, e)
}
