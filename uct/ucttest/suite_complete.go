package ucttest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testCompletionOfMany passes one completion to many operations, and checks that its owner is
// notified once, after the last operation.
func testCompletionOfMany(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	attr := a.Iface.Attr()
	kinds := KindsOf(attr)
	got := b.Collect(t, 1)
	const rounds, batch = 10, 30
	s := &Sender{T: t, From: a, Endpoint: a.Connect(t, b), ID: 1}
	for round := range rounds {
		c := NewCompletion(batch)
		s.Completion = c
		done := 0
		for i := range batch {
			k := &kinds[i%len(kinds)]
			msg := numbered(uint64(i), min(max(500, k.Min, attr.AM.MinZcopy), k.Max(attr)))
			if Accept(t, func() error { return s.Send(k, msg) }, a, b) == nil {
				done++
			}
			if c.Fired != 0 {
				t.Fatalf("round %d: completed after %d of %d operations", round, i+1, batch)
			}
		}
		if done == batch {
			continue // nothing was in flight
		}
		// Subtract the operations that were done at once. The last operation notifies the
		// owner.
		for range done {
			c.Done(nil)
		}
		Until(t, "the completion", func() bool { return c.Fired > 0 }, a, b)
		Settle(a, b)
		if c.Fired != 1 || c.Count != 0 || c.Err != nil {
			t.Fatalf("round %d: notified %d times, count %d, error %v", round, c.Fired, c.Count, c.Err)
		}
	}
	got.Wait(t, rounds*batch, a, b)
}

// testFlush flushes idle endpoints and endpoints with operations in flight. Operations that
// were accepted before the flush complete no later than the flush.
func testFlush(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	attr := a.Iface.Attr()
	ep := a.Connect(t, b)
	kinds := KindsOf(attr)
	got := b.Collect(t, 1)
	s := &Sender{T: t, From: a, Endpoint: ep, ID: 1}
	sent := 0
	for _, flags := range []uct.FlushFlags{uct.FlushLocal, uct.FlushRemote} {
		for _, burst := range []int{0, 1, 50} {
			if len(kinds) == 0 {
				burst = 0
			}
			var list []*Completion
			for i := range burst {
				k := &kinds[i%len(kinds)]
				s.Completion = NewCompletion(1)
				msg := numbered(uint64(sent), min(max(2000, k.Min, attr.AM.MinZcopy), k.Max(attr)))
				if Accept(t, func() error { return s.Send(k, msg) }, a, b) == ucs.InProgress {
					list = append(list, s.Completion)
				}
				sent++
			}
			if err := Accept(t, ep.Fence, a, b); err != nil {
				t.Errorf("fence: %v", err)
			}
			c := NewCompletion(1)
			err := Accept(t, func() error { return ep.Flush(flags, &c.Completion) }, a, b)
			c.Finish(t, err, a, b)
			for i, op := range list {
				if op.Fired != 1 || op.Err != nil {
					t.Errorf("flags %d: operation %d of %d notified %d times after the flush, error %v",
						flags, i, len(list), op.Fired, op.Err)
				}
			}
			// Without a completion.
			Accept(t, func() error { return ep.Flush(flags, nil) }, a, b)
		}
	}
	got.Wait(t, sent, a, b)
}

// launch starts operations of all kinds until enough are in flight, and returns their
// completions. The list is empty for a transport that completes each operation inside the call.
func (st *stream) launch() []*Completion {
	st.t.Helper()
	attr := st.a.Iface.Attr()
	kinds := KindsOf(attr)
	s := &Sender{T: st.t, From: st.a, Endpoint: st.ep, ID: streamID + 2}
	delivered := 0
	st.b.Handle(st.t, s.ID, func(*uct.Source, []byte, *uct.AMDesc) error { delivered++; return nil })
	var list []*Completion
	for i := len(kinds) - 1; i >= 0; i-- { // kinds that copy least first
		k := &kinds[i]
		msg := numbered(0, k.Max(attr))
		for n := 0; n < maxFillMessages && n*len(msg) < maxFill && len(list) < 20; n++ {
			s.Completion = NewCompletion(1)
			err := s.Send(k, msg)
			if err == ucs.InProgress {
				list = append(list, s.Completion)
			}
			if !accepted(err) || delivered > 0 { // full, or done inside the send
				break
			}
		}
	}
	return list
}

// wantCanceled checks that operations ended with ucs.ErrCanceled, each once.
func wantCanceled(t *testing.T, list []*Completion, hosts ...*Host) {
	t.Helper()
	Until(t, "operations to be ended", func() bool {
		for _, c := range list {
			if c.Fired == 0 {
				return false
			}
		}
		return true
	}, hosts...)
	Settle(hosts...)
	for i, c := range list {
		if c.Fired != 1 || !errors.Is(c.Err, ucs.ErrCanceled) {
			t.Errorf("operation %d of %d: notified %d times, error %v, want once %v",
				i, len(list), c.Fired, c.Err, ucs.ErrCanceled)
		}
	}
}

// testFlushCancel cancels operations in flight. Afterwards the endpoint accepts only Close.
func testFlushCancel(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	list := st.launch()
	c := NewCompletion(1)
	err := st.ep.Flush(uct.FlushCancel, &c.Completion)
	if !accepted(err) {
		t.Fatalf("canceling: %v", err)
	}
	c.Result(t, err, st.a, st.b)
	wantCanceled(t, list, st.a, st.b)
	wantRefused(t, st, "canceled")
	if n := len(st.a.Failures); n != 0 {
		t.Errorf("canceling was reported as %d failures", n)
	}
}

// wantRefused checks that an endpoint that has ended refuses operations permanently.
func wantRefused(t *testing.T, st *stream, what string) {
	t.Helper()
	for i := range KindsOf(st.a.Iface.Attr()) {
		k := &KindsOf(st.a.Iface.Attr())[i]
		s := *st.s
		s.Completion = NewCompletion(1)
		if err := s.Number(k, 1<<40); accepted(err) || err == ucs.ErrNoResource {
			t.Errorf("%s on a %s endpoint: %v", k.Name, what, err)
		}
	}
	if err := st.ep.Flush(uct.FlushLocal, nil); err == ucs.InProgress || err == ucs.ErrNoResource {
		t.Errorf("flush of a %s endpoint: %v", what, err)
	}
}

// testCheck checks twice that the peer is alive.
func testCheck(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	for range 2 {
		c := NewCompletion(1)
		err := Accept(t, func() error { return ep.Check(&c.Completion) }, a, b)
		c.Finish(t, err, a, b)
		Settle(a, b)
	}
	if n := len(a.Failures); n != 0 {
		t.Errorf("a living peer gave %d failures, the first: %v", n, a.Failures[0].Err)
	}
}
