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
		e.deferMessage(data)
		return false
	}
	return e.message(data, desc)
}

// deferMessage defers a message. A grant in it takes effect at once, because sending does not wait for
// the delivery of messages.
func (e *endpoint) deferMessage(data []byte) {
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

// deliverDeferred delivers deferred messages of endpoints that are no longer paused, and returns
// their number.
func (i *iface) deliverDeferred() (n int) {
	for range i.resumed.Len() {
		if i.resumed.Len() == 0 {
			break
		}
		e := i.resumed.Next()
		m := e.popDeferred()
		i.resumed.Pass()
		if !e.backlog.waits() {
			i.resumed.Remove(&e.backlog.resumedNode)
		}
		e.message(m, nil)
		n++
	}
	return n
}

var errNoMessage = fmt.Errorf("rc: the peer sent a write with immediate data: %w", ucs.ErrUnsupported)

// usualWindow is the number of deferred messages that every endpoint may have at least: twice the
// default of the peers' send window.
const usualWindow = 2 * 512

var errUnread = fmt.Errorf("rc: a peer sends more messages than it was granted, on a connection whose reading is stopped: %w", ucs.ErrExceedsLimit)

var errLargestBacklog = fmt.Errorf("rc: connections whose reading is stopped hold too many receive buffers, and this one the most: %w", ucs.ErrExceedsLimit)
