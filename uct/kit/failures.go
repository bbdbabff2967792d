package kit

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// Failing is an endpoint that can fail.
type Failing interface {
	uct.Endpoint

	// Over is called inside progress, before the failure is reported: it ends the operations in
	// flight with err. It returns the user data for OnError; tell is false if the failure must not
	// be reported, because the endpoint is closed.
	Over(err error) (userData any, report bool)
}

// Reporter is the destination of the failure reports of an iface's endpoints.
type Reporter struct {
	OnError func(ep uct.Endpoint, userData any, err error) // nil: failures are logged
	Level   log.Level                                      // log level, if OnError is nil
	Log     *log.Logger                                    // logger, if OnError is nil
}

// Failures is the queue of endpoint failures that are not reported yet. A transport may detect
// a failure inside a send, where it must not call OnError; progress reports the failure. The
// zero value is empty.
type Failures struct {
	list      []failure
	reporting bool
}

type failure struct {
	to  *Reporter
	ep  Failing
	err error
}

// Empty reports whether no failure waits to be reported.
func (f *Failures) Empty() bool { return len(f.list) == 0 }

// Add queues the failure of ep for the next Report, or for the Report that is running. It is
// called once for an endpoint.
func (f *Failures) Add(to *Reporter, ep Failing, err error) {
	f.list = append(f.list, failure{to, ep, err})
}

// Report reports the queued failures in order and returns their number. A callback may close
// any endpoint and fail others; Report also reports these new failures. A nested call does
// nothing.
func (f *Failures) Report() int {
	if f.reporting {
		return 0
	}
	f.reporting = true
	n := 0
	for ; n < len(f.list); n++ {
		x := f.list[n]
		f.list[n] = failure{}
		userData, report := x.ep.Over(x.err)
		switch {
		case !report:
		case x.to.OnError != nil:
			x.to.OnError(x.ep, userData, x.err)
		default:
			x.to.Log.Write(x.to.Level, "endpoint failed", zap.Error(x.err))
		}
	}
	f.list, f.reporting = f.list[:0], false
	return n
}
