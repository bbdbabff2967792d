package ucp

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// TestEvaluatePerf: the time that an endpoint estimates for a message grows with its length, and is
// that of the protocol that the endpoint uses.
func TestEvaluatePerf(t *testing.T) {
	v := newTarget(t)
	last := time.Duration(0)
	for _, n := range []int{0, 1, 100, 8184, 8185, 1 << 20, 1 << 30, math.MaxInt} {
		a, err := v.ep.EvaluatePerf(PerfParams{MessageSize: n})
		if err != nil || a.EstimatedTime < last || a.EstimatedTime <= 0 {
			t.Errorf("%d bytes: %v, %v, fewer took %v", n, a.EstimatedTime, err, last)
		}
		last = a.EstimatedTime
	}
	a, err := v.ep.EvaluatePerf(PerfParams{})
	if want := v.ep.Explain().Protocols[0].Ranges[0].TimeMin * 1e9; err != nil || math.Abs(float64(a.EstimatedTime)-want) > 1 {
		t.Errorf("an empty message takes %v, explained as %v ns", a.EstimatedTime, want)
	}
	if _, err := v.ep.EvaluatePerf(PerfParams{MessageSize: -1}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("less than nothing: %v", err)
	}
	costs := v.ep.cfg.costs
	v.ep.cfg.costs = proto.ProtoInput{AM: proto.LanePerf{MaxBcopy: 100, Bandwidth: 1}}
	if a, err := v.ep.EvaluatePerf(PerfParams{MessageSize: math.MaxInt}); err != nil || int64(a.EstimatedTime) != math.MaxInt64 && math.MaxInt > math.MaxInt32 {
		t.Errorf("longer than a duration: %v, %v", a.EstimatedTime, err)
	}
	v.ep.cfg.costs = costs
	v.ep.w.ends.destroy(v.ep, ucs.ErrConnectionReset)
	if _, err := v.ep.EvaluatePerf(PerfParams{}); err == nil {
		t.Error("a closed endpoint has an estimate")
	}
}
