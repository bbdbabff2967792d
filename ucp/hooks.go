package ucp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// hooks are a request as the transports see it: who waits for a place to send, who
// is told of a completion, who packs a message. It is a type of its own so that
// users do not see the methods.
type hooks Request

var (
	_ uct.PendingOwner    = (*hooks)(nil)
	_ uct.CompletionOwner = (*hooks)(nil)
	_ uct.Packer          = (*hooks)(nil)
	_ uct.Unpacker        = (*hooks)(nil)
)

// hooks returns the request as transports take it.
func (r *Request) hooks() *hooks { return (*hooks)(r) }

// Completed implements uct.CompletionOwner. What was canceled because the endpoint has failed
// ends with the cause.
func (h *hooks) Completed(c *uct.Completion) {
	r, err := (*Request)(h), c.Err
	if err != nil {
		err = r.laneError(err)
	}
	r.proto.completed(r, err)
}

// Pack implements uct.Packer.
func (h *hooks) Pack(dst []byte) int { return h.proto.pack((*Request)(h), dst) }

// Unpack implements uct.Unpacker.
func (h *hooks) Unpack(src []byte) { h.proto.unpack((*Request)(h), src) }

// Dispatch implements uct.PendingOwner. While it runs the request is still at
// the head of the lane's queue and the queue lets sends through, so what the
// request's end brings about, a callback that sends or the object's next use,
// is put off to the end of the progress round.
func (h *hooks) Dispatch(*uct.Pending) error {
	r := (*Request)(h)
	w := r.w
	if ep := r.ep; ep != nil && ep.bill != nil && ep.bill.answers.before(r) {
		d := ep.bill.answers.drain
		if err := d.proto.progress(d); err == ucs.ErrNoResource {
			return err
		}
	}
	w.dispatching = r
	lane := r.lane
	var err error
	if r.state&stateGivenUp == 0 {
		err = r.proto.progress(r)
	} else {
		r.abort(ucs.ErrCanceled)
	}
	switch {
	case err == nil:
	case err != ucs.ErrNoResource:
		r.proto.abort(r, r.laneError(err))
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
