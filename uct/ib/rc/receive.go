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
	case e == nil || e.discards:
		i.recvs.Done(wc.ID, false)
	case wc.Opcode != verbs.WCRecv:
		// A put with a number takes a buffer as well, and writes nothing to it: what lies
		// there was somebody else's.
		i.recvs.Done(wc.ID, false)
		e.drop(errNoMessage)
	default:
		i.recvs.Done(wc.ID, e.arrived(data[:min(int(wc.ByteLen), len(data))], desc))
	}
}

// arrived handles a message that has just come, and says whether its data is kept. The bytes are
// untrusted.
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

// putOff keeps a message for later. A grant that comes with it is taken at once: what we send
// does not wait for what we read.
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

// deliverPutOff delivers what was put off for endpoints that are not paused any more, and
// returns how much that was.
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

// usualWindow is twice the window that peers have if nobody says otherwise.
const usualWindow = 2 * 512

var errUnread = fmt.Errorf("rc: a peer sends more than it was granted, on a connection that is not read: %w", ucs.ErrExceedsLimit)

var errCrowded = fmt.Errorf("rc: connections that are not read hold too much, and this one the most: %w", ucs.ErrExceedsLimit)
