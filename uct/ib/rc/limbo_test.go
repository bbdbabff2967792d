//go:build linux

package rc_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestClosedAfterArm: what has come before an endpoint is closed is delivered also if arming had
// looked at the queue before that.
func TestClosedAfterArm(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	a, b := newPuppet(t, r, h), newPuppet(t, r, h)
	got := h.Collect(t, 1)
	ucttest.Settle(h)
	a.host, b.host = nil, nil // so that nothing is received meanwhile
	a.tell(1, 'a')
	if err := h.Worker.Arm(); err != ucs.ErrBusy {
		t.Fatalf("arming with a message that has come: %v", err)
	}
	b.tell(1, 'b')
	b.ep.Close()
	ucttest.Settle(h)
	if got.Len() != 2 {
		t.Errorf("%d messages of 2", got.Len())
	}
}

// TestCreditsAfterArm: the places in the queue of completions that a closed endpoint has come back
// when the queue was seen empty, which it was not when arming has looked at it before.
func TestCreditsAfterArm(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r, "RC_VERBS_TX_MAX_POLL", "4")
	h := f.Open(t)
	a, b := newPuppet(t, r, h), newPuppet(t, r, h)
	ucttest.Settle(h)
	put := func(p *puppet) { check(t, p.ep.(uct.RMA).PutShort([]byte("x"), p.mr.Addr(), p.key())) }
	put(a)
	if err := h.Worker.Arm(); err != ucs.ErrBusy {
		t.Fatalf("arming with a put that is over: %v", err)
	}
	const puts = 8
	for range puts {
		put(b)
	}
	b.ep.Close()
	h.Worker.Progress()
	if free, total := rc.Credits(h.Iface); free > total-puts {
		t.Errorf("%d credits of %d are free with completions in the queue", free, total)
	}
	ucttest.Settle(h)
	if free, total := rc.Credits(h.Iface); free != total || rc.Limbo(h.Iface) != 0 {
		t.Errorf("%d credits of %d are free, %d endpoints in limbo", free, total, rc.Limbo(h.Iface))
	}
}
