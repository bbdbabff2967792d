package ucp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// call describes a call of the application, either so that another goroutine can carry it out or
// because the call waits for the end of its operation. In thread mode multi, a call that finds the
// worker owned by another goroutine is delegated to that owner (delegate). A call that waits is
// told of the end of the operation (wait.go, wait_leader.go).
type call struct {
	engine.Waiter
	engine.Task
	w     *Worker
	start func(*call) (*Request, error) // carries out the call

	// The arguments of the call.
	ep     *Endpoint
	key    *Rkey
	msg    *TagMessage
	am     *AMMessage // message to be received, or that a queue has returned
	queue  *AMQueue
	amID   uint16
	header []byte // of an active message
	form   *messageForm
	tag    Tag
	mask   Tag
	raddr  uint64
	op     AtomicOp
	state  requestState
	buf    []byte
	p      *RequestParams // nil or &params
	params RequestParams
	rule   *callRule

	// State of a delegated call.
	promised *Request // the request that the caller got, nil if the call is detached
	made     bool     // promised is a new object, to be counted in Stats.Requests
	memory   *Memory  // RequestParams.Memory, in use until the call is carried out
	detached bool     // the call has returned as done: no request, no callback
	small    [smallBytes]byte

	waiting
}

// smallBytes is the longest message that a delegated send copies, so that the send is done for its
// caller.
const smallBytes = 64

var calls = sync.Pool{New: func() any { return new(call) }}

// newCall returns a call with start set, for the caller to fill in.
func (w *Worker) newCall(start func(*call) (*Request, error)) *call {
	c := calls.Get().(*call)
	c.w, c.start = w, start
	return c
}

// drop returns the call to the pool. Nothing may refer to it any more.
func (c *call) drop() {
	c.w, c.start, c.ep, c.key, c.msg, c.form, c.buf, c.rule = nil, nil, nil, nil, nil, nil, nil, nil
	c.am, c.queue, c.header = nil, nil, nil
	if c.p != nil {
		c.p, c.params = nil, RequestParams{}
	}
	if c.memory != nil {
		c.memory.unuse()
		c.memory = nil
	}
	c.promised, c.made, c.detached, c.state = nil, false, false, 0
	c.waiting = waiting{}
	calls.Put(c)
}

// with copies the optional parameters, so that the caller may reuse them.
func (c *call) with(p *RequestParams) *call {
	if p != nil {
		c.params = *p
		c.p = &c.params
	}
	return c
}

// Do implements engine.Doer: the owner of the worker carries out the delegated call.
func (c *call) Do() {
	w := c.w // [do]
	err := w.owner.misused()
	if !c.detached {
		c.keepPromise(err)
		c.drop()
		return
	}
	var r *Request
	if err == nil {
		r, err = c.start(c)
	}
	if r == nil {
		c.detachedOver(err)
		return
	}
	r.state |= stateParams | stateFreed // the operation goes on, with the data in c.small
	r.onSend, r.userData = endDetached, c
}

// endDetached is the callback of a detached call whose operation was not done at once.
func endDetached(_ *Request, err error, c any) { c.(*call).detachedOver(err) }

// detachedOver ends a detached call. The next flush of the endpoint reports a failure.
func (c *call) detachedOver(err error) {
	if err != nil {
		c.w.keepError(c.ep, err)
	}
	c.w.detachedCalls.Add(-1)
	c.drop()
}

// keepPromise carries out a delegated call for which the caller already has a request. If err is
// not nil the call is not carried out and the request ends with err. A callback may have freed or
// canceled the request before.
func (c *call) keepPromise(err error) {
	w, r := c.w, c.promised
	was := r.state
	if was&stateFreed != 0 {
		c.params.OnSend, c.params.OnTagRecv, c.params.OnStreamRecv = nil, nil, nil
	}
	if err == nil && was&stateUnwanted != 0 {
		err = ucs.ErrCanceled
	}
	if c.made {
		w.stats.Requests++
	}
	if err == nil {
		w.pool.promised = r
		_, err = c.start(c)
		w.pool.promised = nil
	}
	if err != nil {
		r.refused(c, err)
	}
	if was&stateFreed != 0 {
		r.free()
	}
}

// delegate passes the call to the goroutine that owns the worker. It returns what the call would
// return: a request in flight, or nil for a detached call.
func (c *call) delegate() (*Request, error) {
	r, left, err := c.tryDelegate()
	if !left {
		c.drop()
	}
	return r, err
}

// tryDelegate is delegate for calls with further results. left reports whether the call was
// delegated. If not, the call was carried out or refused: the caller takes the further results from
// the call, and drops it.
func (c *call) tryDelegate() (r *Request, left bool, err error) {
	w := c.w
	if err := c.rule.check(c.buf, c.p); err != nil {
		return nil, false, err
	}
	switch {
	case !c.mayDelegate():
		w.owner.acquire()
		r, err = c.start(c)
		w.owner.release()
		return r, false, err
	case c.detached:
		w.detachedCalls.Add(1)
		c.buf = c.small[:copy(c.small[:], c.buf)]
	default:
		r, c.made = w.promise()
		r.state, r.userData = stateDelegated|c.state&stateRecv, c.params.UserData
		c.params.Flags |= OpNoImmediate
		c.p, c.promised = &c.params, r
		if m := c.params.Memory; m != nil && m.use() {
			c.memory = m
		}
	}
	c.Of(c)
	w.owner.push(&c.Task)
	return r, true, nil
}

// keepError records the error of a detached call on ep for the next flush. Only the first is kept.
func (w *Worker) keepError(ep *Endpoint, err error) {
	if ep.life.Stage == life.Gone {
		return
	}
	if w.lostErrors == nil {
		w.lostErrors = make(map[*Endpoint]error)
	}
	w.lostErrors[ep] = cmp.Or(w.lostErrors[ep], err) // the first one
}

// takeError returns the error that keepError recorded, and forgets it.
func (ep *Endpoint) takeError() error {
	err := ep.w.lostErrors[ep]
	delete(ep.w.lostErrors, ep)
	return err
}

// maxDetached bounds, approximately, the detached calls in flight. Nothing else slows down a
// goroutine that makes them: neither the owner of the worker, which may own it for long, nor a peer
// that does not read.
const maxDetached = 512

// mayDelegate reports whether the caller would not notice that another goroutine carries out the
// call.
func (c *call) mayDelegate() bool {
	if c.detached && c.w.detachedCalls.Load() >= maxDetached {
		return false
	}
	hooks := c.w.ctx.params.RequestInit != nil || c.w.ctx.params.RequestCleanup != nil
	ended := c.ep != nil && atomic.LoadUint32(&c.ep.ended) != 0
	return c.params.Flags&OpForceImmediate == 0 && c.params.Request == nil && !hooks && !ended
}

// promise returns a request for a delegated call, and whether the object is new.
func (w *Worker) promise() (r *Request, made bool) {
	if r, ok := w.pool.spares.Get().(*Request); ok {
		r.setLife(lifeInFlight)
		return r, false
	}
	return w.pool.makeRequest(), true
}

// refused ends with err the promised request of a call that cannot be carried out.
func (r *Request) refused(c *call, err error) {
	r.state = stateParams | statePromised | c.state&stateRecv
	r.onSend, r.onTagRecv, r.onRecv, r.userData = c.params.OnSend, c.params.OnTagRecv, c.params.OnStreamRecv, c.params.UserData
	r.finish(err)
}

// In thread mode multi, the goroutine that ends a request tells the calls that wait for it.

// watch adds a call to those that are told of the end of the request.
func (r *Request) watch(c *call) {
	r.state |= stateWatched
	if !c.given {
		r.state |= stateFreed // the request belongs to the call, so its end recycles it
	}
	c.next, r.waiters = r.waiters, c
}

func (r *Request) unwatch(c *call) {
	at := &r.waiters
	for *at != c {
		at = &(*at).next
	}
	*at = c.next
	if r.waiters == nil {
		r.state &^= stateWatched
	}
}

// tell ends the waits of the calls in a request's list waiters.
func (w *Worker) tell(waiters *call, err error, info TagRecvInfo) {
	for c := waiters; c != nil; {
		next := c.next
		c.info, c.r, c.next = info, nil, nil
		w.owner.engine.End(&c.Waiter, err)
		c = next
	}
}

// waiting is the state of a call that waits.
type waiting struct {
	given           bool // the application holds the request and frees it; otherwise it is the call's own
	use             memoryUse
	bound           bool     // the wait was given up, but the call must stay until the operation ends
	r               *Request // the request it waits for, nil if there is none
	next            *call    // the next call that waits for the same request
	awaitsEndpoints bool     // it waits for the last endpoint to be gone
	event           bool     // it waits for any event on the worker

	unasked  bool // not checked yet whether it has to wait for its reply (mayGo)
	early    bool // its wait has ended before the operation
	earlyErr error

	info   TagRecvInfo
	length int // length of the data of an active message

	operand, reply [8]byte // buffers of atomic operations
}

// memoryUse is what an operation does with the caller's memory.
type memoryUse uint8

const (
	memoryUnused  memoryUse = iota
	memoryOwn               // none, the call has buffers of its own: atomic operations
	memoryRead              // sends, puts
	memoryWritten           // receives, gets
)

// begin carries out the call. If it returns a request in flight, the call waits for that. A call
// that sends may be a reply that it need not wait for (reply_limit.go).
func (c *call) begin() (*Request, error) {
	r, err := c.start(c)
	if r != nil && c.use == memoryRead && r.ep != nil && (r.ep.charge != nil || r.ep.pair != nil) {
		if c.w.owner.multi {
			r = c.w.replies.accounting.waitsFor(c, r)
		} else {
			c.unasked = true
		}
	}
	return r, err
}

// mayGo checks, after a round of progress, whether a call that sends a reply can return early.
func (c *call) mayGo() {
	c.unasked = false
	c.early = c.w.replies.accounting.waitsFor(c, c.r) == nil
}

// cancel ends the operation if nothing is lost by that. A request that the application holds is
// canceled only if it is a receive that no message has matched.
func (c *call) cancel() {
	switch r := c.r; {
	case c.given:
		c.w.tag.cancelPosted(r)
	case c.use != memoryUnused && r.ep != nil && r.list == &r.ep.waiting: // the operation has not begun
		r.abort(ucs.ErrCanceled)
	case r.is(kindClose):
		r.ep.w.ends.giveUp(r.ep)
	default:
		c.w.tag.cancel(r)
	}
}

// endAbandoned cancels the operation of a call that does not return, because it raises the panic of
// a callback. Otherwise a receive would take a message that nothing reads.
func (c *call) endAbandoned() {
	if c.r != nil && !c.given && !c.early && !c.r.Done() && !c.r.is(kindClose) {
		c.cancel()
	}
}

// cancelFor is cancel for a call that gives up waiting for a reason, mostly that ctx has ended. For
// any other reason a request that the application holds is left alone: the application may wait
// again.
func (c *call) cancelFor(ctx context.Context, reason error) {
	if reason == ctx.Err() || !c.given {
		c.cancel()
	}
}

// outlive decides about an operation that goes on after its wait has ended for a reason. stay
// reports that the call must wait for the end nevertheless, because the operation writes to the
// caller's memory until then. Otherwise err is the error of the call.
func (c *call) outlive(reason error) (stay bool, err error) {
	switch {
	case c.given || c.use <= memoryOwn || c.use == memoryRead && c.r.w.pool.ownData(c.r):
		return false, reason
	case c.use == memoryRead:
		return false, fmt.Errorf("ucp: the operation goes on, and its buffer is in use until the endpoint is closed: %w: %w", ucs.InProgress, reason)
	}
	return true, nil
}

// canceled returns the error of a call whose operation ended with err after its wait had ended for
// a reason.
func canceled(ctx context.Context, reason, err error) error {
	switch {
	case err != ucs.ErrCanceled:
		return err
	case reason == ctx.Err():
		return fmt.Errorf("ucp: %w: %w", ucs.ErrCanceled, context.Cause(ctx))
	}
	return reason
}

// waitedFor explains a deadline that has ended a wait: if the operation goes on because the peer
// has never answered the wireup request of its endpoint, the error says so. A peer in shared memory
// that has no room for another endpoint cannot answer.
func (c *call) waitedFor(reason error) error {
	if reason != context.DeadlineExceeded || c.r == nil || c.r.Done() || c.r.ep == nil {
		return reason
	}
	ep := c.r.ep
	if ep.state&epRequested == 0 || ep.remoteID != 0 || len(ep.lanes) == 0 {
		return reason
	}
	return ep.w.ends.nameIn(ep, fmt.Errorf("the peer has not answered the wireup request over %s: its worker is not progressed, or refuses the request: %w",
		ep.w.selection.laneName(ep, int(ep.cfg.lanes.wireup)), reason))
}

// instead replaces reason by said, the explanation from waitedFor, in the error of a wait that
// reason has ended.
func instead(err, reason, said error) error {
	switch {
	case err == nil || said == reason || !errors.Is(err, reason):
		return err
	case errors.Is(err, ucs.ErrCanceled):
		return fmt.Errorf("%w: %w", ucs.ErrCanceled, said)
	case err == reason:
		return said
	}
	return err
}

// endpointsGone reports whether the worker has no endpoint left. Endpoints that are being closed
// still count.
func (c *call) endpointsGone() bool { return c.w.endpoints.Len() == 0 }
