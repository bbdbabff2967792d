package ucp

import "github.com/ucx-go/ucx/uct"

// A call that waits may end before its operation: because its context has ended (outlive), or
// because it sends a reply that it need not wait for (replies.go). Then the data of the send is
// copied, so that the caller gets its buffer back. Only data that the transport has not
// accepted is copied.

// ownData copies the data of a send, and reports whether the caller's buffer is not used any
// more. It is still used while the peer reads it, or a transport that cannot copy it.
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

// copyInstead makes a message that has not begun to leave go by copies: the registration of
// the caller's buffer does not cover the copy.
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

// keepsMemory makes the transports copy the data that they still read from callers' buffers,
// and reports whether all of them can.
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

// busy reports whether memory is registered for the request; a copy would not be.
func (m *requestMemory) busy() bool {
	return m != nil && (m.given != nil || len(m.handles) > 0 || len(m.exposed) > 0)
}
