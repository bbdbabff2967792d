//go:build linux

package rc

import "slices"

// When a queue pair is destroyed its last completions may still be in the queues. Until
// these have been seen empty its places there are taken, and neither its number nor its
// index may come to mean another endpoint: the completions name those. A message among them
// is delivered: its sender has been told that it arrived, and may have gone since.

// retiredEnds is what is left of endpoints that have ended.
type retiredEnds struct {
	sends []deadSends
	ends  []*endpoint // of which messages may still come; they are in iface.byQPN
}

// deadSends is what an endpoint had of the queue of sends.
type deadSends struct {
	index   int32
	credits int
}

// retire puts an endpoint whose queue pair is gone there.
func (i *iface) retire(e *endpoint) {
	i.retired.sends = append(i.retired.sends, deadSends{e.index, int(e.outstanding())})
	i.retired.ends = append(i.retired.ends, e)
	i.quiet = 1
}

// releaseSends lets the first n go: the queue of sends was seen empty behind them.
func (i *iface) releaseSends(n int) {
	l := &i.retired
	for _, d := range l.sends[:n] {
		i.credits += d.credits
		i.freeIndex = append(i.freeIndex, d.index)
	}
	l.sends = append(l.sends[:0], l.sends[n:]...)
}

// releaseReceives lets the first n go, likewise, and returns how many messages it has
// delivered.
func (i *iface) releaseReceives(n int) (delivered int) {
	for _, e := range i.retired.ends[:n] {
		delivered += e.readUp()
		if i.closed { // by a handler, and with it the others
			return delivered
		}
		e.unregister()
	}
	l := &i.retired
	l.ends = slices.Delete(l.ends, 0, n)
	return delivered
}

// unregister has nothing find the endpoint, of which nothing is left.
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

// index is a free one for an endpoint.
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
