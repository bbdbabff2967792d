//go:build linux

package rc

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// received handles a completion of a receive.
func (i *iface) received(wc *verbs.WC) {
	data := i.recvs.Data(wc.ID)
	if data == nil {
		return // not the ID of a posted buffer
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
	case e == nil || e.discards:
		i.recvs.Done(wc.ID, false)
	case wc.Opcode != verbs.WCRecv:
		// A put with immediate data takes a buffer as well, and writes nothing to it: the
		// buffer's content is from an earlier message, perhaps of another peer.
		i.recvs.Done(wc.ID, false)
		e.drop(errNoMessage)
	default:
		i.recvs.Done(wc.ID, e.arrived(data[:min(int(wc.ByteLen), len(data))], desc))
	}
}

// arrived handles a message that has just been received, and reports whether its data is kept.
// The bytes are untrusted.
func (e *endpoint) arrived(data []byte, desc *uct.AMDesc) (kept bool) {
	switch {
	case len(data) == 0:
		e.drop(errNoBytes)
		return false
	case e.backlog.waits():
		e.putOff(data)
		return false
	}
	return e.message(data, desc)
}

// putOff defers a message. A grant in it takes effect at once: sending does not wait for
// reading.
func (e *endpoint) putOff(data []byte) {
	i, b := e.iface, &e.backlog
	first := data[0]
	if first&fcGrant != 0 {
		if e.control(fcGrant); first&fcPure == fcPure {
			return
		}
	}
	n := weight(data)
	if b.bytes+n > max(2*int(i.limits.window), usualWindow)*i.attr.Put.MaxBcopy {
		e.drop(errUnread)
		return
	}
	if e.roomFor(n) {
		e.push(data)
	}
}

// deliverPutOff delivers deferred messages of endpoints that are no longer paused, and returns
// their number.
func (i *iface) deliverPutOff() (n int) {
	for range i.resumed.Len() {
		if i.resumed.Len() == 0 {
			break
		}
		e := i.resumed.Next()
		m := e.nextMail()
		i.resumed.Pass()
		if !e.backlog.waits() {
			i.resumed.Remove(&e.backlog.turn)
		}
		e.message(m, nil)
		n++
	}
	return n
}

var errNoMessage = fmt.Errorf("rc: a put with notification: %w", ucs.ErrUnsupported)

// usualWindow is twice the default window of peers, in messages.
const usualWindow = 2 * 512

var errUnread = fmt.Errorf("rc: a peer sends more than it was granted, on a connection that is not read: %w", ucs.ErrExceedsLimit)

var errCrowded = fmt.Errorf("rc: connections that are not read hold too much, and this one the most: %w", ucs.ErrExceedsLimit)
