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

// eachDriver runs a test on devices of each driver.
func eachDriver(t *testing.T, test func(t *testing.T, r *rig)) {
	for name, cfg := range map[string]verbstest.Config{
		"rxe": {}, "mlx5": {MLX5: &verbstest.MLX5{}}, "mlx5, version 0": {MLX5: &verbstest.MLX5{Version0: true}},
	} {
		t.Run(name, func(t *testing.T) { test(t, newRigOf(t, cfg)) })
	}
}

// TestClosedAfterArm: what has come before an endpoint is closed is delivered also if arming had
// looked at the queue before that.
func TestClosedAfterArm(t *testing.T) { eachDriver(t, testClosedAfterArm) }

func testClosedAfterArm(t *testing.T, r *rig) {
	f := fixture(t, r)
	h := f.Open(t)
	a, b := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
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
func TestCreditsAfterArm(t *testing.T) { eachDriver(t, testCreditsAfterArm) }

func testCreditsAfterArm(t *testing.T, r *rig) {
	f := fixture(t, r, "RC_VERBS_TX_MAX_POLL", "4")
	h := f.Open(t)
	a, b := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
	ucttest.Settle(h)
	put := func(p *scriptedPeer) { check(t, p.ep.(uct.RMA).PutShort([]byte("x"), p.mr.Addr(), p.key())) }
	put(a)
	r.net.Progress()
	if err := h.Worker.Arm(); err != ucs.ErrBusy {
		t.Fatalf("arming with a put that is over: %v", err)
	}
	const puts = 8
	for range puts {
		put(b)
	}
	r.net.Progress()
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

// TestClosedUnread closes endpoints with messages in the queue of completions, again and again:
// all are delivered, and the buffers that they are in are posted again.
func TestClosedUnread(t *testing.T) { eachDriver(t, testClosedUnread) }

func testClosedUnread(t *testing.T, r *rig) {
	f := fixture(t, r, "RC_VERBS_RX_QUEUE_LEN", "16", "RC_VERBS_RX_MAX_BUFS", "16")
	h := f.Open(t)
	got := h.Collect(t, 1)
	const rounds, messages = 20, 10
	for range rounds {
		p := newScriptedPeer(t, r, h)
		ucttest.Settle(h)
		p.host = nil // so that nothing is received meanwhile
		for range messages {
			p.tell(1, 'a')
		}
		p.ep.Close()
		ucttest.Settle(h)
	}
	if got.Len() != rounds*messages {
		t.Errorf("%d messages of %d", got.Len(), rounds*messages)
	}
}
