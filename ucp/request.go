package ucp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucp/internal/regions"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Request is an operation in flight. Only its worker's goroutine may use it; in
// ThreadModeMulti any goroutine may.
//
// Free returns a request of the library to the worker, which reuses it for another
// operation; a request that is never freed is left to the garbage collector. Its results
// can be read until Free. Afterwards the request must not be used: methods and
// Worker.Cancel panic where a use after Free is detected, as Free describes. All methods
// accept nil, which stands for an operation that was done in its call.
type Request struct {
	_ noCopy

	// Position in the one list that holds the request: the free list, a receive queue, or one
	// of its endpoint's lists. Most receives use only the fields down to data, so that they touch
	// few cache lines. The node comes first, because then its address is that of the request.
	node list.Node[Request]

	// Private belongs to the application. ContextParams.RequestInit may set it once per
	// request object; the library does not touch it.
	Private any

	state requestState
	life  uint32 // lifeInFlight, lifeOver or lifeIdle; atomic
	err   error  // the result, once stateDone is set
	w     *Worker

	tag  Tag         // tag of a message, or the tag that a receive matches
	mask Tag         // tag mask of a receive
	sn   uint64      // posting order of a receive
	info TagRecvInfo // sender tag and length of the received message

	onTagRecv func(*Request, error, TagRecvInfo, any)
	onRecv    func(*Request, error, int, any) // callback of receives that report only a length
	userData  any

	data datatype.Payload // the data to send, or the buffer to receive into

	// State of an operation that sends: what the caller asked for, the protocol, the progress.
	onSend    func(*Request, error, any)
	ep        *Endpoint
	op        operation // nil for messages of the library itself
	proto     protocol  // nil until a protocol is chosen; nil for receives without one
	form      *messageForm
	lane      uint8          // the lane of the next transport call
	step      uint8          // the current step of a protocol that has several
	mode      proto.SendMode // send mode, from the caller's flags
	ackStatus ucs.Status     // status in the acknowledgement (ATS, ATP) of a rendezvous
	flush     flushState
	msgID     proto.MessageID // id of a fragmented message, 0 for other sends
	offset    int             // packed bytes handed to the transport, or received from a stream
	frag      int             // bytes of the fragment being packed, or of one element of a stream receive
	localID   uint64          // id by which the peer names this request, 0 for none
	peerID    uint64          // id of the peer's request

	// State of some kinds of operations, allocated at the first use of the object and kept for
	// later uses.
	mem    *requestMemory
	offer  *offerState  // rendezvous, sending side
	fetch  *fetchState  // rendezvous, receiving side
	am     *amRequest   // active message
	access *accessState // one-sided operation
	iov    []uct.IOV    // grows to the transport's limit

	region  *regions.Region // memory of this process, acquired until the end of the operation
	waiters *call           // thread mode multi: the calls that wait for the end of the operation
	ackSize int             // bytes in a rendezvous acknowledgement, or charged for a reply

	pend uct.Pending
	comp uct.Completion
}

// requestState is a set of flags.
type requestState uint32

const (
	stateDone           requestState = 1 << iota // finished, err is final
	stateInCall                                  // the call that started it has not returned
	stateNoImm                                   // OpNoImmediate: the callback runs even in the call
	stateUser                                    // the application supplied the object
	stateFreed                                   // freed while in flight: recycled when done
	stateRecv                                    // a receive: tagged, unless stateStream is set
	stateExpect                                  // in the queue of posted receives
	stateReply                                   // the sync acknowledgement has arrived
	stateSent                                    // all local work of a send is done
	stateIdle                                    // in no operation: freed, or never used
	stateParams                                  // holds a callback or other parameters
	stateAgain                                   // has another stage to run in its dispatch
	stateMoves                                   // continues on another lane after its dispatch
	stateServes                                  // a reply to a peer, counted in rmaState.serving
	stateSplit                                   // an operation in pieces, counted in pieceFlow
	stateBehind                                  // a flush that has waited for operations in pieces
	stateWhole                                   // a receive that got one whole message; holds nothing else
	stateWatched                                 // calls wait for the end and must be notified
	statePromised                                // the caller already has the request, whatever the result
	stateDelegated                               // its call was delegated and has not been carried out yet
	stateUnwanted                                // a delegated call that a callback has canceled since
	stateStream                                  // a stream receive
	stateFull                                    // a stream receive that ends only when its buffer is full
	stateAMRecv                                  // a receive of the data of an active message
	stateNext                                    // waits for the next message of an AMQueue
	stateUncounted                               // not counted in Endpoint.inFlight
	stateCharged                                 // a reply that is charged to the peer
	stateExpectsMessage                          // a charged reply that ends with a message of the peer
	stateAwaited                                 // a charged reply in replyState.waits
	stateCopied                                  // its data is a copy made by the library
	stateGivenUp                                 // canceled in a lane's queue: ends when it is dispatched
)

// Values of Request.life, which any goroutine may read.
const (
	lifeInFlight uint32 = iota
	lifeOver            // as stateDone: err and info are final
	lifeIdle            // as stateIdle
)

// setLife publishes a new value of Request.life. A goroutine that reads the value also sees
// everything that was stored before.
func (r *Request) setLife(life uint32) { word.StoreRelease32(&r.life, life) }

// setOver publishes that the operation has ended. In thread mode multi it also notifies the engine,
// for goroutines that sleep until anything happens.
func (r *Request) setOver() {
	w := r.w
	r.setLife(lifeOver)
	if w.owner.multi {
		w.owner.engine.News()
	}
}

// Done reports whether the operation has finished. In ThreadModeMulti its callback may
// still be running, or be about to run.
func (r *Request) Done() bool {
	if r == nil {
		return true
	}
	life := atomic.LoadUint32(&r.life)
	if life == lifeIdle {
		panic(usedAfterFree)
	}
	return life == lifeOver
}

// Err returns ucs.InProgress while the operation runs, and its result afterwards: nil for
// success. It may be called repeatedly.
func (r *Request) Err() error {
	switch {
	case r == nil:
		return nil
	case !r.Done():
		return ucs.InProgress
	}
	return r.err
}

// TagRecvInfo returns what a tag receive got, or Err if it has not succeeded.
func (r *Request) TagRecvInfo() (TagRecvInfo, error) {
	if err := r.Err(); err != nil {
		return TagRecvInfo{}, err
	}
	if r == nil {
		return TagRecvInfo{}, errNoRequest
	}
	return r.info, nil
}

// UserData returns the value given with the operation.
func (r *Request) UserData() any {
	if r == nil {
		return nil
	}
	if r.w != nil {
		r.checkLive()
		r.w.owner.acquireRead() // another goroutine may be carrying out the delegated call
		defer r.w.owner.releaseRead()
	}
	return r.userData
}

// Free returns the request to its worker. An operation in flight goes on, but its callback
// will not run. Free of a request that the application supplied only disables the callback.
//
// A second Free panics, and so does every other use of a freed request. Detection is
// certain until the worker has taken back 16 more requests, as long as the object serves no
// other operation; later a second Free frees that operation's request. In race builds no
// object is reused, and every use after Free is detected.
func (r *Request) Free() {
	if r != nil { // inlined, because the request of a send is mostly nil
		r.freeIt()
	}
}

func (r *Request) freeIt() {
	w := r.w
	if w == nil {
		return
	}
	if !w.owner.available() {
		if w.owner.multi {
			r.freeShared()
			return
		}
		w.owner.checkGate()
		r.free()
		return
	}
	switch state := r.state; {
	case state == stateRecv|stateDone|stateWhole: // the request holds nothing else
	case state == stateRecv|stateDone|stateWhole|stateParams:
		r.onTagRecv, r.userData = nil, nil
	case state&^stateFull == stateRecv|stateDone|stateStream|stateUncounted:
		r.ep = nil
	default:
		r.free()
		return
	}
	r.setIdle()
	if rp := &w.pool; recycleRequests && rp.restEnd-rp.restFirst < restingRequests {
		rp.resting[rp.restEnd%restingRequests] = r // as rest, without a call
		rp.restEnd++
		return
	}
	w.pool.rest(r)
}

func (r *Request) free() {
	if r == nil || r.w == nil {
		return
	}
	r.checkLive()
	if r.state&stateDone == 0 {
		if r.state&stateFreed != 0 {
			panic("ucp: request freed twice, in flight")
		}
		r.onSend, r.onTagRecv, r.onRecv = nil, nil, nil
		if r.state&stateUser == 0 {
			r.state |= stateFreed
		}
		return
	}
	if r.state&stateUser == 0 {
		r.w.pool.putRequest(r)
	}
}

// freeShared is Free in thread mode multi. If another goroutine owns the worker, Free of a finished
// request is delegated to it. For an operation in flight freeShared waits for the worker, because
// the callback must not run after Free has returned.
func (r *Request) freeShared() {
	w := r.w
	r.checkLive()
	if !w.owner.tryAcquireSlow() { // in this mode always slow
		if atomic.LoadUint32(&r.life) == lifeOver {
			t := frees.Get().(*freeing)
			t.r = r
			w.owner.push(&t.Task)
			return
		}
		w.owner.acquire()
	}
	if r.state&^stateParams == stateRecv|stateDone|stateWhole { // as Free does
		if r.state&stateParams != 0 {
			r.onTagRecv, r.userData = nil, nil
		}
		r.setIdle()
		w.pool.rest(r)
		w.owner.releaseSlow()
		return
	}
	twice := r.state&(stateIdle|stateFreed) != 0
	if !twice {
		r.free()
	}
	w.owner.release()
	if twice {
		panic("ucp: request freed twice")
	}
}

// freeing is a delegated Free.
type freeing struct {
	engine.Task
	r *Request
}

var frees = sync.Pool{New: func() any {
	t := new(freeing)
	t.Of(t)
	return t
}}

// Do implements engine.Doer.
func (t *freeing) Do() {
	r := t.r
	t.r = nil
	frees.Put(t)
	if r.state&(stateIdle|stateFreed) == 0 {
		r.free()
	} else {
		r.w.ctx.log.Error("ucp: request freed twice", zap.String("worker", r.w.name))
	}
}

// is reports whether a protocol of kind k carries out r, which may be nil.
func (r *Request) is(k protocolKind) bool {
	return r != nil && r.proto != nil && r.proto.about().kind == k
}

// checkLive panics on a request that was freed. Using one is a bug of the caller that would corrupt
// another operation.
func (r *Request) checkLive() {
	if atomic.LoadUint32(&r.life) == lifeIdle {
		panic(usedAfterFree)
	}
}

// usedAfterFree is the panic value of uses after Free. It is converted to an interface once,
// because the checks are inlined where programs poll a request.
var usedAfterFree any = "ucp: request used after Free"

// result returns what the call that started the request returns: the request if it is in flight or
// if OpNoImmediate is set, and otherwise only the error, after recycling the request.
func (r *Request) result() (*Request, error) {
	r.state &^= stateInCall
	if r.state&stateDone == 0 {
		if r.ep != nil && (r.ep.charge != nil || r.ep.pair != nil) {
			r.w.replies.accounting.inFlight(r)
		}
		return r, nil
	}
	if r.state&stateNoImm != 0 {
		return r, nil
	}
	err := r.err
	if r.state&statePromised != 0 {
		return nil, err
	}
	if r.state&stateUser != 0 {
		r.w = nil
	} else {
		r.w.pool.clean(r)
		r.w.pool.recycle(r) // the application has not seen the request
	}
	return nil, err
}

// abort ends a request with err before its operation is done.
func (r *Request) abort(err error) {
	if r.proto == nil {
		r.finish(err)
		return
	}
	r.proto.abort(r, err)
}

// finish ends the operation: it stores the result, releases the application's memory, and runs the
// callback. While the request is being dispatched, or while accounts.evicting is set, the end is
// deferred to the end of the round of progress.
func (r *Request) finish(err error) {
	if r.node.Linked() {
		r.node.Remove()
	}
	if r == r.w.dispatching || r.w.accounts.evicting {
		r.err = err
		r.dispatchLater()
		return
	}
	r.err = err
	ep, counted := r.ep, r.state&stateUncounted == 0
	if ep != nil {
		if r.proto != nil {
			r.proto.release(r)
		}
		r.releaseResources()
		if r.state&(stateCharged|stateCopied) != 0 {
			r.w.replies.accounting.over(r)
		}
	}
	if r.data.Class == datatype.Contig { // the usual case, without a call
		r.data.Buf = nil
	} else {
		finishData(r)
	}
	r.state |= stateDone
	if err != nil {
		r.w.stats.Failed++
	}
	if r.state&(stateParams|stateFreed|stateWatched) != 0 {
		r.deliverResult(err)
	} else {
		r.setOver()
	}
	if ep != nil && counted {
		ep.unbind()
	}
}

// releaseResources releases the resources that requests of all protocols may hold: id,
// registrations, region and key.
func (r *Request) releaseResources() {
	if r.localID != 0 {
		r.w.pool.requestIDs.Remove(r.localID)
		r.localID = 0
	}
	if r.mem != nil {
		r.mem.releaseHandles()
	}
	if r.iov != nil {
		clear(r.iov)
	}
	if r.region != nil {
		r.region.Release()
		r.region = nil
	}
	if r.access != nil {
		r.access.key, r.access.route = nil, nil
	}
	if r.am != nil {
		r.am.releaseHeader(&r.w.buffers)
	}
}

// deliverResult hands the result of a finished request to the callback and the waiting calls, then
// returns the request to the pool if it was freed in flight. An object that the application
// supplied may serve another operation as soon as it is over, even on another worker, so everything
// needed is read before that.
func (r *Request) deliverResult(err error) {
	w, state, info, data := r.w, r.state, r.info, r.userData
	send, recv, length, waiters := r.onSend, r.onTagRecv, r.onRecv, r.waiters
	if state&(stateInCall|stateNoImm) == stateInCall {
		send, recv, length = nil, nil, nil
	} else {
		r.onSend, r.onTagRecv, r.onRecv = nil, nil, nil
	}
	r.waiters, r.state = nil, state&^stateWatched
	r.setOver()
	switch {
	case state&stateRecv == 0 && send != nil:
		w.callSend(send, r, err, data)
	case state&stateRecv != 0 && recv != nil:
		w.callRecv(recv, r, err, info, data)
	case length != nil:
		w.callLength(length, r, err, info.Length, data)
	}
	if waiters != nil {
		w.notifyWaiters(waiters, err, info)
	}
	if state&stateFreed != 0 {
		w.pool.putRequest(r)
	}
}

// RequestAttr describes a request.
type RequestAttr struct {
	Info       string         // protocol and transport
	Err        error          // as Request.Err
	MemoryType ucs.MemoryType // type of the buffer's memory; unknown for operations without a buffer
}

// Attr describes the request, until Free. It fails with ucs.ErrInvalidParam for nil, and
// for an object of the application's (RequestParams.Request) that has not been used yet, or
// whose last operation was done in its call.
func (r *Request) Attr() (RequestAttr, error) {
	if r == nil {
		return RequestAttr{}, errNoRequest
	}
	if r.w == nil {
		return RequestAttr{}, fmt.Errorf("ucp: Request.Attr: no operation uses the request: %w", ucs.ErrInvalidParam)
	}
	r.checkLive()
	r.w.owner.acquireRead()
	defer r.w.owner.releaseRead()
	a := RequestAttr{Err: r.Err()}
	if !r.is(kindFlush) && !r.is(kindClose) {
		a.MemoryType = ucs.MemoryHost // other types are refused when the operation is started
	}
	switch {
	case r.proto != nil && r.ep != nil:
		a.Info = r.protocolName() + " " + r.ep.w.selection.laneName(r.ep, int(r.lane))
	case r.proto != nil || r.op != nil:
		a.Info = r.protocolName()
	case r.state&stateStream != 0:
		a.Info = "stream receive"
	case r.state&stateRecv != 0:
		a.Info = "tag receive"
	}
	return a, nil
}

// protocolName returns the readable name of the request's protocol, or of its operation before a
// protocol is chosen.
func (r *Request) protocolName() string {
	var name string
	if r.proto != nil {
		name = r.proto.about().name
	} else {
		name = r.op.name()
	}
	switch {
	case r.state&stateRecv != 0:
		return "tag " + name
	case r.state&stateAMRecv != 0:
		return "am " + name
	case r.form != nil:
		return r.form.name + " " + name
	}
	return name
}

// String names the request's protocol in the transports' traces.
func (h *hooks) String() string {
	if h.proto == nil && h.op == nil {
		return ""
	}
	return (*Request)(h).protocolName()
}
