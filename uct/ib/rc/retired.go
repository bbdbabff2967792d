//go:build linux

package rc

import "slices"

// When a queue pair is destroyed, its last completions may still be in the completion queues.
// They name the endpoint: completions of sends by its index, those of receives by its queue
// pair number. So its index and its places stay taken until the completion queue of sends has
// been seen empty, and its number until that of receives has. A message among these completions
// is delivered: its sender has been told that the message arrived, and may have gone since.

// retiredEnds is what is left of endpoints that have ended.
type retiredEnds struct {
	sends []deadSends
	ends  []*endpoint // endpoints for which messages may still arrive; they are in iface.byQPN
}

// deadSends is what an ended endpoint holds of the send side: its index, and places in the
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

// releaseSends releases the index and the places of the first n entries: the completion queue
// of sends was seen empty after they were retired.
func (i *iface) releaseSends(n int) {
	l := &i.retired
	for _, d := range l.sends[:n] {
		i.credits += d.credits
		i.freeIndex = append(i.freeIndex, d.index)
	}
	l.sends = append(l.sends[:0], l.sends[n:]...)
}

// releaseReceives unregisters the first n retired endpoints, since the completion queue of
// receives was seen empty after they were retired. It first delivers their deferred messages,
// and returns the number of those.
func (i *iface) releaseReceives(n int) (delivered int) {
	for _, e := range i.retired.ends[:n] {
		delivered += e.readUp()
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
