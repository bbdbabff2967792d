//go:build linux

package ud

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestSendQueue checks that requests are counted, even where numbers wrap around, and that
// impossible completions are ignored.
func TestSendQueue(t *testing.T) {
	q := sendQueue{posted: 1<<32 - 9, done: 1<<32 - 9, signaled: 1<<32 - 9}
	q.open(16, 64)
	if q.reserve != 2 || q.moderation != 4 {
		t.Fatalf("%+v", q)
	}
	signaled := 0
	for n := range 16 {
		if got := q.room(); got != 16-n {
			t.Fatalf("room for %d after %d requests", got, n)
		}
		f := q.flags(false)
		if f != 0 {
			signaled++
		}
		if seq := q.post(f); q.over(seq) || seq != uint32(n)-8 {
			t.Fatalf("request %d is %d, over: %v", n, int32(seq), q.over(seq))
		}
	}
	if q.room() != 0 || signaled != 3 || !q.waits() {
		t.Fatalf("%d with completions; %+v", signaled, q)
	}
	if q.flags(true) != verbs.SendSignaled {
		t.Error("somebody who waits is told nothing")
	}
	was := q
	for _, seq := range []uint32{was.done, was.done - 1, was.posted + 1, was.done + 1<<31} {
		if q.complete(seq); q != was {
			t.Errorf("completion %d from %d to %d is taken: %+v", seq, was.done, was.posted, q)
			q = was
		}
	}
	q.complete(2)
	if q.room() != 11 || !q.over(2) || q.over(3) || !q.over(1<<32-1) {
		t.Errorf("%+v", q)
	}
	if q.drop(); q.room() != 16 || q.waits() {
		t.Errorf("%+v", q)
	}
}
