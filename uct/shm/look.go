//go:build linux

package shm

import "sync/atomic"

// Whoever makes an endpoint asks before, and behind it, whether the peer can be reached,
// and who that is: each is a look at the peer's ring, of a dozen and more system calls.
// The last look serves the others, if the worker has not made progress in between.

// look is a ring that was found, and is attached until somebody forgets it.
type look struct {
	ring  *txRing
	addr  []byte
	epoch uint64
}

// seen is what was seen last, for the caller.
func (i *iface) seen() *txRing {
	r := *i.looked.ring
	r.tail = atomic.LoadUint64(r.peer)
	i.domain.attached.retain(r.seg)
	return &r
}

func (i *iface) forgetLook() {
	if r := i.looked.ring; r != nil {
		i.looked.ring = nil
		i.domain.attached.release(r.seg)
	}
}
