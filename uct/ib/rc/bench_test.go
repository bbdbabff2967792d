//go:build linux

package rc_test

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// BenchmarkShort posts short messages, without the system call of the doorbell and without the work
// of the devices.
func BenchmarkShort(b *testing.B) {
	r := newRig(b, verbstest.Port{}).Slow(1 << 20)
	f := fixture(b, r, "RC_VERBS_FC_ENABLE", "n", "RC_VERBS_TX_QUEUE_LEN", "4096", "RC_VERBS_TX_CQ_LEN", "16384")
	a, c := f.Pair(b)
	ep := a.Connect(b, c)
	c.Handle(b, 1, func(*uct.Source, []byte, *uct.AMDesc) error { return nil })
	rigtest.PostShort(b, a, c, ep)
}

// BenchmarkIdle measures a progress round of a worker whose only interface is idle.
func BenchmarkIdle(b *testing.B) {
	r := newRig(b, verbstest.Port{})
	f := ucttest.Fixture{Component: r.Component, Transport: "rc_verbs"}
	a, c := f.Pair(b)
	a.Connect(b, c)
	ucttest.Settle(a, c)
	b.ResetTimer()
	for range b.N {
		a.Worker.Progress()
	}
}
