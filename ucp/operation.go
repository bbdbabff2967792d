package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// An operation is described before it is decided how to carry it out. A public call
// fills a request with what the caller said: the kind of operation, the buffer, the
// target, the parameters. Then
//
//	submit ──► choose: a protocol from the endpoint's tables
//	  │           └──► run: as far as it goes now
//	  └──► the endpoint's waiting list, as long as something is missing, and
//	       behind everything that waits there already
//
// What may be missing is a set of needs. When the last of them is there, drain goes
// on with what waits, in order. Short sends and puts do not come here: where
// nothing waits and nothing is missing they are one call of the transport.

// operation is a kind of operation that users start.
type operation interface {
	name() string

	// choose returns the protocol for a described request, and takes what that
	// needs from the start. An error ends the request.
	choose(r *Request) (protocol, error)
}

// needs are what an operation cannot start without. An endpoint has a set of those
// that it lacks, a protocol of those that it asks for.
type needs uint8

const (
	needLanes  needs = 1 << iota // lanes: before there are any, no protocol can be chosen
	needID                       // the peer's id of the endpoint
	needFence                    // that the fence is over which holds back one-sided operations
	needStream                   // that the packets of a longer piece of the stream have gone
)

// submit starts a described request, or one of the library's that has its protocol,
// now or when nothing is missing any more.
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

// reply starts an answer to the peer. It does not wait behind operations of our own:
// they may be waiting for the peer to answer us, as the peer's for this.
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
				r.state &^= stateNoImm // the call says so: nothing was started
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

// needs is what a request with a protocol cannot start without.
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

// resolveNeed notes that something is no longer missing, and starts what waited for it.
func (ep *Endpoint) resolveNeed(n needs) {
	ep.needs &^= n
	ep.drain()
}

// drain starts what waits, in order, until something is missing again.
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

// open lets short messages through again.
func (ep *Endpoint) open() {
	ep.short, ep.shortAM = -1, -1
	if ep.life.Usable() && ep.state&epDraining == 0 && ep.waiting.head == nil &&
		ep.needs&needLanes == 0 {
		ep.short, ep.shortAM = int32(ep.cfg.short), int32(ep.cfg.shortAM)
	}
}

// usable returns why no operation can be started.
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

// await lets the request wait for a message of the peer.
func (r *Request) await() {
	r.ep.outstanding.push(r)
	r.w.stream.expect()
}

// requeue lets the request run again in the next round of progress, when it is its
// turn: those whose work is the CPU's take turns.
func (r *Request) requeue() { r.w.copying.push(r) }

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

// endMoves ends those of an endpoint that were about to go on on another lane.
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

// endOf ends those of one endpoint.
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

// Control messages are sent by the library itself: wireup, acknowledgements,
// rendezvous answers. Their requests belong to nobody and vanish when sent. They
// are small and copied, so "buffered" is as good as "sent".

// control makes a request for a control message.
func (ep *Endpoint) control(p protocol) *Request {
	r := ep.w.pool.getRequest()
	r.toward(ep)
	r.proto, r.state = p, stateFreed
	return r
}

// sendControl is the progress of a control message that its protocol packs.
func (r *Request) sendControl(id proto.AMID, flags uct.SendFlags) error {
	_, err := r.ep.lane(r.lane).AMBcopy(uct.AMID(id), r.hooks(), flags, nil)
	return controlSent(r, err)
}

// controlSent turns the result of sending a control message into the result of
// its protocol's progress.
func controlSent(r *Request, err error) error {
	if err == nil || err == ucs.InProgress {
		r.finish(nil)
		return nil
	}
	return err
}
