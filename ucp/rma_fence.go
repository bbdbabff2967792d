package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// fence holds back the one-sided operations behind it until those before it have
// taken effect: it is a flush that they need.
type fence struct{ flushing }

func (fence) about() protocolInfo { return protocolInfo{name: "fence", kind: kindFlush} }

func (p fence) progress(r *Request) error {
	if f := r.ep.flow(); f.fencing != r { // it may be run several times
		f.direct, f.messages = false, false
		f.fencing = r
		r.ep.lacks |= needFence
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
		ep.obtain(needFence)
	}
}

// Fence orders one-sided operations: on every endpoint, operations started before it take
// effect at the peer before those started after it. It does not wait and does not indicate
// completion.
func (w *Worker) Fence() error {
	if w.missing() {
		return errMissing("Worker.Fence", w == nil)
	}
	w.enter()
	err := w.fence()
	w.exit()
	return err
}

func (w *Worker) fence() error {
	if w.closed {
		return w.closedFor("Fence")
	}
	var first error
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err != nil || ep.rma == nil || ep.life.Stage == life.Gone {
			return
		}
		if err := ep.fence(); err != nil && first == nil {
			first = err
		}
	})
	return first
}

// fence orders the operations of an endpoint: at once, or if operations wait, whose
// ways are not known yet, behind them.
func (ep *Endpoint) fence() error {
	if ep.waiting.head == nil && !ep.fenceNeedsFlush() {
		return ep.fenceLane()
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
	if r.ep.fenceNeedsFlush() {
		return fence{}, nil
	}
	return plainFence{}, nil
}

// plainFence is a fence that takes a word to the transport.
type plainFence struct{ basics }

func (plainFence) about() protocolInfo { return protocolInfo{name: "fence", kind: kindFlush} }

func (plainFence) progress(r *Request) error {
	err := r.ep.fenceLane()
	if err == nil {
		r.finish(nil)
	}
	return err
}

// fenceNeedsFlush reports whether what was started before must be done before
// anything else starts: several connections keep no order, nor do writes that
// messages may overtake. Nor do messages, which the peer's worker carries out, with what
// reaches memory without it.
func (ep *Endpoint) fenceNeedsFlush() bool {
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
func (ep *Endpoint) fenceLane() error {
	if f := ep.rma; !f.direct && !f.messages {
		return nil
	}
	if err := ep.ue.Fence(); err != nil && err != ucs.ErrNoResource {
		return err
	}
	return nil
}
