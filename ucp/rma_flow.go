package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// rmaFlow is what an endpoint keeps for one-sided operations, made with the
// first. What went by messages is counted: each put and posted atomic operation
// is answered by a CMPL, which says only that one more of them is done; gets and
// fetching ones by their result. Both kinds of answers come in the order of what
// they answer, so a flush is over when the counts have reached what they were
// when it began. Counts wrap around.
type rmaFlow struct {
	posted, completed uint32 // answered by CMPL
	asked, answered   uint32 // answered with data

	flushing requestList // flushes that wait for answers, in order
	fencing  *Request    // a fence that holds back what was started behind it

	copies *copyFlow // nil before the first operation in pieces

	owed       int  // CMPLs to send to the peer
	completing bool // a request that sends them is under way
	direct     bool // something was started that goes straight to the peer's memory, since the last fence
	messages   bool // something was started that goes by messages, since then
}

// flow returns the endpoint's state for one-sided operations.
func (ep *Endpoint) flow() *rmaFlow {
	if ep.rma == nil {
		ep.rma = new(rmaFlow)
	}
	return ep.rma
}

func (ep *Endpoint) markDirect()   { ep.flow().direct = true }
func (ep *Endpoint) markMessages() { ep.flow().messages = true }

// reached reports whether count n has come to where it was at mark.
func reached(n, mark uint32) bool { return int32(n-mark) >= 0 }

// settled reports whether everything a flush waits for has been answered. Its
// marks are in sn.
func (f *rmaFlow) settled(r *Request) bool {
	return reached(f.completed, uint32(r.sn)) && reached(f.answered, uint32(r.sn>>32))
}

// advance ends the flushes that have nothing more to wait for.
func (f *rmaFlow) advance() {
	for r := f.flushing.head; r != nil && f.settled(r); r = f.flushing.head {
		r.finish(nil)
	}
}

// lanesFlushed is told that the transports have flushed: what is left is what
// went by messages.
func lanesFlushed(r *Request, err error) {
	f := r.ep.rma
	if err != nil || f == nil {
		r.finish(err)
		return
	}
	r.sn = uint64(f.asked)<<32 | uint64(f.posted)
	if f.settled(r) {
		r.finish(nil)
		return
	}
	f.flushing.push(r)
}

// fenceOp holds back the one-sided operations behind it until those before it
// have taken effect.
var fenceOp protocol

func init() {
	fenceOp = protocol{name: "fence", progress: progressFence, completed: lanesFlushed}
}

func progressFence(r *Request) error {
	r.ep.flow().fencing = r
	return progressFlush(r)
}

// Fence orders one-sided operations: on every endpoint, those started before
// take effect at the peer before those started afterwards. It does not wait and
// says nothing about completion.
func (w *Worker) Fence() error {
	if w.closed {
		return ucs.ErrInvalidParam
	}
	var first error
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err != nil || ep.rma == nil || ep.state&epClosed != 0 {
			return
		}
		if err := ep.fence(); err != nil && first == nil {
			first = err
		}
	})
	return first
}

// fence orders the operations of an endpoint. One connection keeps its order by
// itself, or needs a word of the transport's; of several, and of writes that
// messages may overtake, those before must be done first.
func (ep *Endpoint) fence() error {
	f := ep.rma
	if !f.direct && !f.messages {
		return nil
	}
	strong := len(ep.lanes) > 1 || f.copies.busy()
	for i := range ep.lanes {
		a := ep.lanes[i].iface.attr
		strong = strong || f.direct && !a.Flags.Has(uct.IfacePutAMOrder)
	}
	if !strong {
		// What waits in the lane's queue keeps its order anyway.
		if err := ep.ue.Fence(); err != nil && err != ucs.ErrNoResource {
			return err
		}
		return nil
	}
	f.direct, f.messages = false, false
	r := ep.control(&fenceOp)
	r.step = 0
	r.state |= stateParams
	r.onSend = func(r *Request, _ error, _ any) { r.ep.fenceOver(r) }
	ep.start(r, false)
	return nil
}

// fenceOver starts what a fence held back.
func (ep *Endpoint) fenceOver(r *Request) {
	if ep.rma.fencing != r {
		return
	}
	ep.rma.fencing = nil
	word.Fence() // what was written through mappings is seen before what follows
	if ep.err == nil && (ep.remoteID != 0 || ep.waiting.head == nil) {
		ep.drain()
	}
}

// fenced reports whether one-sided operations have to wait for a fence.
func (ep *Endpoint) fenced() bool { return ep.rma != nil && ep.rma.fencing != nil }

// heldBack reports whether a request may not be started yet because of a fence.
func (ep *Endpoint) heldBack(r *Request) bool { return r.oneSided() && ep.fenced() }

// oneSided reports whether r is an operation that fences order.
func (r *Request) oneSided() bool { return r.key != nil }

// oweCompletion tells the peer that one of its puts or posted atomic operations
// is done. What cannot leave at once is counted, not queued: a peer that does
// not read its answers costs nothing.
func (ep *Endpoint) oweCompletion() {
	f := ep.flow()
	f.owed++
	if f.completing {
		return
	}
	f.completing = true
	ep.start(ep.control(&sendCompletions), true)
}

// sendCompletions sends the CMPLs that are owed.
var sendCompletions protocol

func init() {
	sendCompletions = protocol{name: "rma completion", progress: progressCompletions}
}

func progressCompletions(r *Request) error {
	ep, f := r.ep, r.ep.rma
	for f.owed > 0 {
		f.owed-- // before the call: the peer may be this worker
		err := ep.ue.AMShort(uct.AMID(proto.IDCmpl), uint64(ep.remoteID), nil, 0, nil)
		if err != nil && err != ucs.InProgress {
			f.owed++
			return err
		}
	}
	f.completing = false
	r.finish(nil)
	return nil
}

// onCompletion is told that the peer has done one more put or posted atomic
// operation.
func (w *Worker) onCompletion(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseCmpl(data)
	if err != nil {
		return w.malformed(err)
	}
	ep := w.endpoints.Get(uint64(h.EpID))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return nil
	}
	f := ep.rma
	if f == nil || f.posted == f.completed {
		return w.malformed(errCompletion)
	}
	f.completed++
	f.advance()
	return nil
}
