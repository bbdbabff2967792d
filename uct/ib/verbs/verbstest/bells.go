//go:build linux

package verbstest

import "time"

// Doorbells that ring without a call have to be looked for.

// polls reports whether there are any.
func (n *Fabric) polls() bool {
	for _, k := range n.kernels {
		if k.of.polls() {
			return true
		}
	}
	return false
}

// listen finds the doorbells that have rung, and reports whether there were any. Receives
// of a queue pair that is in the error state it flushes, as nobody tells of them.
func (k *Kernel) listen() (any bool) {
	if !k.of.polls() {
		return false
	}
	for _, f := range k.files {
		if f.drv.look() {
			any = true
		}
	}
	for _, q := range k.order {
		if q.attr.QpState == stateErr && q.rq != nil && q.rq.waiting() > 0 {
			q.flush()
		}
	}
	return any
}

// pause is how long a network sleeps that has looked for doorbells in vain, and eager
// how often it looks before it does.
const (
	pause = 20 * time.Microsecond
	eager = 200
)
