//go:build linux

package rc

import "slices"

// When a queue pair is destroyed, its last completions may still be in the completion queues.
// Completions of sends identify the endpoint by its index, completions of receives by its queue
// pair number. So the index and the completion queue entries of the endpoint stay taken until the
// send completion queue has been seen empty, and the number until the receive completion queue has.
// A message among these completions is delivered, because it has been acknowledged to its sender,
// which may have gone since.

// retiredEnds holds endpoints that have ended and whose completions may still be in the queues.
type retiredEnds struct {
	sends []deadSends
	ends  []*endpoint // endpoints for which messages may still arrive; they are in iface.byQPN
}

// deadSends is what an ended endpoint holds of the send side: its index, and entries of the
// completion queue.
type deadSends struct {
	index   int32
	credits int
}

// retire adds an endpoint whose queue pair is destroyed.
func (i *iface) retire(e *endpoint) {
	i.retired.sends = append(i.retired.sends, deadSends{e.index, int(e.outstanding())})
	i.retired.ends = append(i.retired.ends, e)
	i.quiet = 1
}

// releaseSends releases the index and the completion queue entries of the first n retired
// endpoints, since the send completion queue was seen empty after they were retired.
func (i *iface) releaseSends(n int) {
	l := &i.retired
	for _, d := range l.sends[:n] {
		i.credits += d.credits
		i.freeIndex = append(i.freeIndex, d.index)
	}
	l.sends = append(l.sends[:0], l.sends[n:]...)
}

// releaseReceives unregisters the first n retired endpoints, since the completion queue of receives
// was seen empty after they were retired. It first delivers their deferred messages, and returns
// the number of these messages.
func (i *iface) releaseReceives(n int) (delivered int) {
	for _, e := range i.retired.ends[:n] {
		delivered += e.deliverAllDeferred()
		if i.closed { // by a handler; that has unregistered the other endpoints as well
			return delivered
		}
		e.unregister()
	}
	l := &i.retired
	l.ends = slices.Delete(l.ends, 0, n)
	return delivered
}

// unregister removes the endpoint from all tables. Nothing more is delivered from it, and its
// deferred messages are dropped.
func (e *endpoint) unregister() {
	i := e.iface
	i.byQPN.remove(e.qpn)
	if i.last == e {
		i.last = nil
	}
	e.discards = true
	e.forget()
	e.source.Gone()
}

// index assigns a free index to an endpoint.
func (i *iface) index(e *endpoint) int32 {
	if n := len(i.freeIndex); n > 0 {
		k := i.freeIndex[n-1]
		i.freeIndex = i.freeIndex[:n-1]
		i.eps[k] = e
		return k
	}
	i.eps = append(i.eps, e)
	return int32(len(i.eps) - 1)
}
