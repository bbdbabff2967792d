package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// fence holds back the one-sided operations behind it until those before it have
// taken effect: it is a flush that they need.
type fence struct{ flushing }

func (fence) about() protocolInfo { return protocolInfo{name: "fence", kind: kindFlush} }

func (p fence) progress(r *Request) error {
	f := r.ep.flow()
	f.direct, f.messages = false, false
	f.fencing = r
	r.ep.lacks |= needFence
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
// messages may overtake, those before must be done first. What waits has not been
// decided about: it may need any lane.
func (ep *Endpoint) fence() error {
	f := ep.rma
	strong := ep.waiting.head != nil
	if !strong && !f.direct && !f.messages {
		return nil
	}
	strong = strong || len(ep.lanes) > 1 || f.copies.busy()
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
	r := ep.control(fence{})
	r.step = 0
	ep.submit(r)
	return nil
}
