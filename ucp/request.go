package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucp/internal/regions"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Request is an operation in flight. It belongs to its worker's goroutine.
//
// A request the library made goes back to the worker by Free, or by Wait, which
// frees it; one that is never freed is left to the garbage collector. After
// Free the request must not be used. All methods accept nil, which stands for an
// operation that was done in its call.
type Request struct {
	// Private is the application's. ContextParams.RequestInit may set it once
	// per request object; the library does not touch it.
	Private any

	// Position in the one list the request is in: the free list, a receive
	// queue, or one of its endpoint's lists. These and what follows them is all
	// that most receives use: the fewer cache lines, the better.
	list       *requestList
	prev, next *Request

	state requestState
	err   error // the result, once stateDone is set
	w     *Worker

	tag  Tag
	mask Tag
	sn   uint64 // posting order of a receive
	info TagRecvInfo

	onTagRecv func(*Request, error, TagRecvInfo, any)
	userData  any

	data payload

	// What the protocol keeps between its steps.
	ep      *Endpoint
	onSend  func(*Request, error, any)
	proto   *protocol
	offset  int // packed bytes handed to the transport so far
	frag    int // bytes of the fragment being packed
	arrived int // bytes received so far
	msgID   proto.MessageID
	localID uint64 // id by which the peer names this request, 0 for none
	peerID  uint64 // the peer's request
	ranges  rangeset.Set
	part    part  // of a rendezvous, being sent, or the peer's memory
	lane    uint8 // on which it goes on
	step    uint8 // of a protocol with several
	parts   []part
	exposed []exposure // memory open to the peer
	iov     []uct.IOV  // reused; grows to the transport's limit at first use

	// One-sided operations.
	key    *Rkey           // of an operation of ours
	route  *rkeyWay        // it takes, nil for messages
	amo    *atomicOp       // reused
	region *regions.Region // that an answer is read from, or that the peer may map

	attached *attachment // of the peer, that a message is copied from

	pend uct.Pending
	comp uct.Completion
}

var (
	_ uct.Packer          = (*Request)(nil)
	_ uct.PendingOwner    = (*Request)(nil)
	_ uct.CompletionOwner = (*Request)(nil)
)

// requestState is a set of flags.
type requestState uint32

const (
	stateDone   requestState = 1 << iota // finished, err is final
	stateInCall                          // the call that started it has not returned
	stateNoImm                           // OpNoImmediate: the callback runs even in the call
	stateUser                            // the object belongs to the user
	stateFreed                           // freed while in flight: vanishes when done
	stateRecv                            // a tag receive
	stateExpect                          // in the queue of posted receives
	stateSync                            // a synchronous send
	stateReply                           // the sync acknowledgement has arrived
	stateSent                            // all local work of a send is done
	stateIdle                            // in no operation: freed, or never used
	stateParams                          // holds a callback or other parameters
	stateAgain                           // has another stage to run in its dispatch
	stateMoves                           // goes on on another lane, after its dispatch
	stateServes                          // answers a peer, and is counted for that
	stateSplit                           // goes on in pieces, and is counted for that
	stateBehind                          // a flush that has waited for those
)

// protocol is one way to carry out an operation. Its functions are re-entered at
// the stage stored in the request and never block.
type protocol struct {
	name string

	// progress sends what can be sent. nil: nothing more to send now, the
	// request is finished or waits for a completion or a message;
	// ucs.ErrNoResource: queue it; any other error fails the request.
	progress func(r *Request) error

	// completed is told that the transport is done with everything sent.
	completed func(r *Request, err error)

	// pack writes the message or header being sent.
	pack func(r *Request, dst []byte) int

	// piece copies the next piece of a request in Worker.copying.
	piece func(r *Request)
}

// Done reports whether the operation has finished.
func (r *Request) Done() bool { return r == nil || r.state&stateDone != 0 }

// Err returns ucs.InProgress while the operation runs, and its result
// afterwards: nil for success. It may be called repeatedly.
func (r *Request) Err() error {
	switch {
	case r == nil:
		return nil
	case r.state&stateDone == 0:
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
		return TagRecvInfo{}, ucs.ErrInvalidParam
	}
	return r.info, nil
}

// UserData returns the value given with the operation.
func (r *Request) UserData() any {
	if r == nil {
		return nil
	}
	return r.userData
}

// RequestAttr describes a request.
type RequestAttr struct {
	Info       string // protocol and transport
	Err        error  // as Request.Err
	MemoryType ucs.MemoryType
}

// Query describes the request. A request that is not in use gives
// ucs.ErrInvalidParam.
func (r *Request) Query() (RequestAttr, error) {
	if r == nil || r.w == nil {
		return RequestAttr{}, ucs.ErrInvalidParam
	}
	r.checkLive()
	a := RequestAttr{Err: r.Err(), MemoryType: ucs.MemoryHost}
	switch {
	case r.proto != nil && r.ep != nil:
		a.Info = r.proto.name + " " + r.ep.laneName(int(r.lane))
	case r.proto != nil:
		a.Info = r.proto.name
	case r.state&stateRecv != 0:
		a.Info = "tag receive"
	}
	return a, nil
}

// Free gives the request back to its worker. An operation still in flight goes
// on, but its callback will not run. A request supplied by the user is only
// silenced.
func (r *Request) Free() {
	if r == nil || r.w == nil {
		return
	}
	if r.state&^stateParams == stateRecv|stateDone && r.err == nil && r.proto == nil {
		if r.state != stateRecv|stateDone {
			r.onSend, r.onTagRecv, r.userData = nil, nil, nil
		}
		r.w.recycle(r) // holds nothing else
		return
	}
	r.checkLive()
	if r.state&stateDone == 0 {
		r.onSend, r.onTagRecv = nil, nil
		if r.state&stateUser == 0 {
			r.state |= stateFreed
		}
		return
	}
	if r.state&stateUser == 0 {
		r.w.putRequest(r)
	}
}

// Cancel asks for the end of an operation: it finishes either completed or with
// ucs.ErrCanceled, not both, and its callback runs. Only tag receives that have
// not been matched can be canceled; other requests go on.
func (w *Worker) Cancel(r *Request) {
	if r == nil || r.w != w || r.state&(stateDone|stateExpect) != stateExpect {
		return
	}
	w.tm.removeExpected(r)
	r.finish(ucs.ErrCanceled)
}

// Dispatch implements uct.PendingOwner. While it runs the request is still at
// the head of the lane's queue and the queue lets sends through, so what the
// request's end brings about, a callback that sends or the object's next use,
// is put off to the end of the progress round.
func (r *Request) Dispatch(*uct.Pending) error {
	w := r.w
	w.dispatching = r
	lane := r.lane
	err := r.proto.progress(r)
	switch {
	case err == nil:
	case err != ucs.ErrNoResource:
		r.fail(err)
		err = nil
	case r.lane != lane: // to queue there it must leave this queue first
		r.state |= stateMoves
		w.dispatched.push(r)
		err = nil
	}
	w.dispatching = nil
	if err == nil && r.state&stateAgain != 0 {
		r.state &^= stateAgain
		if r.lane == lane {
			return ucs.InProgress
		}
		r.state |= stateMoves
		w.dispatched.push(r)
	}
	return err
}

// finishDispatched ends the requests whose end was put off, goes on with those
// that have to wait for another lane than before, and returns their number.
func (w *Worker) finishDispatched() int {
	n := 0
	for r := w.dispatched.pop(); r != nil; r = w.dispatched.pop() {
		if r.state&stateMoves != 0 {
			r.state &^= stateMoves
			r.run()
		} else {
			r.finish(r.err)
		}
		n++
	}
	return n
}

// Completed implements uct.CompletionOwner.
func (r *Request) Completed(c *uct.Completion) { r.proto.completed(r, c.Err) }

// Pack implements uct.Packer.
func (r *Request) Pack(dst []byte) int { return r.proto.pack(r, dst) }

// run takes the protocol as far as it goes now and queues the request where the
// transport cannot go on.
func (r *Request) run() {
	if r == r.w.dispatching {
		r.state |= stateAgain // it is in the queue, at its head
		return
	}
	for {
		err := r.proto.progress(r)
		if err == nil {
			return
		}
		if err != ucs.ErrNoResource {
			r.fail(err)
			return
		}
		err = r.ep.lane(r.lane).PendingAdd(&r.pend)
		if err == nil {
			r.w.stats.Pending++
			return
		}
		if err != ucs.ErrBusy {
			r.fail(err)
			return
		}
	}
}

// fail ends a request whose sending failed. Parts of it may still be with the
// transport: then the completion ends it.
func (r *Request) fail(err error) {
	if r.comp.Count > 1 {
		r.comp.Done(err)
		return
	}
	r.finish(err)
}

// checkLive panics on a request that was freed: a bug of the caller that would
// corrupt somebody else's operation.
func (r *Request) checkLive() {
	if r.state&stateIdle != 0 {
		panic("ucp: request used after Free")
	}
}

// result turns a request that was started in a call into the call's results.
func (r *Request) result() (*Request, error) {
	r.state &^= stateInCall
	if r.state&stateDone == 0 || r.state&stateNoImm != 0 {
		return r, nil
	}
	err := r.err
	if r.state&stateUser != 0 {
		r.w = nil
	} else {
		r.w.putRequest(r)
	}
	return nil, err
}

// finish ends the operation: stores the result, lets go of the user's memory,
// runs the callback.
func (r *Request) finish(err error) {
	if r.list != nil {
		r.list.remove(r)
	}
	if r == r.w.dispatching || r.w.evicting {
		r.err = err
		r.w.dispatched.push(r)
		return
	}
	if r.proto != nil {
		r.leaveProtocol()
	}
	r.data.finish()
	r.err = err
	r.state |= stateDone
	if err != nil {
		r.w.stats.Failed++
	}
	if r.state&(stateParams|stateFreed) != 0 {
		r.leave(err)
	}
}

// leaveProtocol gives back what a protocol may have taken.
func (r *Request) leaveProtocol() {
	if r.localID != 0 {
		r.w.requestIDs.Remove(r.localID)
		r.localID = 0
	}
	if len(r.exposed) > 0 {
		r.conceal()
	}
	if r.iov != nil {
		clear(r.iov)
	}
	if r.key != nil || r.region != nil || r.state&stateServes != 0 {
		r.leaveAccess()
	}
	if r.attached != nil {
		r.detach()
	}
	if r.proto == &closeOp {
		r.ep.destroy(ucs.ErrCanceled)
	}
}

// leave runs the callback of a finished request, and puts the request back if
// nobody will free it.
func (r *Request) leave(err error) {
	freed := r.state&stateFreed != 0 // the callback may free r and use it again
	if r.state&(stateInCall|stateNoImm) != stateInCall {
		r.notify(err)
	}
	if freed {
		r.w.putRequest(r)
	}
}

// notify runs the callback, once.
func (r *Request) notify(err error) {
	if fn := r.onTagRecv; fn != nil {
		r.onTagRecv = nil
		fn(r, err, r.info, r.userData)
	} else if fn := r.onSend; fn != nil {
		r.onSend = nil
		fn(r, err, r.userData)
	}
}

// requestList is a FIFO of requests with removal from the middle.
type requestList struct {
	head, tail *Request
}

func (l *requestList) push(r *Request) {
	r.list = l
	r.prev, r.next = l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
}

func (l *requestList) remove(r *Request) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.list, r.prev, r.next = nil, nil, nil
}

// pop removes and returns the oldest request, nil when the list is empty.
func (l *requestList) pop() *Request {
	r := l.head
	if r != nil {
		l.remove(r)
	}
	return r
}
