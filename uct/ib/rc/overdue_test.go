//go:build linux

package rc_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// endless is a scripted peer on a device that never gives a peer up, and another one.
func endless(t *testing.T) (r *rig, p, other *scriptedPeer) {
	t.Helper()
	r = newRigOf(t, verbstest.Config{Endless: true}).slow(1 << 20)
	f := fixture(t, r, "RC_VERBS_TIMEOUT", "1ms")
	h := f.Open(t)
	return r, newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
}

// ask has an endpoint checked until it has failed, at most so often; it returns how often.
func ask(h *ucttest.Host, ep uct.Endpoint, most int) (n int, err error) {
	for n < most && err == nil {
		n++
		ep.(uct.Checker).Check(nil)
		h.Worker.Progress()
		err = h.Failed(ep)
	}
	return n, err
}

// TestNeverGivenUp: a device that never gives a peer up itself leaves that to who asks three
// times, and as long as another device would have tried. What is only lost now and then ends
// nobody.
func TestNeverGivenUp(t *testing.T) {
	r, p, other := endless(t)
	seed := verbstest.Random(1, verbstest.Chances{Drop: 0.5})
	r.net.SetHook(seed)
	for range 200 {
		if err := p.ep.AMShort(1, 2, nil, 0, nil); err != nil && err != ucs.ErrNoResource {
			t.Fatal(err)
		}
		p.host.Worker.Progress()
		p.ep.(uct.Checker).Check(nil)
	}
	r.net.SetHook(nil)
	ucttest.Settle(p.host)
	if len(p.host.Failures) != 0 {
		t.Fatal("a lossy network: ", p.host.Failures)
	}

	r.net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	n, err := ask(p.host, p.ep, 1_000_000_000)
	if n < 3 || !errors.Is(err, ucs.ErrEndpointTimeout) {
		t.Errorf("a peer that is gone: %v after asking %d times", err, n)
	}
	r.net.SetHook(nil)
	check(t, other.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(p.host)
	if err := p.host.Failed(other.ep); err != nil {
		t.Error("nobody has asked this one: ", err)
	}
}

// TestNoReceivesForLong: a peer that has no receives is there, however long, and however close
// the questions are.
func TestNoReceivesForLong(t *testing.T) {
	r, p, _ := endless(t)
	r.net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{NotReady: true}))
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	start := p.host.Worker.Now()
	for p.host.Worker.Now()-start < 1500*time.Millisecond {
		p.host.Worker.Progress()
		for range 10 {
			p.ep.(uct.Checker).Check(nil)
		}
	}
	r.net.SetHook(nil)
	ucttest.Settle(p.host)
	if got := p.heard(); len(got) != 1 || len(p.host.Failures) != 0 {
		t.Errorf("%d messages, failures %v", len(got), p.host.Failures)
	}
}

// TestLongRequest: what is put or got by one request may take long.
func TestLongRequest(t *testing.T) {
	r, p, other := endless(t)
	h, key := p.host, &uct.Rkey{Value: 0xffffffff00000001}
	r.net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	c := ucttest.NewCompletion(1)
	check(t, started(p.ep.(uct.RMA).PutZcopy([]uct.IOV{h.IOV(t, make([]byte, 1<<20))}, 4096, key, &c.Completion)))
	for h.Failed(other.ep) == nil {
		ask(h, p.ep, 1)
		ask(h, other.ep, 1)
	}
	if err := h.Failed(p.ep); err != nil {
		t.Error(err)
	}
}

// TestLongRequests: what is posted behind a longer request may take long, too, when that is over.
func TestLongRequests(t *testing.T) {
	const long, less = 200_001, 200_000
	r, p, _ := endless(t)
	h := p.host
	r.net.SetHook(func(m *verbstest.Message) (f verbstest.Fate) {
		f.Drop = m.Length == less
		return f
	})
	put := func(n int) *ucttest.Completion {
		c := ucttest.NewCompletion(1)
		check(t, started(p.ep.(uct.RMA).PutZcopy([]uct.IOV{h.IOV(t, make([]byte, n))}, p.mr.Addr(), p.key(), &c.Completion)))
		return c
	}
	first := put(long)
	put(8)
	put(less)
	put(8)
	ucttest.Until(t, "the first", func() bool { return first.Count == 0 }, h)
	start := h.Worker.Now()
	for h.Failed(p.ep) == nil {
		ask(h, p.ep, 1)
	}
	if took, granted := h.Worker.Now()-start, less*time.Second/100_000; took < granted {
		t.Errorf("given up after %v, %v are granted", took, granted)
	}
}

// started is nil for an operation that goes on.
func started(err error) error {
	if err == ucs.InProgress {
		return nil
	}
	return err
}

// TestLooksAgain: one question is enough: behind it is looked again and again.
func TestLooksAgain(t *testing.T) {
	r, p, _ := endless(t)
	r.net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	check(t, started(p.ep.(uct.Checker).Check(nil)))
	ucttest.Until(t, "the failure", func() bool { return p.host.Failed(p.ep) != nil }, p.host)
}

// TestAcknowledgedUnseen: peers whose acknowledgements wait in the queue, of which few are taken
// in each round, are not given up.
func TestAcknowledgedUnseen(t *testing.T) {
	r := newRigOf(t, verbstest.Config{Endless: true}).slow(1 << 20)
	f := fixture(t, r, "RC_VERBS_TIMEOUT", "1ms")
	h := f.Open(t)
	var list []*scriptedPeer
	for range 64 { // four times as many as a round takes
		list = append(list, newScriptedPeer(t, r, h))
	}
	for _, p := range list {
		check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	}
	r.net.Step(1 << 20)
	for range 3 {
		for _, p := range list {
			p.ep.(uct.Checker).Check(nil)
		}
		h.Worker.Progress()
		for start := time.Now(); time.Since(start) < 800*time.Millisecond; { // others do something else
		}
	}
	ucttest.Settle(h)
	if n := len(h.Failures); n != 0 {
		t.Errorf("%d of %d peers were given up: %v", n, len(list), h.Failures[0].Err)
	}
}

// TestFlushBehindGrant: when all that was sent is acknowledged, a flush has nothing to wait for,
// though the peer has gone and a grant for it is under way for ever.
func TestFlushBehindGrant(t *testing.T) {
	r, p, _ := endless(t)
	h := p.host
	h.Collect(t, 1)
	held := false
	r.net.SetHook(func(m *verbstest.Message) (f verbstest.Fate) {
		if m.Length == 1 && m.Head[0] == 0xe0 {
			held = true
			f.Hold = verbstest.UntilReleased
		}
		return f
	})
	_, err := p.ep.AMBcopy(1, &ucttest.Packer{Data: []byte("before")}, 0, nil)
	check(t, err)
	p.tell(0x41, 1, 2, 3, 4, 5, 6, 7, 8) // asks for a grant at once
	heard := 0
	ucttest.Until(t, "messages", func() bool { heard += len(p.heard()); return held && heard > 0 }, h)
	check(t, p.ctx.Close())
	r.net.SetHook(nil)
	r.net.Release()
	c := ucttest.NewCompletion(1)
	c.Finish(t, p.ep.Flush(uct.FlushLocal, &c.Completion), h)
}
