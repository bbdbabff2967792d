package ucp

import (
	"fmt"
	"math"
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// PerfParams are the parameters of Endpoint.EvaluatePerf.
type PerfParams struct {
	MessageSize int // bytes
}

// PerfAttr is what Endpoint.EvaluatePerf tells.
type PerfAttr struct {
	// EstimatedTime is what a message of contiguous memory takes until it is received,
	// rounded up; math.MaxInt64 nanoseconds if it is more.
	EstimatedTime time.Duration
}

// EvaluatePerf estimates performance by the cost model that protocols are chosen by
// (Explain), from what transports say of themselves: nothing is measured. A longer
// message never takes less. An endpoint that is still being connected by socket address
// gives ucs.ErrNotConnected, one that has failed its error.
func (ep *Endpoint) EvaluatePerf(p PerfParams) (PerfAttr, error) {
	if ep.missing() {
		return PerfAttr{}, errMissing("Endpoint.EvaluatePerf", ep == nil)
	}
	ep.w.look()
	defer ep.w.unlook()
	switch err := ep.gone(); {
	case p.MessageSize < 0:
		return PerfAttr{}, fmt.Errorf("ucp: a message of %d bytes: %w", p.MessageSize, ucs.ErrInvalidParam)
	case err != nil:
		return PerfAttr{}, err
	case len(ep.lanes) == 0:
		return PerfAttr{}, ucs.ErrNotConnected
	}
	form := proto.MessageForm{Only: tagForm.only.size, First: tagForm.first.size, Short: true}
	ns := math.Ceil(float64(proto.EstimateMessage(&ep.cfg.costs, form, p.MessageSize)) * 1e9)
	if !(ns < math.MaxInt64) {
		return PerfAttr{EstimatedTime: math.MaxInt64}, nil
	}
	return PerfAttr{EstimatedTime: time.Duration(ns)}, nil
}
