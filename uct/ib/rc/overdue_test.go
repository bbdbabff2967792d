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

// endless is a puppet on a device that never gives a peer up, and another one.
func endless(t *testing.T) (r *rig, p, other *puppet) {
	t.Helper()
	r = newRigOf(t, verbstest.Config{Endless: true}).slow(1 << 20)
	f := fixture(t, r, "RC_VERBS_TIMEOUT", "1ms")
	h := f.Open(t)
	return r, newPuppet(t, r, h), newPuppet(t, r, h)
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

// started is nil for an operation that goes on.
func started(err error) error {
	if err == ucs.InProgress {
		return nil
	}
	return err
}
