//go:build linux

package rc

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// AsyncEvent implements ib.User.
func (i *iface) AsyncEvent(a verbs.AsyncEvent) {
	switch a.Type {
	case verbs.EventQPFatal, verbs.EventQPReqErr, verbs.EventQPAccessErr:
		if a.QP == nil {
			return
		}
		if e := i.byQPN.find(a.QP.QPN()); e != nil && e.qp == a.QP {
			e.fail(fmt.Errorf("rc: connection to %v: %v: %w", &e.device, a.Type, ucs.ErrConnectionReset))
		}
	case verbs.EventDeviceFatal, verbs.EventCQErr, verbs.EventSRQErr:
		for _, e := range i.eps {
			if e != nil {
				e.fail(fmt.Errorf("rc: %s: %v: %w", i.Port.Name(), a.Type, ucs.ErrIO))
			}
		}
	case verbs.EventPortErr:
		// The link may come back before a peer counts as gone. Who has nothing under way that
		// would find it out asks.
		for _, e := range i.eps {
			if e != nil {
				e.Check(nil)
			}
		}
	}
}
