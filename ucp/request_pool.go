package ucp

import (
	"fmt"
	"sync"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/idtable"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// requestPool holds the requests of a worker that are in no operation. Its first fields are those
// that every message touches.
type requestPool struct {
	// resting is a ring of the requests that the application has freed last, in the order in which it has
	// freed them. It begins at index restFirst, and ends before restEnd, modulo its length. They are reused
	// in this order, as long as more than quarantine are left.
	restFirst, restEnd uint
	resting            [restingRequests]*Request

	spare        *Request        // used if an operation of one transport call stays in flight
	spareComp    *uct.Completion // of spare
	idleRequests int             // number of requests in freeRequests
	freeRequests list.Stack[Request]
	promised     *Request  // request of the delegated call that is being carried out
	spares       sync.Pool // *Request, for delegated calls, in thread mode multi

	madeRequests []*Request // all requests, only with a RequestCleanup hook
	requestIDs   idtable.Table[Request]
	w            *Worker
}

// getRequest takes a request from the worker's free list, or makes one. The completion of a free
// request counts one operation and holds no error, and the request refers to nothing of the
// application.
func (rp *requestPool) getRequest() *Request {
	r := rp.takeIdle()
	if r == nil {
		return rp.nextRequest()
	}
	r.state = 0
	r.setLife(lifeInFlight)
	return r
}

// takeIdle takes an idle request, nil if there is none.
func (rp *requestPool) takeIdle() *Request {
	switch {
	case !rp.freeRequests.Empty():
		rp.idleRequests--
		return rp.freeRequests.Pop()
	case rp.hasRested():
		return rp.takeRested()
	}
	return nil
}

// empty reports whether takeIdle has no request.
func (rp *requestPool) empty() bool { return rp.freeRequests.Empty() && !rp.hasRested() }

// hasRested reports whether takeRested has a request.
func (rp *requestPool) hasRested() bool { return rp.restEnd-rp.restFirst > quarantine }

// takeRested takes the request that has rested longest.
func (rp *requestPool) takeRested() *Request {
	r := rp.resting[rp.restFirst%restingRequests]
	rp.restFirst++
	return r
}

// nextSpare makes another request the spare one.
func (rp *requestPool) nextSpare() {
	rp.spare = rp.getRequest()
	rp.spareComp = &rp.spare.comp
}

// nextRequest is getRequest if none is idle.
func (rp *requestPool) nextRequest() *Request {
	w := rp.w
	if w.owner.multi {
		if r, ok := rp.spares.Get().(*Request); ok {
			r.state = 0
			r.setLife(lifeInFlight)
			return r
		}
	}
	return rp.newRequest()
}

// newRequest makes a request object and runs the RequestInit hook on it.
func (rp *requestPool) newRequest() *Request {
	w := rp.w
	r := rp.makeRequest()
	w.stats.Requests++
	if fn := w.ctx.params.RequestInit; fn != nil {
		r.callHook(fn)
		if w.owner.gate&gateInside == 0 { // the running call does not raise panics itself
			w.owner.raise()
		}
	}
	if w.ctx.params.RequestCleanup != nil {
		rp.madeRequests = append(rp.madeRequests, r)
	}
	return r
}

func (rp *requestPool) makeRequest() *Request {
	w := rp.w
	r := &Request{w: w, data: datatype.Payload{}}
	r.attach()
	return r
}

// attach makes r the owner of its node, of its pending entry and of its completion, and resets the
// completion.
func (r *Request) attach() {
	r.node.Value = r
	r.pend.Owner = r.hooks()
	r.comp.Owner = r.hooks()
	r.comp.Count = 1
	r.comp.Err = nil
}

// recycleRequests is off in race builds. Then every use of a request after Free is detected,
// instead of corrupting the operation that reuses the object.
const recycleRequests = !race.Enabled

// quarantine is how many requests the application frees on a worker before the first of them serves
// another operation. Until then a second Free is detected for certain. A larger number would cost
// cache misses: a request that a receive has used is three cache lines.
const quarantine = 16

// restingRequests is the number of freed requests that can rest. A power of two.
const restingRequests = 64

// putRequest takes back a finished request that the application has held.
func (rp *requestPool) putRequest(r *Request) {
	rp.clean(r)
	r.setIdle()
	rp.rest(r)
}

// setIdle ends the life of a request, until it serves another operation.
func (r *Request) setIdle() {
	r.state = stateIdle
	r.setLife(lifeIdle)
}

// rest puts an idle request that the application has held at the end of resting.
func (rp *requestPool) rest(r *Request) {
	if !recycleRequests {
		return
	}
	if rp.restEnd-rp.restFirst == restingRequests {
		rp.idle(rp.takeRested())
	}
	rp.resting[rp.restEnd%restingRequests] = r
	rp.restEnd++
}

// clean drops the references of a request, so that an idle request keeps nothing of the application
// alive.
func (rp *requestPool) clean(r *Request) {
	if r.node.Linked() || r.state&stateIdle != 0 {
		panic("ucp: request freed twice or while queued")
	}
	if r.ep != nil || r.proto != nil || r.err != nil || r.state&stateParams != 0 {
		r.ep, r.err, r.op, r.proto, r.form, r.userData = nil, nil, nil, nil, nil, nil
		r.onSend, r.onTagRecv, r.onRecv = nil, nil, nil
		r.comp.Count, r.comp.Err = 1, nil
	}
}

// idle puts a request into the free list. A full list gives the request to spares (thread mode
// multi) or to the garbage collector, unless a RequestCleanup hook must see each request.
func (rp *requestPool) idle(r *Request) {
	w := rp.w
	if w.owner.multi && rp.idleRequests >= maxOwnRequests && rp.madeRequests == nil {
		rp.spares.Put(r)
		return
	}
	if rp.idleRequests >= maxIdleRequests && rp.madeRequests == nil {
		return
	}
	rp.idleRequests++
	rp.freeRequests.Push(&r.node)
}

// maxOwnRequests bounds the free list in thread mode multi, which only the owner of the worker
// uses. Further requests go to spares, for delegated calls.
const maxOwnRequests = 256

// maxIdleRequests is the largest number of requests in the free list, about 8 MiB.
const maxIdleRequests = 1 << 14

// recycle puts back a request that the application has not seen.
func (rp *requestPool) recycle(r *Request) {
	r.setIdle()
	if recycleRequests {
		rp.idle(r)
	}
}

// useRequest returns the object for an operation, with the parameters that all operations share.
// The object is the application's own, the promised one of a delegated call, or one of the pool.
// The caller has checked the parameters.
func (rp *requestPool) useRequest(p *RequestParams) (*Request, error) {
	w := rp.w
	if p == nil {
		r := rp.getRequest()
		r.state, r.mode = stateInCall, 0
		return r, nil
	}
	var r *Request
	switch {
	case rp.promised != nil:
		r, rp.promised = rp.promised, nil
		r.state = stateInCall | statePromised
	case p.Request == nil:
		r = rp.getRequest()
		r.state = stateInCall
	default:
		r = p.Request
		if r.node.Linked() || r.w != nil && !r.Done() {
			return nil, fmt.Errorf("ucp: RequestParams.Request is in use by an operation that is not done: %w", ucs.ErrInvalidParam)
		}
		*r = Request{Private: r.Private, w: w, data: datatype.Payload{}, state: stateInCall | stateUser,
			mem: r.mem, offer: r.offer, fetch: r.fetch, am: r.am, access: r.access, iov: r.iov}
		r.attach()
	}
	if p.Flags&OpNoImmediate != 0 {
		r.state |= stateNoImm
	}
	r.state |= stateParams
	r.mode = sendMode(p.Flags)
	r.onSend, r.onTagRecv, r.onRecv, r.userData = p.OnSend, p.OnTagRecv, p.OnStreamRecv, p.UserData
	return r, nil
}

// dropRequest gives back a request whose operation was never started.
func (rp *requestPool) dropRequest(r *Request) {
	if r.proto != nil {
		r.proto.release(r)
	}
	r.releaseResources()
	finishData(r)
	if ep := r.ep; ep != nil {
		r.ep = nil
		if r.state&stateUncounted == 0 {
			ep.unbind()
		}
	}
	if r.state&statePromised != 0 {
		return
	}
	if r.state&stateUser != 0 {
		r.w = nil
		return
	}
	rp.clean(r)
	rp.recycle(r)
}

// A call that waits may return before its operation ends: because its context has ended (afterWait),
// or because it sends a reply that it need not wait for (reply_limit.go). Then the data of the send
// is copied, so that the caller gets its buffer back. Only data that the transport has not accepted
// is copied.

// ownData copies the data of a send, and reports whether the caller's buffer is no longer in use.
// The buffer stays in use while the peer reads it, or while a transport that cannot copy it reads
// it.
func (rp *requestPool) ownData(r *Request) bool {
	if r.state&stateCopied != 0 {
		return true
	}
	rest := r.state&stateSent == 0
	if r.data.Class != datatype.Contig {
		return !rest
	}
	rp.copyInstead(r)
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
		if r.mem.busy() || r.region != nil || !r.ep.copyUnsent() {
			return false
		}
		rest = r.pend.Queued() || r.node.Linked() || r.is(kindWrite) // a rendezvous may have more parts
	default:
		return !rest
	}
	if rest && r.data.Length > 0 {
		r.data.Buf = append(r.w.buffers.Get(r.data.Length), r.data.Buf...)
		r.state |= stateCopied
		if extra := r.data.Length - maxOfReply; extra > 0 && r.state&stateCharged != 0 {
			r.ep.charge.replies.charge(r, extra, r.state&stateExpectsMessage != 0)
		}
	}
	if r.form != nil && r.form.active && r.am != nil {
		r.am.copyHeader(&r.w.buffers)
	}
	return true
}

// copyInstead switches a zero-copy message of which nothing was sent to the copying protocol, if it
// fits. Zero-copy would not do for the copied data: the registration of the caller's buffer does
// not cover the copy.
func (rp *requestPool) copyInstead(r *Request) {
	if !r.mem.busy() || r.mem.given != nil || !r.pend.Queued() || r.offset > 0 || r.comp.Count > 1 {
		return
	}
	switch r.proto.(type) {
	case eagerZcopy:
		if r.form.only.size+r.w.am.tailSize(r, &r.form.only.tail)+r.data.Length > r.ep.cfg.maxBcopy {
			return
		}
		r.proto = eagerBcopy{}
	case eagerMultiZcopy:
		r.proto = eagerMultiBcopy{}
	default:
		return
	}
	r.mem.releaseHandles()
}

// copyUnsent makes the endpoint's transports copy the data that they still read from callers'
// buffers, and reports whether all of them can.
func (ep *Endpoint) copyUnsent() bool {
	for i := range ep.lanes {
		l := &ep.lanes[i]
		if n, ok := l.uct.(uct.NetworkEndpoint); ok && n.CopyUnsent() {
			continue
		}
		if l.iface.attr.AM.MaxZcopy > 0 || l.iface.attr.Put.MaxZcopy > 0 {
			return false
		}
	}
	return true
}

// busy reports whether memory is registered for the request. A copy of the data would not be
// registered.
func (m *requestMemory) busy() bool {
	return m != nil && (m.given != nil || len(m.handles) > 0 || len(m.exposed) > 0)
}
