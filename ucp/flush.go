package ucp

import (
	"cmp"
	"fmt"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// flushFamily is the family of the operations that wait for all operations started before them:
// flushes and closes.
type flushFamily struct{ noFamily }

func (flushFamily) about() familyInfo { return familyInfo{name: "flush"} }

// purge ends the flushes of the endpoint that wait for operations in pieces.
func (flushFamily) purge(ep *Endpoint, err error) {
	if p := ep.pieces(); p != nil {
		abortAll(&p.waitingFlushes, err)
	}
}

// The flags and parameters that Flush and CloseAsync accept.
var (
	callFlush = callRule{"a flush", OpNoImmediate | OpForceImmediate, paramOnSend}
	callClose = callRule{"a close", OpNoImmediate | OpForceImmediate, paramOnSend | paramCloseFlags}
)

// flushState is the state of a flush, or of an operation that flushes wait for.
type flushState struct {
	posted, asked uint32 // counts that rmaFlow.completed and rmaFlow.answered must reach
	epoch         uint32 // of a flush: it waits for the operations of earlier epochs (pieceFlow); of an operation in pieces: its epoch
}

// flushing is the protocol of a flush of all lanes of an endpoint. The types flush, flushPart and
// lastFlush embed it.
type flushing struct{ basics }

// progress first waits until operations in pieces are sent (pieceFlow). Then it asks the
// transports to flush everything sent before, one lane after the other. After that the flush waits
// for operations by messages (lanesFlushed).
func (flushing) progress(r *Request) error {
	if len(r.ep.lanes) == 0 {
		return ucs.ErrNotConnected
	}
	if r.state&stateBehind == 0 { // operations that are counted later come after the flush, or wait for the fence
		r.state |= stateBehind
		if r.ep.pieces().waitForOperations(r) {
			return nil
		}
	}
	for ; int(r.step) < len(r.ep.lanes); r.step++ {
		r.lane = r.step
		r.comp.Count++
		err := r.ep.lanes[r.step].uct.Flush(uct.FlushRemote, &r.comp)
		if err == ucs.InProgress {
			continue
		}
		r.comp.Count--
		if err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

// completed is called when all lanes have flushed.
func (flushing) completed(r *Request, err error) { lanesFlushed(r, err) }

// flushBegun adds a flush to Endpoint.flushes, the number of flushes in flight, which may wait for
// answers of the peer's transports. When the counter reaches countless it is not changed any more,
// and the endpoint counts as flushing for the rest of its life.
func (ep *Endpoint) flushBegun() {
	if ep.flushes != maxFlushes {
		ep.flushes++
	}
	ep.w.stream.expect()
}

// maxFlushes is the largest value of Endpoint.flushes. It means that the number of flushes is not
// known.
const maxFlushes = 1<<16 - 1

func (flushing) release(r *Request) {
	if r.ep.flushes != maxFlushes {
		r.ep.flushes--
	}
}

// flush is a flush of one endpoint that the application asked for.
type flush struct{ flushing }

func (flush) about() protocolInfo { return protocolInfo{name: "flush", kind: kindFlush} }

// flushPart is the flush of one endpoint as part of a flush of the worker.
type flushPart struct{ flushing }

func (flushPart) about() protocolInfo { return protocolInfo{name: "flush", kind: kindFlush} }

// release reports the end of this part to the flush of the worker. The error of an endpoint that
// failed meanwhile is reported only if the worker is closed; otherwise it is dropped, because
// nothing is left to flush.
func (p flushPart) release(r *Request) {
	p.flushing.release(r)
	parent := r.userData.(*Request)
	r.userData = nil
	err := r.err
	if !r.w.closed {
		err = nil
	}
	parent.comp.Done(err)
}

// workerFlush is a flush of the worker. It waits for the flushes of the worker's endpoints.
type workerFlush struct{ basics }

func (workerFlush) about() protocolInfo { return protocolInfo{name: "worker flush", kind: kindFlush} }

func (workerFlush) progress(*Request) error { return nil }

// Flush is done when all one-sided operations started on the endpoint before it have taken
// effect at the peer, and all messages sent before it have been sent. It does not wait for
// messages to be matched. In ThreadModeMulti it fails with the error of an operation that
// was delegated to another goroutine and failed after its call had returned as done.
// With OpForceImmediate the flush is done in the call, or fails with ucs.ErrNoResource if
// it would have to wait.
func (ep *Endpoint) Flush(p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.Flush", ep == nil)
	}
	if err := callFlush.check(nil, p); err != nil {
		return nil, err
	}
	w := ep.w
	if !w.owner.tryAcquire() {
		c := w.newCall(startFlush).with(p)
		c.ep, c.rule = ep, &callFlush
		return c.delegate()
	}
	r, err := ep.beginFlush(p)
	w.owner.release()
	return r, err
}

func startFlush(c *call) (*Request, error) { return c.ep.beginFlush(c.p) }

func (ep *Endpoint) beginFlush(p *RequestParams) (*Request, error) {
	if err := ep.usable(); err != nil {
		return nil, err
	}
	if err := ep.takeError(); err != nil {
		return nil, err
	}
	if (p == nil || p.Flags == 0 && p.Request == nil) && ep.cfg.inHost && ep.w.ends.flushNow(ep) == nil {
		return nil, nil // most often the operations have taken effect at once
	}
	r, err := ep.w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	if p != nil && p.Flags&OpForceImmediate != 0 {
		return ep.w.ends.flushedNow(r, ep.w.ends.flushNow(ep))
	}
	r.setEndpoint(ep)
	r.proto, r.step = flush{}, 0
	ep.flushBegun()
	ep.submit(r)
	return r.result()
}

// Flush flushes every endpoint of the worker, as Endpoint.Flush does.
func (w *Worker) Flush(p *RequestParams) (*Request, error) {
	if w.missing() {
		return nil, errMissing("Worker.Flush", w == nil)
	}
	if err := callFlush.check(nil, p); err != nil {
		return nil, err
	}
	if !w.owner.tryAcquire() {
		c := w.newCall(startWorkerFlush).with(p)
		c.rule = &callFlush
		return c.delegate()
	}
	r, err := w.beginFlush(p)
	w.owner.release()
	return r, err
}

func startWorkerFlush(c *call) (*Request, error) { return c.w.beginFlush(c.p) }

func (w *Worker) beginFlush(p *RequestParams) (*Request, error) {
	if w.closed {
		return nil, w.closedFor("Flush")
	}
	r, err := w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	if p != nil && p.Flags&OpForceImmediate != 0 {
		return r.w.ends.flushedNow(r, w.flushNow())
	}
	r.proto = workerFlush{}
	var lost error
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err != nil {
			return
		}
		r.comp.Count++
		part := ep.control(flushPart{})
		part.step, part.userData = 0, r
		ep.flushBegun()
		ep.submit(part)
		lost = cmp.Or(lost, ep.takeError())
	})
	r.comp.Done(lost)
	return r.result()
}

// CloseAsync closes the endpoint. From then on the endpoint refuses operations. By default the
// operations that were started before go on, and the close is done after them. That includes
// messages that wait for the peer to match them, so a peer that never does delays the close. These
// operations end with ucs.ErrCanceled if the peer's endpoint is gone, or if Close is called. After
// the close the library may keep an endpoint that was made with an address, hidden, as long as the
// peer's application holds its endpoint.
//
// With CloseForce the endpoint is released in the call and all its operations end with
// ucs.ErrCanceled, without waiting; that needs ErrModePeer. After a failure of the peer
// either form releases the endpoint at once. A second close gives ucs.ErrNotConnected.
// While another goroutine uses the worker, or waits on it, the close is refused with
// ucs.ErrBusy, except in ThreadModeMulti.
func (ep *Endpoint) CloseAsync(p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.CloseAsync", ep == nil)
	}
	if err := ep.w.owner.acquireChecked(); err != nil {
		return nil, err
	}
	r, err := ep.w.ends.closeAsync(ep, p)
	ep.w.owner.release()
	return r, err
}

func startClose(c *call) (*Request, error) { return c.ep.w.ends.closeAsync(c.ep, c.p) }

func (ee *endpointEnds) closeAsync(ep *Endpoint, p *RequestParams) (*Request, error) {
	var flags CloseFlags
	if err := callClose.check(nil, p); err != nil {
		return nil, err
	}
	if p != nil {
		flags = p.CloseFlags
		if flags&CloseForce != 0 && p.Flags&OpNoImmediate != 0 {
			return nil, fmt.Errorf("ucp: CloseAsync: CloseForce is done in the call and excludes OpNoImmediate: %w", ucs.ErrInvalidParam)
		}
	}
	if ep.life.Refuses() {
		return nil, ucs.ErrNotConnected
	}
	if flags&CloseForce != 0 {
		if ep.errMode == ErrModeNone {
			return nil, fmt.Errorf("ucp: CloseAsync with CloseForce needs ErrModePeer, endpoint %s has ErrModeNone: %w", ep.describe(), ucs.ErrInvalidParam)
		}
		ee.destroy(ep, ucs.ErrCanceled)
		return nil, nil
	}
	if ep.err != nil {
		return ee.closeFailed(ep, p)
	}
	return ee.startClosing(ep, life.Close, p)
}

// closeFailed closes an endpoint whose peer has failed. That is done in the call.
func (ee *endpointEnds) closeFailed(ep *Endpoint, p *RequestParams) (*Request, error) {
	if p == nil || p.Flags&OpNoImmediate == 0 {
		ee.destroy(ep, ep.err)
		return nil, nil
	}
	r, err := ep.w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	r.ep, r.proto = ep, closeRequest{}
	r.state |= stateUncounted
	ee.destroy(ep, ep.err)
	r.finish(nil)
	return r.result()
}

// startClosing starts a close that waits for the operations started before it. how is life.Close,
// or life.ShutdownClose for Worker.Shutdown.
func (ee *endpointEnds) startClosing(ep *Endpoint, how life.Event, p *RequestParams) (*Request, error) {
	if p != nil && p.Flags&OpForceImmediate != 0 {
		return nil, ucs.ErrNoResource
	}
	r, err := ep.w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	r.ep, r.proto = ep, closeRequest{}
	r.state |= stateUncounted
	ep.ensureExtra().closing = r
	ep.report(how, nil)
	ee.markEnded(ep)
	if ep.life.Stage == life.Draining {
		ep.w.uctw.Push() // sends what the transports have collected, without waiting for progress
	}
	return r.result()
}

// closeRequest is the operation of a close, which the application waits for. Other requests carry
// out the steps of the close.
type closeRequest struct{ basics }

func (closeRequest) about() protocolInfo { return protocolInfo{name: "close", kind: kindClose} }

func (closeRequest) progress(*Request) error { return nil }

// A flush with OpForceImmediate is done in the call if nothing is left to wait for, and otherwise
// starts nothing. Some transports must first send the peer a question to find that out, as tcp does
// after messages; the flush then fails. When the peer's answer has arrived, a later flush can
// succeed.

// flushNow flushes the endpoint. It returns ucs.ErrNoResource if the flush would have to wait.
func (ee *endpointEnds) flushNow(ep *Endpoint) error {
	if len(ep.lanes) == 0 || !ep.waiting.Empty() {
		return ucs.ErrNoResource
	}
	if f := ep.rma; ep.pieces().busy() || f != nil && !f.idle() {
		return ucs.ErrNoResource
	}
	for i := range ep.lanes {
		err := ep.lanes[i].uct.Flush(uct.FlushRemote, nil)
		if err == ucs.InProgress {
			err = ucs.ErrNoResource
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flushNow flushes all endpoints. It returns ucs.ErrNoResource if a flush would have to wait.
func (w *Worker) flushNow() (err error) {
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err == nil && err == nil && ep.w.ends.flushNow(ep) != nil {
			err = ucs.ErrNoResource
		}
	})
	if err == nil {
		w.endpoints.Each(func(ep *Endpoint) {
			if ep.err == nil {
				err = cmp.Or(err, ep.takeError())
			}
		})
	}
	return err
}

// flushedNow ends the request of a flush with OpForceImmediate in its call. err is the result of
// flushNow; with ucs.ErrNoResource the request is dropped, because nothing was started.
func (ee *endpointEnds) flushedNow(r *Request, err error) (*Request, error) {
	if err == ucs.ErrNoResource {
		r.w.pool.dropRequest(r)
		return nil, err
	}
	r.finish(err)
	return r.result()
}

// rmaFlow is an endpoint's state of one-sided operations, allocated for the first such operation.
// Operations by messages are counted. Each put and each posted atomic operation is answered by a
// CMPL, which says only that one more of them is done. Gets and fetching atomic operations are
// answered by their result. Both kinds of answers come in the order of the operations, so a flush
// is done when the counts of answers have reached the counts that the operations had when the flush
// began. Counts wrap around.
type rmaFlow struct {
	posted, completed uint32 // numbers of operations answered by CMPL: sent, answered
	asked, answered   uint32 // numbers of operations answered with data: sent, answered

	flushing list.List[Request] // flushes that wait for answers, in order
	fencing  *Request           // a fence that holds back the operations started after it

	completionsOwed int   // CMPLs to send to the peer
	reading         int32 // gets by messages that are not answered
	completing      bool  // a request that sends CMPLs is in flight
	direct          bool  // a direct operation was started since the last fence
	messages        bool  // an operation by messages was started since the last fence
	bypassed        bool  // a key has ever let a lane access memory without the peer's worker
}

// flow returns the endpoint's rmaFlow, and creates it if there is none.
func (ep *Endpoint) flow() *rmaFlow {
	if ep.rma == nil {
		ep.rma = new(rmaFlow)
	}
	return ep.rma
}

func (ep *Endpoint) markDirect()               { ep.flow().direct = true }
func (rm *rmaState) markMessages(ep *Endpoint) { ep.flow().messages = true }

// reached reports whether count n has reached mark. Counts may wrap around.
func reached(n, mark uint32) bool { return int32(n-mark) >= 0 }

// settled reports whether everything that a flush waits for has been answered.
func (f *rmaFlow) settled(r *Request) bool {
	return reached(f.completed, r.flush.posted) && reached(f.answered, r.flush.asked)
}

// idle reports whether the peer has answered everything.
func (f *rmaFlow) idle() bool { return f.completed == f.posted && f.answered == f.asked }

// advance ends the flushes that have no more answers to wait for.
func (f *rmaFlow) advance() {
	for !f.flushing.Empty() && f.settled(f.flushing.Front().Value) {
		r := f.flushing.Pop()
		r.w.rma.flushed(r, nil)
	}
}

// lanesFlushed is called when the lanes have flushed for a flush r. Operations by messages may
// still be unanswered; the flush then waits for their answers. If another lane has failed
// meanwhile, and the endpoint with it, no answers come any more, and the flush ends with the error.
func lanesFlushed(r *Request, err error) {
	f := r.ep.rma
	if err != nil || f == nil {
		r.w.rma.flushed(r, err)
		return
	}
	r.flush.posted, r.flush.asked = f.posted, f.asked
	if f.settled(r) {
		r.w.rma.flushed(r, nil)
		return
	}
	if err := r.ep.gone(); err != nil {
		r.w.rma.flushed(r, err)
		return
	}
	f.flushing.Push(&r.node)
}

// flushed ends a flush that has nothing left to wait for.
func (rm *rmaState) flushed(r *Request, err error) { r.finish(err) }

// addCompletionOwed tells the peer that one of its puts or posted atomic operations is done. A CMPL
// that cannot be sent at once is counted, not queued, so a peer that does not read its answers
// costs no memory.
func (ep *Endpoint) addCompletionOwed() {
	f := ep.flow()
	f.completionsOwed++
	if f.completing {
		return
	}
	f.completing = true
	ep.reply(ep.control(sendCompletions{}))
}

// sendCompletions sends the CMPLs that are owed.
type sendCompletions struct{ basics }

func (sendCompletions) about() protocolInfo {
	return protocolInfo{name: "rma completion", needs: needID}
}

func (sendCompletions) progress(r *Request) error {
	ep, f := r.ep, r.ep.rma
	for f.completionsOwed > 0 {
		f.completionsOwed-- // before the call: the peer may be this worker
		err := ep.ue.AMShort(uct.AMID(proto.IDCmpl), uint64(ep.remoteID), nil, 0, nil)
		if err != nil && err != ucs.InProgress {
			f.completionsOwed++
			return err
		}
	}
	f.completing = false // before finish, which may be deferred: more may be owed by then
	r.finish(nil)
	return nil
}

// abort lets another request send the CMPLs that are owed.
func (p sendCompletions) abort(r *Request, err error) {
	r.ep.rma.completing = false
	p.basics.abort(r, err)
}

// onCompletion receives a CMPL: the peer has done one more put or posted atomic operation.
func (rm *rmaState) onCompletion(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rm.w
	h, err := proto.ParseCmpl(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep := w.endpoints.Get(uint64(h.EpID))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, ep) {
		return nil
	}
	f := ep.rma
	if f == nil || f.posted == f.completed {
		return w.logMalformed(errCompletion)
	}
	f.completed++
	f.advance()
	return nil
}

var errCompletion = &proto.FormatError{What: "completion", Reason: "nothing is outstanding", Status: ucs.ErrIO}

// pieceFlow is an endpoint's state of operations in pieces, allocated for the first such operation. An
// operation is in pieces if a part of it may be sent after a later flush has reached the lane of that
// part: the CPU copies it in several rounds of progress; or it goes over several lanes, of which one may
// have no room while a flush passes it on another. A transport's flush does not cover what is still to come,
// so a flush waits for the operations in pieces that were started before it. These are counted by epoch, and
// a flush begins a new epoch. An operation over several lanes is counted until they have taken all of it,
// one that is copied until its end.
type pieceFlow struct {
	first          uint32             // epoch of counts[0]
	counts         []int              // operations in flight, by epoch
	waitingFlushes list.List[Request] // flushes that wait for operations
}

// pieces returns the endpoint's state of operations in pieces, nil if it has had none.
func (ep *Endpoint) pieces() *pieceFlow {
	if ep.extra == nil {
		return nil
	}
	return ep.extra.pieces
}

// splitLong counts an operation that the CPU copies, if it is longer than one piece. It is called before the
// operation starts, because fences and flushes must know of it.
func (r *Request) splitLong() {
	if r.data.Length > datatype.Piece {
		r.split()
	}
}

// splitRails counts an operation over several lanes, when its progress is called for the first time.
func (r *Request) splitRails(lanes int) {
	if lanes > 1 && r.offset == 0 && r.state&stateSplit == 0 {
		r.split()
	}
}

func (r *Request) split() {
	x := r.ep.ensureExtra()
	if x.pieces == nil {
		x.pieces = new(pieceFlow)
	}
	r.state |= stateSplit
	r.flush.epoch = x.pieces.enter()
}

// unsplit ends the counting of an operation in pieces, and resumes the flushes that waited for it.
func (r *Request) unsplit() {
	if r.state&stateSplit != 0 {
		r.state &^= stateSplit
		r.ep.extra.pieces.leave(r.flush.epoch)
	}
}

// enter counts an operation and returns its epoch.
func (c *pieceFlow) enter() uint32 {
	if len(c.counts) == 0 {
		c.counts = append(c.counts, 0)
	}
	last := len(c.counts) - 1
	c.counts[last]++
	return c.first + uint32(last)
}

// leave is called at the end of an operation. Flushes that need not wait any longer are resumed at
// the end of the round of progress, because the operation must be reported first.
func (c *pieceFlow) leave(epoch uint32) {
	c.counts[epoch-c.first]--
	over := 0
	for over < len(c.counts) && c.counts[over] == 0 {
		over++
	}
	c.first += uint32(over)
	c.counts = c.counts[:copy(c.counts, c.counts[over:])]
	for !c.waitingFlushes.Empty() && reached(c.first, c.waitingFlushes.Front().Value.flush.epoch) {
		p := c.waitingFlushes.Pop()
		p.state |= stateMoves
		p.dispatchLater()
	}
}

// busy reports whether operations in pieces are in flight.
func (c *pieceFlow) busy() bool { return c != nil && len(c.counts) > 0 }

// waitForOperations makes a flush wait for the operations in flight. It returns false if there are none.
func (c *pieceFlow) waitForOperations(r *Request) bool {
	if !c.busy() {
		return false
	}
	if c.counts[len(c.counts)-1] > 0 {
		c.counts = append(c.counts, 0)
	}
	r.flush.epoch = c.first + uint32(len(c.counts)) - 1
	c.waitingFlushes.Push(&r.node)
	return true
}

// fence holds back the one-sided operations after it until those before it have taken effect: it is
// a flush, whose end the later operations need (needFence).
type fence struct{ flushing }

func (fence) about() protocolInfo { return protocolInfo{name: "fence", kind: kindFlush} }

func (p fence) progress(r *Request) error {
	if r.state&stateBehind == 0 { // progress may run several times, and meanwhile another fence may have begun
		f := r.ep.flow()
		f.direct, f.messages = false, false
		f.fencing = r
		r.ep.needs |= needFence
	}
	return p.flushing.progress(r)
}

// release starts the operations that the fence held back.
func (fence) release(r *Request) {
	ep := r.ep
	if ep.rma == nil || ep.rma.fencing != r {
		return
	}
	ep.rma.fencing = nil
	word.Fence() // writes through mappings become visible before what follows
	if ep.err == nil {
		ep.resolveNeed(needFence)
	}
}

// Fence orders one-sided operations: on every endpoint, operations started before it take
// effect at the peer before those started after it. It does not wait and does not indicate
// completion.
func (w *Worker) Fence() error {
	if w.missing() {
		return errMissing("Worker.Fence", w == nil)
	}
	w.owner.acquire()
	err := w.rma.fenceAll()
	w.owner.release()
	return err
}

func (rm *rmaState) fenceAll() error {
	w := rm.w
	if w.closed {
		return w.closedFor("Fence")
	}
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err == nil && ep.rma != nil && ep.life.Stage != life.Gone {
			rm.fenceEndpoint(ep)
		}
	})
	return nil
}

// fenceEndpoint orders the operations of an endpoint: at once if the lane can do that, and
// otherwise with a request. That request also follows operations that wait, whose protocols are not
// chosen yet.
func (rm *rmaState) fenceEndpoint(ep *Endpoint) {
	if ep.waiting.Empty() && !rm.fenceNeedsFlush(ep) {
		rm.fenceLane(ep)
		return
	}
	r := ep.control(nil)
	r.op, r.step = fenceOperation{}, 0
	ep.submit(r)
}

// fenceOperation is the operation of a fence that is submitted behind other operations.
type fenceOperation struct{}

func (fenceOperation) name() string { return "fence" }

func (fenceOperation) choose(r *Request) (protocol, error) {
	if r.ep.w.rma.fenceNeedsFlush(r.ep) {
		return fence{}, nil
	}
	return plainFence{}, nil
}

// plainFence is a fence that needs only a call of the transport.
type plainFence struct{ basics }

func (plainFence) about() protocolInfo { return protocolInfo{name: "fence", kind: kindFlush} }

func (plainFence) progress(r *Request) error {
	r.ep.w.rma.fenceLane(r.ep)
	r.finish(nil)
	return nil
}

// fenceNeedsFlush reports whether the operations started before the fence must be done before any
// later one starts. That is so with several lanes, which keep no order among each other; with lanes
// on which messages may overtake writes; if messages, which the peer's worker carries out, may be
// mixed with accesses that bypass it; while operations in pieces are in flight, or gets by messages,
// whose answers the peer may still be reading from its memory; and with the strong fence mode.
func (rm *rmaState) fenceNeedsFlush(ep *Endpoint) bool {
	f := ep.flow()
	if !f.direct && !f.messages {
		return false
	}
	if len(ep.lanes) > 1 || f.messages && f.bypassed || ep.pieces().busy() || f.reading > 0 || ep.w.ctx.settings.FenceMode == fenceStrong {
		return true
	}
	for i := range ep.lanes {
		if f.direct && !ep.lanes[i].iface.attr.Flags.Has(uct.IfacePutAMOrder) {
			return true
		}
	}
	return false
}

// fenceLane orders the operations started on the endpoint's only lane. Requests in the lane's queue
// keep their order anyway. A transport refuses a fence only on a lane that has failed: nothing is left
// to order there, and the failure is reported like any other.
func (rm *rmaState) fenceLane(ep *Endpoint) {
	if f := ep.rma; f.direct || f.messages {
		_ = ep.ue.Fence()
	}
}
