package ucp

import (
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
	bypassed   bool // there is, or was, a key by which a lane reaches memory without the peer's worker
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

// settled reports whether everything a flush waits for has been answered.
func (f *rmaFlow) settled(r *Request) bool {
	return reached(f.completed, r.flush.posted) && reached(f.answered, r.flush.asked)
}

// quiet reports whether the peer has answered everything.
func (f *rmaFlow) quiet() bool { return f.completed == f.posted && f.answered == f.asked }

// advance ends the flushes that have nothing more to wait for.
func (f *rmaFlow) advance() {
	for r := f.flushing.head; r != nil && f.settled(r); r = f.flushing.head {
		f.flushing.remove(r)
		r.flushed(nil)
	}
}

// lanesFlushed is told that the transports have flushed: what is left is what
// went by messages. One lane may have flushed after another one has failed, and the endpoint
// with it, which nobody answers any more.
func lanesFlushed(r *Request, err error) {
	f := r.ep.rma
	if err != nil || f == nil {
		r.flushed(err)
		return
	}
	r.flush.posted, r.flush.asked = f.posted, f.asked
	if f.settled(r) {
		r.flushed(nil)
		return
	}
	if err := r.ep.gone(); err != nil {
		r.flushed(err)
		return
	}
	f.flushing.push(r)
}

// flushed is told that nothing is left to wait for.
func (r *Request) flushed(err error) { r.finish(err) }

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
	ep.reply(ep.control(sendCompletions{}))
}

// sendCompletions sends the CMPLs that are owed.
type sendCompletions struct{ basics }

func (sendCompletions) about() protocolInfo {
	return protocolInfo{name: "rma completion", needs: needID}
}

func (sendCompletions) progress(r *Request) error {
	ep, f := r.ep, r.ep.rma
	for f.owed > 0 {
		f.owed-- // before the call: the peer may be this worker
		err := ep.ue.AMShort(uct.AMID(proto.IDCmpl), uint64(ep.remoteID), nil, 0, nil)
		if err != nil && err != ucs.InProgress {
			f.owed++
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
func (w *Worker) onCompletion(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseCmpl(data)
	if err != nil {
		return w.malformed(err)
	}
	ep := w.endpoints.Get(uint64(h.EpID))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return nil
	}
	if w.foreign(src, ep) {
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

var errCompletion = &proto.FormatError{What: "completion", Reason: "nothing is outstanding", Status: ucs.ErrIO}
