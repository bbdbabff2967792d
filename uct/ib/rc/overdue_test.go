//go:build linux

package rc_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// endless returns two scripted peers on a device that retries forever.
func endless(t *testing.T) (r *rig, p, other *scriptedPeer) {
	t.Helper()
	r = rigtest.New(t, verbstest.Config{Endless: true}).Slow(1 << 20)
	f := fixture(t, r, "RC_VERBS_TIMEOUT", "1ms")
	h := f.Open(t)
	return r, newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
}

// ask checks an endpoint until it has failed, at most most times. It returns the number of checks.
func ask(h *ucttest.Host, ep uct.Endpoint, most int) (n int, err error) {
	for n < most && err == nil {
		n++
		ep.Check(nil)
		h.Worker.Progress()
		err = h.Failed(ep)
	}
	return n, err
}

// TestNeverGivenUp checks that on a device that retries forever an absent peer is given up after
// three checks, and not before another device would have given it up. Occasional losses fail no
// endpoint.
func TestNeverGivenUp(t *testing.T) {
	r, p, other := endless(t)
	seed := verbstest.Random(1, verbstest.Chances{Drop: 0.5})
	r.SetHook(seed)
	for range 200 {
		if err := p.ep.AMShort(1, 2, nil, 0, nil); err != nil && err != ucs.ErrNoResource {
			t.Fatal(err)
		}
		p.Host.Worker.Progress()
		p.ep.Check(nil)
	}
	r.SetHook(nil)
	ucttest.Settle(p.Host)
	if len(p.Host.Failures) != 0 {
		t.Fatal("a lossy network: ", p.Host.Failures)
	}

	r.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	n, err := ask(p.Host, p.ep, 1_000_000_000)
	if n < 3 || !errors.Is(err, ucs.ErrEndpointTimeout) {
		t.Errorf("a peer that is gone: %v after asking %d times", err, n)
	}
	r.SetHook(nil)
	check(t, other.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(p.Host)
	if err := p.Host.Failed(other.ep); err != nil {
		t.Error("nobody has asked this one: ", err)
	}
}

// TestNoReceivesForLong checks that a peer without receives is not given up, however long it has
// none and however often Check is called.
func TestNoReceivesForLong(t *testing.T) {
	r, p, _ := endless(t)
	r.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{NotReady: true}))
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	start := p.Host.Worker.Now()
	for p.Host.Worker.Now()-start < 1500*time.Millisecond {
		p.Host.Worker.Progress()
		for range 10 {
			p.ep.Check(nil)
		}
	}
	r.SetHook(nil)
	ucttest.Settle(p.Host)
	if got := p.Received(); len(got) != 1 || len(p.Host.Failures) != 0 {
		t.Errorf("%d messages, failures %v", len(got), p.Host.Failures)
	}
}

// TestLongRequest checks that a peer is allowed more time for a large put or get.
func TestLongRequest(t *testing.T) {
	r, p, other := endless(t)
	h, key := p.Host, &uct.Rkey{Value: 0xffffffff00000001}
	r.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
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

// TestLongRequests checks that a large request after an even larger one is allowed its time, too,
// when the first is complete.
func TestLongRequests(t *testing.T) {
	const long, less = 200_001, 200_000
	r, p, _ := endless(t)
	h := p.Host
	r.SetHook(func(m *verbstest.Message) (f verbstest.Fate) {
		f.Drop = m.Length == less
		return f
	})
	put := func(n int) *ucttest.Completion {
		c := ucttest.NewCompletion(1)
		check(t, started(p.ep.(uct.RMA).PutZcopy([]uct.IOV{h.IOV(t, make([]byte, n))}, p.MR.Addr(), p.key(), &c.Completion)))
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

// started returns nil for an operation in progress.
func started(err error) error {
	if err == ucs.InProgress {
		return nil
	}
	return err
}

// TestLooksAgain checks that one Check is enough: the endpoint is then checked again by a timer.
func TestLooksAgain(t *testing.T) {
	r, p, _ := endless(t)
	r.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	check(t, started(p.ep.Check(nil)))
	ucttest.Until(t, "the failure", func() bool { return p.Host.Failed(p.ep) != nil }, p.Host)
}

// TestAcknowledgedUnseen checks that no peer is given up while its acknowledgments wait in the
// completion queue, from which each round takes only a few.
func TestAcknowledgedUnseen(t *testing.T) {
	r := rigtest.New(t, verbstest.Config{Endless: true}).Slow(1 << 20)
	f := fixture(t, r, "RC_VERBS_TIMEOUT", "1ms")
	h := f.Open(t)
	var list []*scriptedPeer
	for range 64 { // four times as many as a round takes
		list = append(list, newScriptedPeer(t, r, h))
	}
	for _, p := range list {
		check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	}
	r.Step(1 << 20)
	for range 3 {
		for _, p := range list {
			p.ep.Check(nil)
		}
		h.Worker.Progress()
		for start := time.Now(); time.Since(start) < 800*time.Millisecond; { // the program is busy
		}
	}
	ucttest.Settle(h)
	if n := len(h.Failures); n != 0 {
		t.Errorf("%d of %d peers were given up: %v", n, len(list), h.Failures[0].Err)
	}
}

// TestFlushBehindGrant checks that a flush completes when all data is acknowledged, even if the
// peer has gone and a grant to it stays in flight forever.
func TestFlushBehindGrant(t *testing.T) {
	r, p, _ := endless(t)
	h := p.Host
	h.Collect(t, 1)
	held := false
	r.SetHook(func(m *verbstest.Message) (f verbstest.Fate) {
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
	ucttest.Until(t, "messages", func() bool { heard += len(p.Received()); return held && heard > 0 }, h)
	check(t, p.Ctx.Close())
	r.SetHook(nil)
	r.Release()
	c := ucttest.NewCompletion(1)
	c.Finish(t, p.ep.Flush(uct.FlushLocal, &c.Completion), h)
}
