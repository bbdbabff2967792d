package kit

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// Failing is an endpoint that can fail.
type Failing interface {
	uct.Endpoint

	// Over is called inside progress, before anybody else is told: operations in
	// flight end with err here. It returns what the user wants to be told with;
	// tell is false if nobody is to be told, as the endpoint is closed.
	Over(err error) (userData any, tell bool)
}

// Reporter is who is told of the endpoints of an iface.
type Reporter struct {
	OnError func(ep uct.Endpoint, userData any, err error) // nil: it is logged
	Level   log.Level                                      // at this level
	Log     *log.Logger                                    // there
}

// Failures are endpoints that have failed and whose users do not know yet: a failure
// is found out inside sends, where nobody may be called, and told of by progress. The
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

// Empty reports whether there is nobody to be told.
func (f *Failures) Empty() bool { return len(f.list) == 0 }

// Add notes that ep has failed, for the next Report or the one that is running. It
// is called once for an endpoint.
func (f *Failures) Add(to *Reporter, ep Failing, err error) {
	f.list = append(f.list, failure{to, ep, err})
}

// Report tells the users, in the order of the failures, and returns their number. What
// it calls may close any endpoint and fail others, which are reported as well. Inside
// a report it does nothing.
func (f *Failures) Report() int {
	if f.reporting {
		return 0
	}
	f.reporting = true
	n := 0
	for ; n < len(f.list); n++ {
		x := f.list[n]
		f.list[n] = failure{}
		userData, tell := x.ep.Over(x.err)
		switch {
		case !tell:
		case x.to.OnError != nil:
			x.to.OnError(x.ep, userData, x.err)
		default:
			x.to.Log.Write(x.to.Level, "endpoint failed", zap.Error(x.err))
		}
	}
	f.list, f.reporting = f.list[:0], false
	return n
}
