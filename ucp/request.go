package ucp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucp/internal/regions"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Request is an operation in flight. It belongs to its worker's goroutine, or in
// ThreadModeMulti to any.
//
// Free returns a request of the library to the worker, which reuses it for another
// operation; a request that is never freed is left to the garbage collector. Its results
// can be read until Free. Afterwards the request must not be used: methods and
// Worker.Cancel panic where a use after Free is detected, as Free describes. All methods
// accept nil, which stands for an operation that was done in its call.
type Request struct {
	_ noCopy

	// Private belongs to the application. ContextParams.RequestInit may set it once per
	// request object; the library does not touch it.
	Private any

	// Position in the one list the request is in: the free list, a receive
	// queue, or one of its endpoint's lists. These and what follows them is all
	// that most receives use: the fewer cache lines, the better.
	list       *requestList
	prev, next *Request

	state requestState
	life  uint32 // lifeInFlight …, atomic
	err   error  // the result, once stateDone is set
	w     *Worker

	tag  Tag         // of a tagged message, or that a receive looks for
	mask Tag         // of a receive
	sn   uint64      // posting order of a receive
	info TagRecvInfo // what it got

	onTagRecv func(*Request, error, TagRecvInfo, any)
	onRecv    func(*Request, error, int, any) // of receives that have only a length
	userData  any

	data payload // to be sent, or where to receive

	// Of what leaves: what was asked for, how it is done and how far it is.
	onSend    func(*Request, error, any)
	ep        *Endpoint
	op        operation // nil for messages of the library's
	proto     protocol  // nil until one is chosen, and for receives until there is one
	form      *messageForm
	lane      uint8          // on which it goes on
	step      uint8          // of a protocol with several
	mode      proto.SendMode // what the caller said about the operation
	ackStatus ucs.Status     // what the end of a rendezvous says
	flush     flushState
	msgID     proto.MessageID // of a message in fragments, 0 of others that are sent
	offset    int             // packed bytes handed to the transport so far, or that a stream receive has got
	frag      int             // bytes of the fragment being packed, or of an element of such a receive
	localID   uint64          // id by which the peer names this request, 0 for none
	peerID    uint64          // the peer's request

	// What some kinds need besides, made at the first use of the object and kept
	// for the next.
	mem    *requestMemory
	offer  *offerState  // of a rendezvous, sending side
	fetch  *fetchState  // the same, receiving side
	am     *amRequest   // of an active message
	access *accessState // of a one-sided operation
	iov    []uct.IOV    // grows to the transport's limit

	region  *regions.Region // memory of ours that is kept in place until the end
	waiters *call           // in thread mode multi, who waits for the end
	ackSize int             // bytes that the end of a rendezvous is about, or that a reply is charged with

	pend uct.Pending
	comp uct.Completion
}

// requestState is a set of flags.
type requestState uint32

const (
	stateDone           requestState = 1 << iota // finished, err is final
	stateInCall                                  // the call that started it has not returned
	stateNoImm                                   // OpNoImmediate: the callback runs even in the call
	stateUser                                    // the object belongs to the user
	stateFreed                                   // freed while in flight: vanishes when done
	stateRecv                                    // a receive: tagged, unless stateStream says otherwise
	stateExpect                                  // in the queue of posted receives
	stateReply                                   // the sync acknowledgement has arrived
	stateSent                                    // all local work of a send is done
	stateIdle                                    // in no operation: freed, or never used
	stateParams                                  // holds a callback or other parameters
	stateAgain                                   // has another stage to run in its dispatch
	stateMoves                                   // goes on on another lane, after its dispatch
	stateServes                                  // answers a peer, and is counted for that
	stateSplit                                   // goes on in pieces, and is counted for that
	stateBehind                                  // a flush that has waited for those
	stateWhole                                   // a receive that got a message in one piece: nothing else was used
	stateWatched                                 // somebody waits for the end, who is to be told
	statePromised                                // the caller has it already, whatever becomes of the operation
	stateDelegated                               // its call was left to others, and not carried out yet
	stateUnwanted                                // and was canceled since, by a callback
	stateStream                                  // a stream receive
	stateFull                                    // one that is over when its buffer is full
	stateAMRecv                                  // a receive of the data of an active message
	stateNext                                    // waits for a message of a queue
	stateUncounted                               // its endpoint need not stay for it
	stateCharged                                 // a reply that is charged to the peer
	stateExpectsMessage                          // one that ends with a message of the peer's
	stateAwaited                                 // one in replyState.waits
	stateCopied                                  // its data is a copy of ours
	stateGivenUp                                 // canceled in the queue of a lane: ends when its turn comes
)

// The lives of a request, as far as any goroutine may know.
const (
	lifeInFlight uint32 = iota
	lifeOver            // as stateDone: err and info are final
	lifeIdle            // as stateIdle
)

// setLife says what becomes of the request. In thread mode multi other goroutines see
// what was stored before.
func (r *Request) setLife(life uint32) { word.StoreRelease32(&r.life, life) }

// setOver says that the operation has ended. Who sleeps may have waited for that.
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
		r.w.owner.acquireRead() // another goroutine may have been left to start the operation
		defer r.w.owner.releaseRead()
	}
	return r.userData
}

// Free returns the request to its worker. An operation in flight goes on, but its callback
// will not run. Free of a
// request that the application supplied only disables the callback.
//
// A second Free panics, and so does every other use of a freed request. Detection is
// certain until the worker has taken back 16 more requests, as long as the object serves no
// other operation; later a second Free frees that operation's request. In race builds no
// object is reused, and every use after Free is detected.
func (r *Request) Free() {
	if r == nil || r.w == nil {
		return
	}
	w := r.w
	if w.owner.available() && r.state&^stateParams == stateRecv|stateDone|stateWhole {
		if r.state&stateParams != 0 {
			r.onTagRecv, r.userData = nil, nil
		}
		r.setIdle() // holds nothing else
		w.pool.rest(r)
		return
	}
	if w.owner.multi {
		r.freeShared()
		return
	}
	if !w.owner.available() {
		w.owner.checkGate()
	}
	r.free()
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

// freeShared is Free in thread mode multi. An operation that is over is left to who
// has the worker; of one in flight the callback must not run once this has returned.
func (r *Request) freeShared() {
	w := r.w
	r.checkLive()
	if w.owner.acquireSharedFast() {
		if r.state&^stateParams == stateRecv|stateDone|stateWhole { // as Free does
			if r.state&stateParams != 0 {
				r.onTagRecv, r.userData = nil, nil
			}
			r.setIdle()
			w.pool.rest(r)
			w.owner.releaseShared()
			return
		}
	} else if !w.owner.tryAcquireShared() {
		if atomic.LoadUint32(&r.life) == lifeOver {
			t := frees.Get().(*freeing)
			t.r = r
			w.owner.push(&t.Task)
			return
		}
		w.owner.acquireShared()
	}
	twice := r.state&(stateIdle|stateFreed) != 0
	if !twice {
		r.free()
	}
	w.owner.releaseShared()
	if twice {
		panic("ucp: request freed twice")
	}
}

// freeing is a Free that is left to others.
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

// is reports whether r, which may be nil, is carried out by a protocol of a kind.
func (r *Request) is(k protocolKind) bool {
	return r != nil && r.proto != nil && r.proto.about().kind == k
}

// checkLive panics on a request that was freed: a bug of the caller that would
// corrupt somebody else's operation.
func (r *Request) checkLive() {
	if atomic.LoadUint32(&r.life) == lifeIdle {
		panic(usedAfterFree)
	}
}

// usedAfterFree is what the uses panic with, converted once: they are in line where
// programs look whether a request is done.
var usedAfterFree any = "ucp: request used after Free"

// result turns a request that was started in a call into the call's results.
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
		r.w.pool.recycle(r) // nobody has seen it
	}
	return nil, err
}

// abort ends a request before its time.
func (r *Request) abort(err error) {
	if r.proto == nil {
		r.finish(err)
		return
	}
	r.proto.abort(r, err)
}

// finish ends the operation: stores the result, lets go of the user's memory,
// runs the callback.
func (r *Request) finish(err error) {
	if r.list != nil {
		r.list.remove(r)
	}
	if r == r.w.dispatching || r.w.accounts.evicting {
		r.err = err
		r.w.dispatched.push(r)
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
	r.data.finish()
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

// releaseResources gives back what any request may hold.
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

// deliverResult ends the life of a finished request that somebody is to hear of: it runs the
// callback, tells who waits, and puts the request back if nobody will free it. One that is
// the user's may serve another operation as soon as it is over, also on another
// worker: what is needed of it is taken out before.
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
		w.tell(waiters, err, info)
	}
	if state&stateFreed != 0 {
		w.pool.putRequest(r)
	}
}

// RequestAttr describes a request.
type RequestAttr struct {
	Info       string         // protocol and transport
	Err        error          // as Request.Err
	MemoryType ucs.MemoryType // of the buffer; unknown for operations without one
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
		a.MemoryType = ucs.MemoryHost // what is not is refused
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

// protocolName names what carries out a request, or before that is decided the
// operation, for people.
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

// String names the protocol that a transport works for, in traces.
func (h *hooks) String() string {
	if h.proto == nil && h.op == nil {
		return ""
	}
	return (*Request)(h).protocolName()
}
