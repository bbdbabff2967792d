//go:build linux

package shm

import "sync/atomic"

// A caller that makes an endpoint asks, before and after, whether the peer can be reached and
// which process the peer is. Each question is a look at the peer's ring, which takes a dozen
// or more system calls. So the result of the last look is kept, and is used again as long as
// the worker has not made progress.

// look is the result of the last look at a peer's ring. The ring stays attached until forgetLook.
type look struct {
	ring  *txRing
	addr  []byte
	epoch uint64
}

// seen returns a copy of the ring of the last look, with its tail read again. The caller owns
// the attachment.
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
