package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// An operation is described before its protocol is chosen. A public call fills a request with its
// arguments: the kind of operation, the buffer, the target, the parameters. Then
//
//	submit ──► choose: a protocol from the endpoint's tables
//	  │           └──► run: as far as it goes now
//	  └──► the endpoint's waiting list, as long as something is missing, and
//	       behind everything that waits there already
//
// What may be missing is a set of needs. When a need is resolved, drain starts the waiting requests
// in order, up to the first that still lacks something. Short sends and puts do not come here: if
// nothing waits and nothing is missing they are one call of the transport.

// operation is a kind of operation that the application starts.
type operation interface {
	name() string

	// choose returns the protocol for a described request, and acquires what the protocol
	// needs from its start, such as a request id. An error ends the request.
	choose(r *Request) (protocol, error)
}

// needs is a set of conditions that an operation needs before it can start. An endpoint has the set
// that it lacks, a protocol the set that it requires.
type needs uint8

const (
	needLanes  needs = 1 << iota // lanes: before there are any, no protocol can be chosen
	needID                       // the peer's id of the endpoint
	needFence                    // the end of the fence that holds back one-sided operations
	needStream                   // the end of a stream send in several packets
)

// submit starts a request now, or once nothing that it needs is missing. The request is described,
// or is one of the library itself that has its protocol already.
func (ep *Endpoint) submit(r *Request) {
	if ep.waiting.head == nil && ep.begin(r) {
		return
	}
	ep.waiting.push(r)
	ep.short, ep.shortAM = -1, -1
	for _, f := range ep.w.families {
		if err := f.provide(ep); err != nil {
			r.abort(err)
			ep.open()
			return
		}
	}
}

// reply starts a reply to the peer. It does not wait behind this worker's own operations: those may
// be waiting for the peer, while the peer's operations wait for the reply.
func (ep *Endpoint) reply(r *Request) {
	if ep.needs&r.needs() == 0 {
		r.run()
		return
	}
	ep.submit(r)
}

// begin runs a request if nothing that it needs is missing.
func (ep *Endpoint) begin(r *Request) bool {
	if r.proto == nil {
		if ep.needs&needLanes != 0 {
			return false
		}
		r.lane = ep.amLane()
		p, err := r.op.choose(r)
		if err != nil {
			if r.state&(stateInCall|statePromised) == stateInCall {
				r.state &^= stateNoImm // the call returns the error: nothing was started
			}
			r.finish(err)
			return true
		}
		r.proto = p
	}
	if ep.needs != 0 && ep.needs&r.needs() != 0 {
		return false
	}
	r.run()
	return true
}

// needs returns what a request with a protocol needs before it can start.
func (r *Request) needs() needs {
	n := r.proto.about().needs | needLanes
	if r.form != nil {
		n |= r.form.needs
		if r.msgID != 0 {
			n |= r.form.partsNeeds
		}
	}
	return n
}

// resolveNeed records that n is no longer missing, and starts the requests that waited for it.
func (ep *Endpoint) resolveNeed(n needs) {
	ep.needs &^= n
	ep.drain()
}

// drain starts the waiting requests in order, until one lacks something.
func (ep *Endpoint) drain() {
	if ep.state&epDraining != 0 {
		return
	}
	ep.state |= epDraining
	for ep.err == nil && ep.life.Stage != life.Gone {
		r := ep.waiting.pop()
		if r == nil {
			break
		}
		if !ep.begin(r) {
			ep.waiting.unpop(r)
			break
		}
	}
	ep.state &^= epDraining
	ep.open()
}

// open allows short sends, in one transport call, if the endpoint is ready for them, and otherwise
// forbids them.
func (ep *Endpoint) open() {
	ep.short, ep.shortAM = -1, -1
	if ep.life.Usable() && ep.state&epDraining == 0 && ep.waiting.head == nil &&
		ep.needs&needLanes == 0 {
		ep.short, ep.shortAM = int32(ep.cfg.short), int32(ep.cfg.shortAM)
	}
}

// usable returns the error that prevents operations from being started, nil if there is none.
func (ep *Endpoint) usable() error {
	switch {
	case ep.life.Refuses():
		return ucs.ErrNotConnected
	case ep.err != nil:
		return ep.err
	}
	return nil
}

// gone returns the error of operations that wait for the peer when the endpoint
// has failed or is released, nil as long as they may wait.
func (ep *Endpoint) gone() error {
	switch {
	case ep.err != nil:
		return ep.err
	case ep.life.Stage == life.Gone:
		return ucs.ErrCanceled
	}
	return nil
}

// run runs the protocol as far as it gets, and queues the request on its lane if the transport has
// no resources.
func (r *Request) run() {
	if r == r.w.dispatching {
		r.state |= stateAgain // the request is at the head of the lane's queue
		return
	}
	for {
		err := r.proto.progress(r)
		if err == nil {
			return
		}
		if err != ucs.ErrNoResource {
			r.proto.abort(r, r.w.ends.laneError(r, err))
			return
		}
		err = r.ep.lane(r.lane).PendingAdd(&r.pend)
		if err == nil {
			r.w.stats.Pending++
			return
		}
		if err != ucs.ErrBusy {
			r.proto.abort(r, r.w.ends.laneError(r, err))
			return
		}
	}
}

// await makes the request wait for a message of the peer, in the list outstanding of its endpoint.
func (r *Request) await() {
	r.ep.outstanding.push(r)
	r.w.stream.expect()
}

// requeue puts the request at the end of the worker's copying queue, from which the next rounds of
// progress run it. Requests that copy with the CPU are served there in rotation.
func (r *Request) requeue() { r.w.copying.push(r) }

// finishDispatched ends the requests whose end was deferred, resumes those that continue on another
// lane (stateMoves), and returns their number.
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

// endMoves aborts the requests of an endpoint that were about to continue on another lane.
func (w *Worker) endMoves(ep *Endpoint, err error) {
	for r := w.dispatched.head; r != nil; {
		next := r.next
		if r.ep == ep && r.state&stateMoves != 0 {
			r.state &^= stateMoves
			r.list.remove(r)
			r.abort(err)
			next = w.dispatched.head // callbacks may have changed the list
		}
		r = next
	}
}

// end ends all requests with err, oldest first. Callbacks run.
func (l *requestList) end(err error) {
	for r := l.pop(); r != nil; r = l.pop() {
		r.abort(err)
	}
}

// endOf ends the requests of one endpoint with err. Callbacks run.
func (l *requestList) endOf(ep *Endpoint, err error) {
	for r := l.head; r != nil; {
		next := r.next
		if r.ep == ep {
			l.remove(r)
			r.abort(err)
			next = l.head // callbacks may have changed the list
		}
		r = next
	}
}

// The library itself sends control messages: wireup, acknowledgements, rendezvous answers. Their
// requests have no owner and are recycled when sent. Control messages are small and copied, so a
// message that the transport has buffered counts as sent.

// control makes a request for a control message.
func (ep *Endpoint) control(p protocol) *Request {
	r := ep.w.pool.getRequest()
	r.toward(ep)
	r.proto, r.state = p, stateFreed
	return r
}

// sendControl is the method progress of a control message that its protocol packs.
func (r *Request) sendControl(id proto.AMID, flags uct.SendFlags) error {
	_, err := r.ep.lane(r.lane).AMBcopy(uct.AMID(id), r.hooks(), flags, nil)
	return controlSent(r, err)
}

// controlSent converts the result of sending a control message into the result of progress, and
// ends the request if the transport took the message.
func controlSent(r *Request, err error) error {
	if err == nil || err == ucs.InProgress {
		r.finish(nil)
		return nil
	}
	return err
}
