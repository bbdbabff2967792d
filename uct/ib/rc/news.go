//go:build linux

package rc

import (
	"fmt"
	"time"

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
		err := fmt.Errorf("rc: %s: %v: %w", i.Port.Name(), a.Type, ucs.ErrIO)
		i.Fail(err)
		for _, e := range i.eps {
			if e != nil {
				e.fail(err)
			}
		}
	case verbs.EventPortErr:
		i.linkDown()
	case verbs.EventPortActive:
		i.linkUp()
	}
}

// A link that is down may come back before senders count their peers as gone. Idle connections need
// not notice that. Nothing is posted on them at once, because a device may fail requests that are
// posted while the link is down. If the link stays down for as long as it takes to count a peer as
// gone, all peers are checked.

// linkDown handles the event that the port is down.
func (i *iface) linkDown() {
	if i.downFor != nil {
		return
	}
	if timeout := i.lossTimeout(); timeout > 0 {
		i.downFor, _ = i.Worker.Timers().After(timeout, i.stillDown)
	}
}

// stillDown checks all peers. On devices that retry forever it does so again and again while
// the port is down.
func (i *iface) stillDown() {
	i.downFor = nil
	for _, e := range i.eps {
		if e != nil {
			e.Check(nil)
		}
	}
	if i.endless {
		i.linkDown()
	}
}

// linkUp handles the event that the port is up again, and stops the timer.
func (i *iface) linkUp() {
	if i.downFor != nil {
		i.downFor.Stop()
		i.downFor = nil
	}
}

// lossTimeout returns roughly how long it takes until a peer counts as gone; 0 means forever.
func (i *iface) lossTimeout() time.Duration {
	a := i.pathAttr()
	if a.Timeout == 0 {
		return 0
	}
	const unit = 4096 * time.Nanosecond
	return time.Duration(1+a.RetryCount) * (unit << a.Timeout)
}
