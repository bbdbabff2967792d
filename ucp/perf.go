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

// PerfAttr is the result of Endpoint.EvaluatePerf.
type PerfAttr struct {
	// EstimatedTime is the time until a message of contiguous memory is received, rounded
	// up, and at most math.MaxInt64 nanoseconds.
	EstimatedTime time.Duration
}

// EvaluatePerf estimates performance with the cost model that selects protocols (Explain),
// from the figures that transports announce; it measures nothing. The estimate never
// decreases with the message size. An endpoint that is still connecting by socket address
// gives ucs.ErrNotConnected; a failed one gives its error.
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
