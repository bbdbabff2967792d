//go:build linux

package rc

import "github.com/ucx-go/ucx/uct/ib/verbs"

// When a queue pair is destroyed its last completions may still be in the queues. Until
// these have been seen empty its places there are taken, and neither its number nor its
// index may come to mean another endpoint: the completions name those.

// limbo is what is left of endpoints that have ended.
type limbo struct {
	sends []deadSends
	qpns  []verbs.QPN
}

// deadSends is what an endpoint had of the queue of sends.
type deadSends struct {
	index   int32
	credits int
}

// bury puts an endpoint whose queue pair is gone there.
func (i *iface) bury(e *endpoint) {
	i.limbo.sends = append(i.limbo.sends, deadSends{e.index, int(e.outstanding())})
	i.limbo.qpns = append(i.limbo.qpns, e.qpn)
	i.quiet = 1
}

// restSends lets the first n go: the queue of sends was seen empty behind them.
func (i *iface) restSends(n int) {
	l := &i.limbo
	for _, d := range l.sends[:n] {
		i.credits += d.credits
		i.freeIndex = append(i.freeIndex, d.index)
	}
	l.sends = append(l.sends[:0], l.sends[n:]...)
}

// restReceives lets the first n go, likewise.
func (i *iface) restReceives(n int) {
	l := &i.limbo
	l.qpns = append(l.qpns[:0], l.qpns[n:]...)
}

// haunted reports whether a number may still be in the queue of receives.
func (i *iface) haunted(qpn verbs.QPN) bool {
	for _, q := range i.limbo.qpns {
		if q == qpn {
			return true
		}
	}
	return false
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
