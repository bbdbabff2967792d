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

// call is a call of the application that is described: so that another goroutine can
// carry it out, or because it waits for the end of what it starts. In thread mode multi
// one that finds the worker taken leaves its description to who has it (leave).
// One that waits is told of the end of the operation (wait.go, wait_leader.go).
type call struct {
	engine.Waiter
	engine.Task
	w     *Worker
	start func(*call) (*Request, error) // carries it out

	// What the caller has said.
	ep     *Endpoint
	key    *Rkey
	msg    *TagMessage
	am     *AMMessage // to be received, or that a queue has given
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
	p      *RequestParams // nil, or params
	params RequestParams
	rule   *callRule

	// Of one that was left to others.
	promised *Request // what the caller got for it, nil if it is brief
	made     bool     // for this call
	memory   *Memory  // that is kept in place for it
	detached bool     // it is done for the caller, who need not hear of it again
	small    [smallBytes]byte

	waiting
}

// smallBytes is the longest message of which a copy is left, so that the send is done.
const smallBytes = 64

var calls = sync.Pool{New: func() any { return new(call) }}

// newCall returns the description of a call, to be filled in.
func (w *Worker) newCall(start func(*call) (*Request, error)) *call {
	c := calls.Get().(*call)
	c.w, c.start = w, start
	return c
}

// drop gives back a description that nobody knows of any more.
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

// with sets optional parameters, which the caller may use again.
func (c *call) with(p *RequestParams) *call {
	if p != nil {
		c.params = *p
		c.p = &c.params
	}
	return c
}

// Do implements engine.Doer: it carries out the call for another goroutine, in a turn
// of this one.
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
	r.state |= stateParams | stateFreed // goes on, with c.small
	r.onSend, r.userData = endDetached, c
}

// endDetached is the callback of a brief call that has gone on.
func endDetached(_ *Request, err error, c any) { c.(*call).detachedOver(err) }

// detachedOver is the end of a brief call, of whose failure the next flush tells.
func (c *call) detachedOver(err error) {
	if err != nil {
		c.w.keepError(c.ep, err)
	}
	c.w.detachedCalls.Add(-1)
	c.drop()
}

// keepPromise carries out a call whose caller has a request for it, unless err says why
// that cannot be. A callback may have used the request before.
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

// delegate leaves the call to the goroutine that has the worker. It returns what the call
// would return: a request in flight, or none for one that is brief.
func (c *call) delegate() (*Request, error) {
	r, left, err := c.tryDelegate()
	if !left {
		c.drop()
	}
	return r, err
}

// tryDelegate is leave for calls that have another result, besides, where they are not left
// but carried out: the description tells, which the caller drops then.
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

// keepError keeps the error of a call on an endpoint that nobody waits for.
func (w *Worker) keepError(ep *Endpoint, err error) {
	if ep.life.Stage == life.Gone {
		return
	}
	if w.lostErrors == nil {
		w.lostErrors = make(map[*Endpoint]error)
	}
	w.lostErrors[ep] = cmp.Or(w.lostErrors[ep], err) // the first one
}

// takeError returns it, once.
func (ep *Endpoint) takeError() error {
	err := ep.w.lostErrors[ep]
	delete(ep.w.lostErrors, ep)
	return err
}

// maxDetached is about how many brief calls may be under way. Nothing else keeps back who
// makes them: not who has the worker, and maybe for long, nor a peer that does not read.
const maxDetached = 512

// mayDelegate reports whether it makes no difference to the caller who carries it out.
func (c *call) mayDelegate() bool {
	if c.detached && c.w.detachedCalls.Load() >= maxDetached {
		return false
	}
	hooks := c.w.ctx.params.RequestInit != nil || c.w.ctx.params.RequestCleanup != nil
	ended := c.ep != nil && atomic.LoadUint32(&c.ep.ended) != 0
	return c.params.Flags&OpForceImmediate == 0 && c.params.Request == nil && !hooks && !ended
}

// promise returns a request for a call that is left to others, and whether it is a new
// one.
func (w *Worker) promise() (r *Request, made bool) {
	if r, ok := w.pool.spares.Get().(*Request); ok {
		r.setLife(lifeInFlight)
		return r, false
	}
	return w.pool.makeRequest(), true
}

// refused ends a request that was promised to a caller whose call cannot be carried
// out.
func (r *Request) refused(c *call, err error) {
	r.state = stateParams | statePromised | c.state&stateRecv
	r.onSend, r.onTagRecv, r.onRecv, r.userData = c.params.OnSend, c.params.OnTagRecv, c.params.OnStreamRecv, c.params.UserData
	r.finish(err)
}

// In thread mode multi calls that wait for a request are told of its end by whoever
// brings it about.

// watch has the end of the request told to a call.
func (r *Request) watch(c *call) {
	r.state |= stateWatched
	if !c.given {
		r.state |= stateFreed // by the end of it
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

// tell tells those who wait for a request.
func (w *Worker) tell(waiters *call, err error, info TagRecvInfo) {
	for c := waiters; c != nil; {
		next := c.next
		c.info, c.r, c.next = info, nil, nil
		w.owner.engine.End(&c.Waiter, err)
		c = next
	}
}

// waiting is what a call keeps that waits.
type waiting struct {
	given           bool // the request is somebody's, who frees it: else it is the call's
	use             memoryUse
	bound           bool     // its context has ended, and it waits for the end of the operation
	r               *Request // that it waits for, nil if there is none
	next            *call    // waits for the same
	awaitsEndpoints bool     // it waits for the last endpoint to be gone
	event           bool     // it waits for anything to happen

	unasked  bool // whether it has to wait for a reply
	early    bool // its wait has ended before the operation
	earlyErr error

	info   TagRecvInfo
	length int // of the data of an active message

	operand, reply [8]byte // of atomic operations
}

// memoryUse is what an operation does with memory of the caller's.
type memoryUse uint8

const (
	memoryUnused  memoryUse = iota
	memoryOwn               // the call has memory of its own for it: atomic operations
	memoryRead              // sends, puts
	memoryWritten           // receives, gets
)

// begin carries out the call, which waits if it returns a request in flight. One that sends
// may be a reply (reply_limit.go).
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

// mayGo asks, after a round of progress, whether the call need wait.
func (c *call) mayGo() {
	c.unasked = false
	c.early = c.w.replies.accounting.waitsFor(c, c.r) == nil
}

// cancel ends the operation if nothing is lost by that. A request that is somebody's is
// canceled only as a receive that no message has matched.
func (c *call) cancel() {
	switch r := c.r; {
	case c.given:
		c.w.tag.cancelPosted(r)
	case c.use != memoryUnused && r.ep != nil && r.list == &r.ep.waiting: // it has not begun
		r.abort(ucs.ErrCanceled)
	case r.is(kindClose):
		r.ep.w.ends.giveUp(r.ep)
	default:
		c.w.tag.cancel(r)
	}
}

// endAbandoned ends the operation of a call that does not return, but panics with what a callback
// has panicked with: a receive must not take a message for nobody.
func (c *call) endAbandoned() {
	if c.r != nil && !c.given && !c.early && !c.r.Done() && !c.r.is(kindClose) {
		c.cancel()
	}
}

// cancelFor is cancel for who gives up the wait for a reason: mostly that ctx has ended. For
// another one what is somebody's is left alone, who may wait again.
func (c *call) cancelFor(ctx context.Context, reason error) {
	if reason == ctx.Err() || !c.given {
		c.cancel()
	}
}

// outlive decides about an operation that goes on when its wait has ended for a reason. It
// reports whether the call has to wait for the end all the same, as memory of the caller's is
// written until then, and otherwise returns the error of the call.
func (c *call) outlive(reason error) (stay bool, err error) {
	switch {
	case c.given || c.use <= memoryOwn || c.use == memoryRead && c.r.w.pool.ownData(c.r):
		return false, reason
	case c.use == memoryRead:
		return false, fmt.Errorf("ucp: the operation goes on, and its buffer is in use until the endpoint is closed: %w: %w", ucs.InProgress, reason)
	}
	return true, nil
}

// canceled is the error of an operation that has ended with err when its wait had.
func canceled(ctx context.Context, reason, err error) error {
	switch {
	case err != ucs.ErrCanceled:
		return err
	case reason == ctx.Err():
		return fmt.Errorf("ucp: %w: %w", ucs.ErrCanceled, context.Cause(ctx))
	}
	return reason
}

// waitedFor adds to the deadline that has ended a wait what the operation, which goes on,
// waits for, where that is an answer that its endpoint has never had. A peer in shared
// memory that has no room for another endpoint cannot give any.
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

// instead puts what was said of the reason in the place of the reason, in the error of a
// wait that has ended by it.
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

// endpointsGone reports whether no endpoint is left, those that were being closed before too.
func (c *call) endpointsGone() bool { return c.w.endpoints.Len() == 0 }
