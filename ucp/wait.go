package ucp

import (
	"context"
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
)

// Wait progresses the worker until the operation has finished and returns its result. The
// results of the request can be read until Free, which is optional.
//
// If ctx ends first, a receive that no message has matched, and a stream receive, is
// canceled: the error then matches ucs.ErrCanceled and the context's error. Any other
// operation goes on, and the error matches the context's alone; after a deadline it says so
// if the peer has never answered the endpoint. The request is then still in flight, its
// buffer stays the library's until Done, and Wait may be called again.
//
// Inside a callback, or while another goroutine waits on the worker, Wait is refused and
// leaves the request as it is. In ThreadModeMulti any number of goroutines may wait, even
// for the same request.
func (r *Request) Wait(ctx context.Context) error {
	if r == nil {
		return nil
	}
	w := r.w
	if w == nil {
		return ucs.ErrInvalidParam // the application's object, in no operation
	}
	r.checkLive()
	c, err := w.waitingCall(startedBefore)
	if err != nil {
		return err
	}
	c.r, c.given = r, true
	if err = c.wait(ctx); err == errFreed {
		panic(usedAfterFree)
	}
	return err
}

// startedBefore is the start function of a call that waits for a request in flight.
func startedBefore(c *call) (*Request, error) { return c.r, nil }

// Run progresses the worker, sleeping while there is nothing to do, until ctx ends, and
// returns the context's error. In ThreadModeMulti other goroutines may call the worker
// meanwhile; if one closes the worker Run returns ucs.ErrCanceled.
func (w *Worker) Run(ctx context.Context) error {
	if w.missing() {
		return errMissing("Worker.Run", w == nil)
	}
	c, err := w.waitingCall(nil)
	if err != nil {
		return err
	}
	return c.wait(ctx)
}

// Wait sleeps until there is something to progress, or until ctx ends and then returns its
// error. It arms the worker by itself, returns at once if there is already something to
// progress, and does not progress the worker. In ThreadModeMulti it also returns if another
// goroutine has progressed something since the last Wait or Arm: an operation that was not
// done when the caller looked may be done now. Only one goroutine is notified of that, so
// only one goroutine should sleep in Wait or Arm; any number may wait in Request.Wait and
// the other calls that wait for an operation.
func (w *Worker) Wait(ctx context.Context) error {
	if w.missing() {
		return errMissing("Worker.Wait", w == nil)
	}
	if !w.owner.multi {
		return w.wake.waitEvent(ctx)
	}
	c, err := w.waitingCall(nil)
	if err != nil {
		return err
	}
	c.event = true
	return c.wait(ctx)
}

// waitEvent is Worker.Wait in modes other than multi. It needs no call, because nothing is started,
// canceled or progressed; a call would cost some 400 instructions.
func (wk *wakeup) waitEvent(ctx context.Context) error {
	w := wk.w
	if err := wk.needWakeup(); err != nil {
		return err
	}
	if err := wk.beginWait(); err != nil {
		return err
	}
	defer wk.endWait()
	w.owner.acquire()
	err := wk.arm()
	if err == nil {
		if err = wk.Park(ctx); err == nil {
			wk.Consume() // consumes the Signal that may have ended this wait
		}
	} else if err == ucs.ErrBusy {
		err = nil
	}
	w.owner.release()
	return err
}

// waitingCall returns a call that may wait. It fails inside a callback and, in modes other than
// multi, while another goroutine waits on the worker.
func (w *Worker) waitingCall(start func(*call) (*Request, error)) (*call, error) {
	if err := w.wake.beginWait(); err != nil {
		return nil, err
	}
	return w.newCall(start), nil
}

// wait carries out the call, waits for the end of its operation, and drops the call. If ctx ends
// first, an operation that can be canceled is canceled. Of the operations that cannot be canceled,
// wait waits for one that writes to the caller's memory (afterWait); any other goes on after the
// call.
func (c *call) wait(ctx context.Context) error {
	lost, err := c.await(ctx)
	if !lost {
		c.drop()
	}
	return err
}

func (c *call) kind() engine.Kind {
	switch {
	case c.event:
		return engine.Event
	case c.start == nil && c.r == nil:
		return engine.Always
	}
	return engine.Operation
}

// errFreed ends a wait on a request that another goroutine has freed. Request.Wait then panics with
// usedAfterFree.
var errFreed = errors.New("a request was freed while a goroutine waited for it")

// In thread mode multi, the goroutine that ends a request notifies the calls that wait for the
// request. In the other modes a call looks at its request instead (over), unless the request is a
// reply whose wait may end early.

// watch adds c to the calls that are notified when the request ends.
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

// notifyWaiters ends the waits of the calls in waiters, the list of a request that has ended with
// err and info.
func (w *Worker) notifyWaiters(waiters *call, err error, info TagRecvInfo) {
	for c := waiters; c != nil; {
		next := c.next
		c.info, c.r, c.next = info, nil, nil
		w.owner.engine.End(&c.Waiter, err)
		c = next
	}
}

// waiting is the state of a call that waits.
type waiting struct {
	given           bool // the application owns the request and frees it; otherwise the call owns it
	use             memoryUse
	bound           bool     // the wait was given up, but the call must stay until the operation ends
	r               *Request // the request it waits for, nil if there is none
	next            *call    // the next call that waits for the same request
	awaitsEndpoints bool     // it waits for the last endpoint to be gone
	event           bool     // it waits for any event on the worker

	earlyUnchecked bool // the call may be a reply whose end it need not wait for: not checked yet (checkEarlyEnd)

	info   TagRecvInfo
	length int // length of the data of an active message

	operand, reply [8]byte // buffers of atomic operations
}

// memoryUse is what an operation does with the caller's memory.
type memoryUse uint8

const (
	memoryUnused  memoryUse = iota
	memoryOwn               // does not use it: atomic operations, with buffers in the call
	memoryRead              // reads it: sends, puts
	memoryWritten           // writes it: receives, gets
)

// begin carries out the call. If begin returns a request in flight, the call waits for that
// request. A call that sends a reply may not have to wait (reply_limit.go).
func (c *call) begin() (*Request, error) {
	r, err := c.start(c)
	if r != nil && c.use == memoryRead && r.ep != nil && (r.ep.charge != nil || r.ep.pair != nil) {
		if c.w.owner.multi {
			r = c.w.replies.accounting.waitsFor(c, r)
		} else {
			c.earlyUnchecked = true
		}
	}
	return r, err
}

// checkEarlyEnd checks, after a round of progress of a lone call that sends a reply, whether the
// call can return before the reply is sent, and then ends the wait. A wait that may end later, when
// it delays other peers, is found through the request.
func (c *call) checkEarlyEnd() {
	c.earlyUnchecked = false
	r := c.r
	switch {
	case c.w.replies.accounting.waitsFor(c, r) == nil:
		c.r = nil
		c.w.owner.engine.End(&c.Waiter, nil)
	case r.state&stateAwaited != 0:
		r.watch(c)
	}
}

// over reports whether the wait is over.
func (c *call) over() bool {
	return c.Over() || !c.w.owner.multi && c.r != nil && c.r.Done()
}

// result returns the result of a wait that is over. Unless the call was notified, that is the result
// of its request.
func (c *call) result() error {
	if c.Over() {
		return c.Err()
	}
	return c.takeRequest()
}

// takeRequest takes the result of the request, which has ended, and frees the request if it belongs
// to the call.
func (c *call) takeRequest() error {
	r := c.r
	err := r.err
	c.info, c.r = r.info, nil
	if !c.given {
		r.free()
	}
	return err
}

// cancel cancels the operation if no data is lost by that. A request that the application owns is
// canceled only if it is a receive that no message has matched.
func (c *call) cancel() {
	switch r := c.r; {
	case c.given:
		c.w.tag.cancelPosted(r)
	case c.use != memoryUnused && r.ep != nil && r.node.In(&r.ep.waiting): // the operation has not begun
		r.abort(ucs.ErrCanceled)
	case r.is(kindClose):
		r.ep.w.ends.giveUp(r.ep)
	default:
		c.w.tag.cancel(r)
	}
}

// endAbandoned cancels the operation of a call that does not return, because it panics with the
// panic of a callback. Otherwise a receive would consume a message that is never read.
func (c *call) endAbandoned() {
	if c.r != nil && !c.given && !c.r.Done() && !c.r.is(kindClose) {
		c.cancel()
	}
}

// cancelFor cancels the operation of a call that stops waiting with the error reason. If the reason
// is not the end of ctx, a request that the application owns is not canceled, because the
// application may wait for it again.
func (c *call) cancelFor(ctx context.Context, reason error) {
	if reason == ctx.Err() || !c.given {
		c.cancel()
	}
}

// afterWait handles an operation that goes on although its wait has ended with the error reason. The
// result stay reports that the call must still wait for the operation, because the operation writes
// to the caller's memory. Otherwise err is the error of the call.
func (c *call) afterWait(reason error) (stay bool, err error) {
	switch {
	case c.given || c.use <= memoryOwn || c.use == memoryRead && c.r.w.pool.ownData(c.r):
		return false, reason
	case c.use == memoryRead:
		return false, fmt.Errorf("ucp: the operation continues, and its buffer is in use until the endpoint is closed: %w: %w", ucs.InProgress, reason)
	}
	return true, nil
}

// canceled returns the error of a call whose operation ended with err after its wait had ended with
// the error reason.
func canceled(ctx context.Context, reason, err error) error {
	switch {
	case err != ucs.ErrCanceled:
		return err
	case reason == ctx.Err():
		return fmt.Errorf("ucp: %w: %w", ucs.ErrCanceled, context.Cause(ctx))
	}
	return reason
}

// explainDeadline returns the error of a wait that ended with the error reason. If reason is a deadline,
// and the operation goes on because the peer has never answered the endpoint's wireup request, the
// error says so. For example, a peer in shared memory that has no room for another endpoint cannot
// answer.
func (c *call) explainDeadline(reason error) error {
	if reason != context.DeadlineExceeded || c.r == nil || c.r.Done() || c.r.ep == nil {
		return reason
	}
	ep := c.r.ep
	if !ep.handshake.Unanswered() || ep.remoteID != 0 || len(ep.lanes) == 0 {
		return reason
	}
	return ep.w.ends.withEndpointName(ep, fmt.Errorf("the peer has not answered the wireup request over %s: its worker is not progressed, or refuses the request: %w",
		ep.w.selection.laneName(ep, int(ep.cfg.lanes.Wireup)), reason))
}

// replaceReason returns err, the error of a wait, with reason replaced by said. The wait ended with the
// error reason, and said is the explanation from explainDeadline.
func replaceReason(err, reason, said error) error {
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

// Blocking forms of the operations. Each starts an operation, and progresses the worker until the
// operation is done. If waiting is refused (inside a callback, or, unless the worker is in
// ThreadModeMulti, while another goroutine waits on the worker), no operation is started. The
// package comment says what the end of ctx means for each form. In the steady state the forms
// allocate nothing, and an operation that is done in the call does not wait.

// TagSendWait sends buf as TagSend does and waits until buf may be reused. If ctx ends
// before any of the message has been sent, it is not sent, and the error matches
// ucs.ErrCanceled. If part of it has been sent, the send goes on. Then, if the error also
// matches ucs.InProgress, buf must not be changed before the endpoint is closed; otherwise
// buf is the caller's again.
func (ep *Endpoint) TagSendWait(ctx context.Context, tag Tag, buf []byte) error {
	if ep.missing() {
		return errMissing("Endpoint.TagSendWait", ep == nil)
	}
	return ep.w.tag.sendWait(ep, ctx, tag, buf, &tagForm, 0)
}

// TagSendSyncWait sends buf as TagSendSync does and waits until the receiver has matched
// the message. If ctx ends first it behaves as TagSendWait does.
func (ep *Endpoint) TagSendSyncWait(ctx context.Context, tag Tag, buf []byte) error {
	if ep.missing() {
		return errMissing("Endpoint.TagSendSyncWait", ep == nil)
	}
	return ep.w.tag.sendWait(ep, ctx, tag, buf, &tagSyncForm, stateNoImm)
}

func (ts *tagState) sendWait(ep *Endpoint, ctx context.Context, tag Tag, buf []byte, form *messageForm, flags requestState) error {
	c, err := ep.w.waitingCall(startTagSend)
	if err != nil {
		return err
	}
	c.ep, c.tag, c.buf, c.form, c.state = ep, tag, buf, form, flags
	c.use = memoryRead
	return c.wait(ctx)
}

// TagRecvWait receives a tagged message as TagRecv does and waits for it. If ctx ends
// first, nothing is received and the error matches ucs.ErrCanceled; a message of which a
// part has arrived goes to a later receive, as with Worker.Cancel. A message that is being
// fetched from its sender cannot be given back: the call waits for it even after ctx has
// ended, until the fetch, the sender or the connection ends. When the call returns, buf is
// the caller's in any case.
func (w *Worker) TagRecvWait(ctx context.Context, tag, mask Tag, buf []byte) (TagRecvInfo, error) {
	if w.missing() {
		return TagRecvInfo{}, errMissing("Worker.TagRecvWait", w == nil)
	}
	c, err := w.waitingCall(startTagRecv)
	if err != nil {
		return TagRecvInfo{}, err
	}
	c.tag, c.mask, c.buf = tag, mask, buf
	return c.waitRecv(ctx)
}

// RecvWait receives the message as Recv does and waits until all of it has arrived. If ctx
// ends first it behaves as Worker.TagRecvWait does; a message that is given back goes to a
// later receive of its tag.
func (d *TagMessage) RecvWait(ctx context.Context, buf []byte) (TagRecvInfo, error) {
	if d.missing() {
		return TagRecvInfo{}, errMissing("TagMessage.RecvWait", d == nil)
	}
	c, err := d.w.waitingCall(startRecv)
	if err != nil {
		return TagRecvInfo{}, err
	}
	c.msg, c.buf = d, buf
	return c.waitRecv(ctx)
}

// waitRecv is wait for receives. It also returns the info of a receive that is done in the call.
func (c *call) waitRecv(ctx context.Context) (TagRecvInfo, error) {
	c.use, c.p = memoryWritten, &c.params
	c.p.TagInfo = &c.info
	lost, err := c.await(ctx)
	if lost {
		return TagRecvInfo{}, err
	}
	info := c.info
	c.drop()
	if err != nil {
		return TagRecvInfo{}, err
	}
	return info, nil
}

// PutWait writes buf to the peer's memory as Put does and waits until buf may be reused.
// Only a flush guarantees that the data has reached the peer's memory. If ctx ends first it
// behaves as TagSendWait does.
func (ep *Endpoint) PutWait(ctx context.Context, buf []byte, raddr uint64, key *Rkey) error {
	if ep.missing() {
		return errMissing("Endpoint.PutWait", ep == nil)
	}
	return ep.w.rma.accessWait(ep, ctx, startPut, memoryRead, buf, raddr, key)
}

// GetWait reads from the peer's memory as Get does and waits until the data is in buf. If
// ctx ends before the operation has begun, it is not carried out and the error matches
// ucs.ErrCanceled. An operation that has begun is waited for.
func (ep *Endpoint) GetWait(ctx context.Context, buf []byte, raddr uint64, key *Rkey) error {
	if ep.missing() {
		return errMissing("Endpoint.GetWait", ep == nil)
	}
	return ep.w.rma.accessWait(ep, ctx, startGet, memoryWritten, buf, raddr, key)
}

func (rm *rmaState) accessWait(ep *Endpoint, ctx context.Context, start func(*call) (*Request, error), use memoryUse, buf []byte, raddr uint64, key *Rkey) error {
	c, err := ep.w.waitingCall(start)
	if err != nil {
		return err
	}
	c.ep, c.use, c.buf, c.raddr, c.key = ep, use, buf, raddr, key
	return c.wait(ctx)
}

// AtomicWait starts an atomic operation as Atomic does and waits until the previous value
// is in reply. If reply is nil there is nothing to wait for. If ctx ends before the
// operation has begun, it is not carried out and the error matches ucs.ErrCanceled. An
// operation that has begun goes on, and nothing is stored in reply.
func (ep *Endpoint) AtomicWait(ctx context.Context, op AtomicOp, operand []byte, raddr uint64, key *Rkey, reply []byte) error {
	if ep.missing() {
		return errMissing("Endpoint.AtomicWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startAtomic)
	if err != nil {
		return err
	}
	c.ep, c.op, c.raddr, c.key = ep, op, raddr, key
	c.buf = c.operand[:copy(c.operand[:], operand)]
	c.use, c.p = memoryOwn, &c.params
	c.p.ReplyBuffer = reply
	if n := len(reply); n > 0 && n <= len(c.reply) {
		c.p.ReplyBuffer = c.reply[:copy(c.reply[:], reply)] // copied in, because compare-and-swap reads it
	}
	lost, err := c.await(ctx)
	if lost {
		return err
	}
	if err == nil {
		copy(reply, c.p.ReplyBuffer)
	}
	c.drop()
	return err
}

// FlushWait flushes the endpoint as Flush does and waits until the flush is done. If ctx
// ends first its error is returned, and the flush goes on.
func (ep *Endpoint) FlushWait(ctx context.Context) error {
	if ep.missing() {
		return errMissing("Endpoint.FlushWait", ep == nil)
	}
	return ep.w.ends.endWith(ep, ctx, startFlush)
}

// FlushWait flushes every endpoint of the worker and waits until the flush is done.
func (w *Worker) FlushWait(ctx context.Context) error {
	if w.missing() {
		return errMissing("Worker.FlushWait", w == nil)
	}
	c, err := w.waitingCall(startWorkerFlush)
	if err != nil {
		return err
	}
	return c.wait(ctx)
}

// endWith calls start for the endpoint and waits for the end of the operation.
func (ee *endpointEnds) endWith(ep *Endpoint, ctx context.Context, start func(*call) (*Request, error)) error {
	c, err := ep.w.waitingCall(start)
	if err != nil {
		return err
	}
	c.ep = ep
	return c.wait(ctx)
}
