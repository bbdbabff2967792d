//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// received handles a completion of a receive.
func (i *iface) received(wc *verbs.WC) {
	data := i.recvs.Data(wc.ID)
	if data == nil {
		return // no completion of ours
	}
	desc := i.recvs.Take(wc.ID)
	e := i.last
	if e == nil || e.qpn != wc.QPN {
		if e = i.byQPN.find(wc.QPN); e != nil {
			i.last = e
		}
	}
	switch {
	case wc.Status != verbs.WCSuccess:
		i.recvs.Done(wc.ID, false)
		if e != nil {
			e.receiveFailed(wc.Status)
		}
	case e == nil || e.deaf:
		i.recvs.Done(wc.ID, false)
	default:
		i.recvs.Done(wc.ID, e.message(data[:min(int(wc.ByteLen), len(data))], desc))
	}
}

// message handles a message, and says whether its handler keeps the data. The bytes are
// untrusted.
func (e *endpoint) message(data []byte, desc *uct.AMDesc) (kept bool) {
	if len(data) == 0 {
		e.drop(errNoBytes)
		return false
	}
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

// control does what the bits of flow control ask for, and says whether they are all there
// is.
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
