package ucpnet

import (
	"sync/atomic"
	"testing"
)

// TestWindow checks that a writer stops when two stretches are unread and continues when the first
// has been read, whatever the sizes of the writes.
func TestWindow(t *testing.T) {
	for _, size := range []int{1, 100, packetSize, copySize} {
		var w window
		var a readerMarks
		var read atomic.Uint64
		unread := 0 // in units of cost
		for round := range 10 {
			last := read.Load()
			for w.open(last) {
				w.at += uint64(size)
				unread += cost(size)
				if w.mark(cost(size)) {
					if _, due := a.put(w.at, &read); due {
						t.Fatal("a mark was reached before it was set")
					}
				}
				if unread > marks*stretch+2*cost(size) {
					t.Fatalf("size %d, round %d: what costs %d may be unread", size, round, unread)
				}
			}
			for read.Load() < w.at {
				n := read.Add(uint64(size))
				unread -= cost(size)
				if at, due := a.reached(n); due {
					if at != n {
						t.Fatalf("at %d the mark %d is reached", n, at)
					}
					last = at
				}
			}
			if unread != 0 || !w.open(last) {
				t.Fatalf("size %d, round %d: closed when all is read", size, round)
			}
		}
	}
}

// TestTooManyMarks checks that marks beyond the limit are discarded, so that a peer cannot occupy
// memory with them.
func TestTooManyMarks(t *testing.T) {
	var a readerMarks
	var read atomic.Uint64
	for k := range uint64(100) {
		if _, due := a.put(100-k, &read); due {
			t.Fatal("a mark was reached that is ahead")
		}
	}
	if n := a.n.Load(); n != marks {
		t.Errorf("%d marks are kept", n)
	}
}

// TestAnswering checks that one answer is sent at a time, and that the next one has the latest
// value.
func TestAnswering(t *testing.T) {
	var a answering
	if !a.begin(1) || a.begin(7) || a.begin(5) {
		t.Fatal("not one at a time")
	}
	if at, more := a.done(); at != 7 || !more {
		t.Errorf("the next one is %d, %t", at, more)
	}
	if a.begin(8) {
		t.Error("a second one beside the next")
	}
	if at, more := a.done(); at != 8 || !more {
		t.Errorf("the next one is %d, %t", at, more)
	}
	if _, more := a.done(); more {
		t.Error("one more than there were")
	}
	if !a.begin(9) {
		t.Error("none at the end")
	}
}
