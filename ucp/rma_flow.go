package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// rmaFlow is an endpoint's state of one-sided operations, allocated for the first. Operations by
// messages are counted. Each put and each posted atomic operation is answered by a CMPL, which says
// only that one more of them is done. Gets and fetching atomic operations are answered by their
// result. Both kinds of answers come in the order of the operations, so a flush is done when the
// counts of answers have reached the counts of operations at its begin. Counts wrap around.
type rmaFlow struct {
	posted, completed uint32 // operations answered by CMPL: sent, answered
	asked, answered   uint32 // operations answered with data: sent, answered

	flushing requestList // flushes that wait for answers, in order
	fencing  *Request    // a fence that holds back the operations started after it

	copies *copyFlow // nil before the first operation in pieces

	completionsOwed int  // CMPLs to send to the peer
	completing      bool // a request that sends CMPLs is in flight
	direct          bool // a direct operation was started since the last fence
	messages        bool // an operation by messages was started since the last fence
	bypassed        bool // a key has ever let a lane access memory without the peer's worker
}

// flow returns the endpoint's state for one-sided operations.
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
	for r := f.flushing.head; r != nil && f.settled(r); r = f.flushing.head {
		f.flushing.remove(r)
		r.w.rma.flushed(r, nil)
	}
}

// lanesFlushed is called when the lanes have flushed. What may be left are operations by messages,
// whose answers the flush then waits for. If another lane has failed meanwhile, and the endpoint
// with it, no answers come any more, and the flush ends with the error.
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
	f.flushing.push(r)
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

// fence holds back the one-sided operations after it until those before it have taken effect: it is
// a flush, whose end the later operations need (needFence).
type fence struct{ flushing }

func (fence) about() protocolInfo { return protocolInfo{name: "fence", kind: kindFlush} }

func (p fence) progress(r *Request) error {
	if f := r.ep.flow(); f.fencing != r { // progress may run several times
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
	var first error
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err != nil || ep.rma == nil || ep.life.Stage == life.Gone {
			return
		}
		if err := rm.fenceEndpoint(ep); err != nil && first == nil {
			first = err
		}
	})
	return first
}

// fenceEndpoint orders the operations of an endpoint: at once if the lane can do that, and
// otherwise with a request. That request also follows operations that wait, whose protocols are not
// chosen yet.
func (rm *rmaState) fenceEndpoint(ep *Endpoint) error {
	if ep.waiting.head == nil && !rm.fenceNeedsFlush(ep) {
		return rm.fenceLane(ep)
	}
	r := ep.control(nil)
	r.op, r.step = fenceOperation{}, 0
	ep.submit(r)
	return nil
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
	err := r.ep.w.rma.fenceLane(r.ep)
	if err == nil {
		r.finish(nil)
	}
	return err
}

// fenceNeedsFlush reports whether the operations started before must be done before any other
// starts. That is so with several lanes, which keep no order among each other; with lanes on which
// messages may overtake writes; if messages, which the peer's worker carries out, may be mixed with
// accesses that bypass it; while operations in pieces are in flight; and with the strong fence
// mode.
func (rm *rmaState) fenceNeedsFlush(ep *Endpoint) bool {
	f := ep.flow()
	if !f.direct && !f.messages {
		return false
	}
	if len(ep.lanes) > 1 || f.messages && f.bypassed || f.copies.busy() || ep.w.ctx.settings.FenceMode == fenceStrong {
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
// keep their order anyway.
func (rm *rmaState) fenceLane(ep *Endpoint) error {
	if f := ep.rma; !f.direct && !f.messages {
		return nil
	}
	if err := ep.ue.Fence(); err != nil && err != ucs.ErrNoResource {
		return err
	}
	return nil
}
