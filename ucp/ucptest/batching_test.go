//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// A burst of small messages over tcp takes one system call: the first send on an idle connection is
// written at once, later sends of the same round are collected. A collected message is not
// complete.

// batch returns a tcp connection with one message written and a second one collected.
func batch(t *testing.T) (r *rig, a, b *side, ep *ucp.Endpoint, second *ucp.Request) {
	t.Helper()
	r = newRig(t, byName(t, "tcp"))
	a, b = r.pair()
	ep = a.connect(b)
	r.warm(ep, b)
	a.Progress() // a new round
	r.inTheCall(ep.TagSend(1, message(1), nil))
	second = r.started(ep.TagSend(2, message(2), nil))
	return r, a, b, ep, second
}

// idle progresses a worker for a while.
func (s *side) idle() {
	for range 300 {
		s.Progress()
	}
}

// TestBatchedSendIsNotComplete checks that without another call of the sender the peer gets only
// the first message, and that the second one is not complete.
func TestBatchedSendIsNotComplete(t *testing.T) {
	r, _, b, _, second := batch(t)
	b.idle()
	r.sleep(1)
	b.idle()
	if _, ok := b.TagPeek(1, ucp.FullMask); !ok {
		t.Error("the first message was not written at once")
	}
	if _, ok := b.TagPeek(2, ucp.FullMask); ok {
		t.Error("the second message was written: there is nothing to test")
	}
	if second.Done() || second.Err() != ucs.InProgress {
		t.Errorf("the unwritten message is done: %v", second.Err())
	}
}

// TestBatchIsWritten checks which calls write the collected messages.
func TestBatchIsWritten(t *testing.T) {
	for _, tc := range []struct {
		name string
		call func(t *testing.T, r *rig, a *side, ep *ucp.Endpoint, second *ucp.Request)
	}{
		{"progress", func(_ *testing.T, _ *rig, a *side, _ *ucp.Endpoint, _ *ucp.Request) { a.Progress() }},
		{"flush", func(t *testing.T, _ *rig, _ *side, ep *ucp.Endpoint, _ *ucp.Request) {
			if _, err := ep.Flush(nil); err != nil {
				t.Error(err)
			}
		}},
		{"worker flush", func(t *testing.T, _ *rig, a *side, _ *ucp.Endpoint, _ *ucp.Request) {
			if _, err := a.Worker.Flush(nil); err != nil {
				t.Error(err)
			}
		}},
		{"arm", func(t *testing.T, _ *rig, a *side, _ *ucp.Endpoint, second *ucp.Request) {
			if err := a.Arm(); err == nil && !second.Done() {
				t.Error("armed with a completion to be told")
			}
		}},
		{"wait for the worker", func(t *testing.T, _ *rig, a *side, _ *ucp.Endpoint, _ *ucp.Request) {
			if err := a.Wait(ended()); err != nil {
				t.Error(err)
			}
		}},
		{"wait for the request", func(t *testing.T, _ *rig, _ *side, _ *ucp.Endpoint, second *ucp.Request) {
			if err := second.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}},
		{"close", func(t *testing.T, _ *rig, _ *side, ep *ucp.Endpoint, _ *ucp.Request) {
			if _, err := ep.CloseAsync(nil); err != nil {
				t.Error(err)
			}
		}},
		{"a full buffer", func(t *testing.T, _ *rig, _ *side, ep *ucp.Endpoint, _ *ucp.Request) {
			for range 200 {
				if _, err := ep.TagSend(3, make([]byte, 1000), nil); err != nil {
					t.Error(err)
				}
			}
		}},
		{"a large message", func(t *testing.T, _ *rig, _ *side, ep *ucp.Endpoint, _ *ucp.Request) {
			if _, err := ep.TagSend(3, make([]byte, 30_000), nil); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, a, b, ep, second := batch(t)
			tc.call(t, r, a, ep, second)
			// Only the receiver progresses: the bytes must be on their way.
			for range waitRounds {
				if _, ok := b.TagPeek(2, ucp.FullMask); ok {
					break
				}
				b.idle()
				r.sleep(1)
			}
			if _, ok := b.TagPeek(2, ucp.FullMask); !ok {
				t.Fatal("the second message was not written")
			}
			got, _ := b.take(2, ucp.FullMask, 16)
			ucttest.SameBytes(t, "second message", got, message(2))
			if tc.name == "wait for the request" {
				return // its request is freed
			}
			r.must(second, nil)
		})
	}
}

// TestBatchKeepsOrder checks that a burst of mixed sends arrives in order, and that all its
// requests complete.
func TestBatchKeepsOrder(t *testing.T) {
	r, _, b, ep, second := batch(t)
	const n = 300
	var out outcome
	var reqs []*ucp.Request
	for i := range n {
		length := 8
		if i%50 == 49 {
			length = 9000
		}
		req, err := ep.TagSend(3, ucttest.Pattern(length, uint64(i)), &ucp.RequestParams{OnSend: func(req *ucp.Request, err error, _ any) {
			out.calls++
		}})
		if err != nil {
			t.Fatal(err)
		}
		reqs = append(reqs, req)
	}
	inCall := 0
	for _, req := range reqs {
		if req == nil {
			inCall++
		}
	}
	for i := range n {
		r.arrived(b, 3)
		got, _ := b.take(3, ucp.FullMask, 9000)
		ucttest.SameBytes(t, "message", got, ucttest.Pattern(len(got), uint64(i)))
	}
	for _, req := range append(reqs, second) {
		r.must(req, nil)
	}
	if out.calls+inCall != n {
		t.Errorf("%d callbacks ran, %d sends were done in their calls, of %d", out.calls, inCall, n)
	}
}
