package ucp

import "github.com/ucx-go/ucx/uct"

// A reply whose caller waits and that does not leave in its call is copied, so that the
// caller may go on: as with short sends that are left to another goroutine (call.go) the
// memory is the caller's again, and the next flush tells of a failure. A copy is made only
// of what the transport has not taken.

// letCallerGo takes a reply that a call would wait for out of the caller's hands, if that
// can be: as the caller sees it, it is done.
func (r *Request) letCallerGo() bool {
	if !r.isReply() || !r.is(kindEager) || r.form.acked {
		return false
	}
	r.w.uctw.Push() // what was collected leaves although nobody progresses
	return r.copyReply()
}

// copyReply makes a reply in flight independent of the caller's memory, and of the caller.
func (r *Request) copyReply() bool {
	w := r.w
	if r.state&(stateCopied|stateUser) != 0 || r.data.class != DatatypeContig || r.data.length > w.maxOwed || r.region != nil {
		return false
	}
	rest := r.pend.Queued() || r.list != nil // not all of it is with the transports
	switch {
	case r.is(kindEager):
		r.copyInstead()
	case r.is(kindOffer) && r.offer.addr == 0:
	case r.is(kindWrite):
		rest = true // there may be more parts
	default:
		return false
	}
	if r.mem.busy() || !r.keepsMemory() {
		return false
	}
	if rest && r.data.length > 0 {
		r.data.buf = append(w.buffers.Get(r.data.length), r.data.buf...)
		r.state |= stateCopied
		if extra := r.data.length - mostOfReply; extra > 0 && r.state&stateOwes != 0 {
			r.ep.bill.debt.charge(r, extra, r.state&stateAsks != 0)
		}
	}
	if r.form.active && r.am != nil {
		r.am.copyHeader(&w.buffers)
	}
	r.state |= stateParams
	r.onSend = endLetGo
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

// keepsMemory has the transports copy what they have taken of the caller's memory.
func (r *Request) keepsMemory() bool {
	switch r.proto.(type) {
	case eagerZcopy, eagerMultiZcopy, streamMultiZcopy, rndvZcopy, rndvPut:
	default:
		return true // it is copied anyway, or nothing was sent yet
	}
	for i := range r.ep.lanes {
		l := &r.ep.lanes[i]
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

// endLetGo is the end of a reply whose caller has gone on.
func endLetGo(r *Request, err error, _ any) {
	if err != nil {
		r.w.lose(r.ep, err)
	}
}
