package ucp

import "github.com/ucx-go/ucx/uct"

// A call that waits may end before its operation: its context has ended (outlive), or what
// it sends is a reply that need not be waited for (replies.go). Then the data of a send is
// copied, so that the caller's memory is the caller's again. A copy is made only of what the
// transport has not taken.

// ownData makes the data of a send the library's, by copying it, and reports whether the
// memory of the caller's is used no more. That cannot be while the peer reads it, or a
// transport that does not copy it either.
func (r *Request) ownData() bool {
	if r.state&stateCopied != 0 {
		return true
	}
	rest := r.state&stateSent == 0
	if r.data.class != DatatypeContig {
		return !rest
	}
	r.copyInstead()
	switch r.proto.(type) {
	case eagerShort, eagerBcopy, eagerMultiBcopy, streamMultiBcopy, rndvBcopy, putShort, putCopy, putMessages:
	case rndvOffer:
		if r.offer.addr != 0 {
			return false
		}
	case eagerZcopy, eagerMultiZcopy, streamMultiZcopy, rndvZcopy, rndvPut:
		if !rest {
			break
		}
		if r.mem.busy() || r.region != nil || !r.ep.keepsMemory() {
			return false
		}
		rest = r.pend.Queued() || r.list != nil || r.is(kindWrite) // of which there may be more parts
	default:
		return !rest
	}
	if rest && r.data.length > 0 {
		r.data.buf = append(r.w.buffers.Get(r.data.length), r.data.buf...)
		r.state |= stateCopied
		if extra := r.data.length - mostOfReply; extra > 0 && r.state&stateOwes != 0 {
			r.ep.bill.debt.charge(r, extra, r.state&stateAsks != 0)
		}
	}
	if r.form != nil && r.form.active && r.am != nil {
		r.am.copyHeader(&r.w.buffers)
	}
	return true
}

// copyInstead has a message of which nothing has been sent go by copies: the registration
// of the caller's memory is not one of the copy.
func (r *Request) copyInstead() {
	if !r.mem.busy() || r.mem.given != nil || !r.pend.Queued() || r.offset > 0 || r.comp.Count > 1 {
		return
	}
	switch r.proto.(type) {
	case eagerZcopy:
		if r.form.only.size+r.tailSize(&r.form.only.tail)+r.data.length > r.ep.cfg.maxBcopy {
			return
		}
		r.proto = eagerBcopy{}
	case eagerMultiZcopy:
		r.proto = eagerMultiBcopy{}
	default:
		return
	}
	r.mem.letGo()
}

// keepsMemory has the transports copy what they have taken of the callers' memory, and
// reports whether all of them can.
func (ep *Endpoint) keepsMemory() bool {
	for i := range ep.lanes {
		l := &ep.lanes[i]
		if k, ok := l.uct.(uct.MemoryKeeper); ok {
			k.KeepMemory()
		} else if l.iface.attr.AM.MaxZcopy > 0 || l.iface.attr.Put.MaxZcopy > 0 {
			return false
		}
	}
	return true
}

// busy reports whether anything is registered, which a copy would not be.
func (m *requestMemory) busy() bool {
	return m != nil && (m.given != nil || len(m.handles) > 0 || len(m.exposed) > 0)
}
