package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
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

	completionsOwed int  // CMPLs to send to the peer
	completing      bool // a request that sends them is under way
	direct          bool // something was started that goes straight to the peer's memory, since the last fence
	messages        bool // something was started that goes by messages, since then
	bypassed        bool // there is, or was, a key by which a lane reaches memory without the peer's worker
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

// reached reports whether count n has come to where it was at mark.
func reached(n, mark uint32) bool { return int32(n-mark) >= 0 }

// settled reports whether everything a flush waits for has been answered.
func (f *rmaFlow) settled(r *Request) bool {
	return reached(f.completed, r.flush.posted) && reached(f.answered, r.flush.asked)
}

// idle reports whether the peer has answered everything.
func (f *rmaFlow) idle() bool { return f.completed == f.posted && f.answered == f.asked }

// advance ends the flushes that have nothing more to wait for.
func (f *rmaFlow) advance() {
	for r := f.flushing.head; r != nil && f.settled(r); r = f.flushing.head {
		f.flushing.remove(r)
		r.w.rma.flushed(r, nil)
	}
}

// lanesFlushed is told that the transports have flushed: what is left is what
// went by messages. One lane may have flushed after another one has failed, and the endpoint
// with it, which nobody answers any more.
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

// flushed is told that nothing is left to wait for.
func (rm *rmaState) flushed(r *Request, err error) { r.finish(err) }

// addCompletionOwed tells the peer that one of its puts or posted atomic operations
// is done. What cannot leave at once is counted, not queued: a peer that does
// not read its answers costs nothing.
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
	f.completing = false // before the end, which may be put off: more may be owed by then
	r.finish(nil)
	return nil
}

// abort lets another one try.
func (p sendCompletions) abort(r *Request, err error) {
	r.ep.rma.completing = false
	p.basics.abort(r, err)
}

// onCompletion is told that the peer has done one more put or posted atomic
// operation.
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

// fence holds back the one-sided operations behind it until those before it have
// taken effect: it is a flush that they need.
type fence struct{ flushing }

func (fence) about() protocolInfo { return protocolInfo{name: "fence", kind: kindFlush} }

func (p fence) progress(r *Request) error {
	if f := r.ep.flow(); f.fencing != r { // it may be run several times
		f.direct, f.messages = false, false
		f.fencing = r
		r.ep.needs |= needFence
	}
	return p.flushing.progress(r)
}

// release starts what the fence held back.
func (fence) release(r *Request) {
	ep := r.ep
	if ep.rma == nil || ep.rma.fencing != r {
		return
	}
	ep.rma.fencing = nil
	word.Fence() // what was written through mappings is seen before what follows
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

// fenceEndpoint orders the operations of an endpoint: at once, or if operations wait, whose
// ways are not known yet, behind them.
func (rm *rmaState) fenceEndpoint(ep *Endpoint) error {
	if ep.waiting.head == nil && !rm.fenceNeedsFlush(ep) {
		return rm.fenceLane(ep)
	}
	r := ep.control(nil)
	r.op, r.step = fenceOperation{}, 0
	ep.submit(r)
	return nil
}

// fenceOperation is a fence whose turn has to come.
type fenceOperation struct{}

func (fenceOperation) name() string { return "fence" }

func (fenceOperation) choose(r *Request) (protocol, error) {
	if r.ep.w.rma.fenceNeedsFlush(r.ep) {
		return fence{}, nil
	}
	return plainFence{}, nil
}

// plainFence is a fence that takes a word to the transport.
type plainFence struct{ basics }

func (plainFence) about() protocolInfo { return protocolInfo{name: "fence", kind: kindFlush} }

func (plainFence) progress(r *Request) error {
	err := r.ep.w.rma.fenceLane(r.ep)
	if err == nil {
		r.finish(nil)
	}
	return err
}

// fenceNeedsFlush reports whether what was started before must be done before
// anything else starts: several connections keep no order, nor do writes that
// messages may overtake. Nor do messages, which the peer's worker carries out, with what
// reaches memory without it.
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

// fenceLane orders what was started on the one connection there is. What waits in
// its queue keeps its order anyway.
func (rm *rmaState) fenceLane(ep *Endpoint) error {
	if f := ep.rma; !f.direct && !f.messages {
		return nil
	}
	if err := ep.ue.Fence(); err != nil && err != ucs.ErrNoResource {
		return err
	}
	return nil
}
