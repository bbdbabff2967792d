//go:build linux

package rc_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// eachDriver runs a test on devices of each driver.
func eachDriver(t *testing.T, test func(t *testing.T, r *rig)) {
	for name, cfg := range map[string]verbstest.Config{
		"rxe": {}, "mlx5": {MLX5: &verbstest.MLX5{}}, "mlx5, version 0": {MLX5: &verbstest.MLX5{Version0: true}},
	} {
		t.Run(name, func(t *testing.T) { test(t, rigtest.New(t, cfg)) })
	}
}

// TestClosedAfterArm checks that messages which arrived before an endpoint was closed are
// delivered, even if Arm had read from the completion queue before.
func TestClosedAfterArm(t *testing.T) { eachDriver(t, testClosedAfterArm) }

func testClosedAfterArm(t *testing.T, r *rig) {
	f := fixture(t, r)
	h := f.Open(t)
	a, b := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
	got := h.Collect(t, 1)
	ucttest.Settle(h)
	a.Host, b.Host = nil, nil // without a host, sends do not make progress on h
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

// TestCreditsAfterArm checks that the completion queue entries of a closed endpoint are released
// only when the queue was seen empty, which does not follow from what Arm had read earlier.
func TestCreditsAfterArm(t *testing.T) { eachDriver(t, testCreditsAfterArm) }

func testCreditsAfterArm(t *testing.T, r *rig) {
	f := fixture(t, r, "RC_VERBS_TX_MAX_POLL", "4")
	h := f.Open(t)
	a, b := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
	ucttest.Settle(h)
	put := func(p *scriptedPeer) { check(t, p.ep.(uct.RMA).PutShort([]byte("x"), p.MR.Addr(), p.key())) }
	put(a)
	r.Progress()
	if err := h.Worker.Arm(); err != ucs.ErrBusy {
		t.Fatalf("arming with a put that is over: %v", err)
	}
	const puts = 8
	for range puts {
		put(b)
	}
	r.Progress()
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

// TestClosedUnread repeatedly closes endpoints whose messages are still in the completion queue:
// all are delivered, and their buffers are posted again.
func TestClosedUnread(t *testing.T) { eachDriver(t, testClosedUnread) }

func testClosedUnread(t *testing.T, r *rig) {
	f := fixture(t, r, "RC_VERBS_RX_QUEUE_LEN", "16", "RC_VERBS_RX_MAX_BUFS", "16")
	h := f.Open(t)
	got := h.Collect(t, 1)
	const rounds, messages = 20, 10
	for range rounds {
		p := newScriptedPeer(t, r, h)
		ucttest.Settle(h)
		p.Host = nil // without a host, sends do not make progress on h
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
