//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/uct/kit"
)

// Paused connections. Endpoints share a receive queue, so the messages of an endpoint that is
// paused must be taken out of the queue: they are copied and deferred. A grant that such a
// message asks for is given when the message is delivered. Until then a peer that keeps to the
// protocol sends no more than its window; a peer that does not loses the connection. There may
// be many peers, so beyond the limit of an interface the endpoint with the largest backlog
// loses its connection.

// backlog holds the deferred messages of a paused endpoint.
type backlog struct {
	paused      bool
	list        [][]byte
	bytes       int
	resumedNode kit.Node[*endpoint] // node in iface.resumed
}

// waits reports whether a message has to be deferred.
func (b *backlog) waits() bool { return b.paused || len(b.list) > 0 }

// PauseSource implements uct.Connection. It does nothing for an endpoint that has ended,
// whose messages are all delivered: nothing would resume that endpoint.
func (e *endpoint) PauseSource() {
	if e.qp == nil {
		return
	}
	e.backlog.paused = true
	e.iface.resumed.Remove(&e.backlog.resumedNode)
}

// ResumeSource implements uct.Connection.
func (e *endpoint) ResumeSource() {
	b := &e.backlog
	b.paused = false
	if len(b.list) > 0 && !b.resumedNode.Listed() && !e.discards {
		e.iface.resumed.Add(&b.resumedNode, e)
	}
}

// weight estimates the memory that a deferred message takes, in bytes.
func weight(m []byte) int { return len(m) + 48 }

// addDeferredBytes adds n to the number of deferred bytes of the endpoint and of the interface.
func (e *endpoint) addDeferredBytes(n int) {
	e.backlog.bytes += n
	e.iface.deferredBytes += n
}

// push defers a copy of a message. It clears the grant in the copy, which has taken effect already.
func (e *endpoint) push(data []byte) {
	m := append([]byte(nil), data...)
	m[0] &^= fcGrant
	e.backlog.list = append(e.backlog.list, m)
	e.addDeferredBytes(weight(m))
}

// popDeferred removes the first deferred message.
func (e *endpoint) popDeferred() (m []byte) {
	b := &e.backlog
	m, b.list[0] = b.list[0], nil
	b.list = b.list[1:]
	if len(b.list) == 0 {
		b.list = nil
	}
	e.addDeferredBytes(-weight(m))
	return m
}

// maxDeferredBytes limits the bytes deferred on all connections of an interface together. It is enough
// for 60 peers that keep to the window of C UCX and fill it with their largest messages.
const maxDeferredBytes = 256 << 20

// roomFor makes room for n more deferred bytes, and reports whether there is room. At the limit
// it drops the connection of the endpoint that would have the largest backlog, which may be e.
func (e *endpoint) roomFor(n int) bool {
	i := e.iface
	for i.deferredBytes+n > i.deferredLimit {
		largest, most := e, e.backlog.bytes+n
		for _, o := range i.eps {
			if o != nil && o.backlog.bytes > most {
				largest, most = o, o.backlog.bytes
			}
		}
		if largest.drop(errLargestBacklog); largest == e {
			return false
		}
	}
	return true
}

// deliverAllDeferred delivers all deferred messages, even if the endpoint is paused, because there are few. It
// returns their number.
func (e *endpoint) deliverAllDeferred() (n int) {
	for ; len(e.backlog.list) > 0; n++ {
		e.message(e.popDeferred(), nil)
	}
	e.iface.resumed.Remove(&e.backlog.resumedNode) // an endpoint with nothing to deliver leaves the ring
	return n
}

// forget drops all deferred messages.
func (e *endpoint) forget() {
	e.iface.resumed.Remove(&e.backlog.resumedNode)
	e.addDeferredBytes(-e.backlog.bytes)
	e.backlog = backlog{}
}
