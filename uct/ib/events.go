//go:build linux

package ib

import "github.com/ucx-go/ucx/uct/ib/verbs"

// concerned reports whether an event of the device is about the interface.
func (i *Iface) concerned(e verbs.AsyncEvent) bool {
	switch {
	case e.Port != 0:
		return e.Port == i.Port.Num
	case e.QP != nil:
		return e.QP.RecvCQ() == i.RecvCQ
	case e.CQ != nil:
		return e.CQ == i.SendCQ || e.CQ == i.RecvCQ
	case e.SRQ != nil:
		return e.SRQ == i.SRQ
	}
	return e.Type == verbs.EventDeviceFatal // any other event is about an object that is closed
}

// ReadNews passes events of the interface to its transport and returns their number. It is called
// inside progress.
func (i *Iface) ReadNews() int {
	if !i.events.Waiting() {
		return 0
	}
	return i.events.Read()
}

// Failed implements uct.NetworkIface.
func (i *Iface) Failed() error { return i.failed }

// Fail marks the interface as failed: nothing can be sent or received any more. The transport calls
// it, because only the transport knows which other code uses the interface. The first error is kept.
func (i *Iface) Fail(err error) {
	if i.failed == nil {
		i.failed = err
	}
}
