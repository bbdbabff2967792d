//go:build linux

package rc_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// BenchmarkShort posts short messages, without what the doorbell costs, which is the
// system's, and without what the devices do.
func BenchmarkShort(b *testing.B) {
	r := newRig(b, verbstest.Port{}).slow(1 << 20)
	f := fixture(b, r, "RC_VERBS_FC_ENABLE", "n", "RC_VERBS_TX_QUEUE_LEN", "4096", "RC_VERBS_TX_CQ_LEN", "16384")
	a, c := f.Pair(b)
	ep := a.Connect(b, c)
	c.Handle(b, 1, func(*uct.Source, []byte, *uct.AMDesc) error { return nil })
	payload := make([]byte, 8)
	for range b.N {
		for ep.AMShort(1, 2, payload, 0, nil) == ucs.ErrNoResource {
			b.StopTimer()
			for a.Worker.Progress()+c.Worker.Progress() > 0 {
			}
			b.StartTimer()
		}
	}
}

// BenchmarkIdle is a round of a worker whose only interface has nothing to do.
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
