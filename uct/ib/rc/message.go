//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// message handles a message, and reports whether its handler keeps the data.
func (e *endpoint) message(data []byte, desc *uct.AMDesc) (kept bool) {
	b := data[0]
	if b > idMask {
		if e.control(b) {
			return false
		}
	}
	err := e.iface.Handlers.Deliver(&e.source, uct.AMID(b&idMask), data[1:], desc)
	if err == nil {
		return false
	}
	if err == ucs.InProgress {
		return true
	}
	e.drop(err)
	return false
}

// control handles the flow control bits of a message, and reports whether the message consists
// only of them.
func (e *endpoint) control(b byte) (pure bool) {
	reply, pure := e.fc.received(b, &e.iface.limits)
	if b&fcGrant != 0 {
		e.stuck = false
	}
	if reply {
		e.grant()
	}
	return pure
}
