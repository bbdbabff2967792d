package ucp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// flushOp flushes an endpoint, closeOp does so and releases it when finished,
// workerFlush waits for the flushes of the worker's endpoints.
var flushOp, closeOp, workerFlush protocol

func init() {
	flushOp = protocol{name: "flush", progress: progressFlush, completed: lanesFlushed}
	closeOp = protocol{name: "close", progress: progressFlush, completed: lanesFlushed}
	workerFlush = protocol{name: "worker flush", completed: (*Request).finish}
}

// progressFlush asks the transports to flush behind everything sent before, one
// lane after the other, when all of it has been sent. What went by messages is
// waited for afterwards.
func progressFlush(r *Request) error {
	if len(r.ep.lanes) == 0 {
		return ucs.ErrNotConnected
	}
	if f := r.ep.rma; f != nil && r.state&stateBehind == 0 {
		r.state |= stateBehind
		if f.copies.park(r) {
			return nil
		}
	}
	for ; int(r.step) < len(r.ep.lanes); r.step++ {
		r.lane = r.step
		r.comp.Count++
		err := r.ep.lanes[r.step].uct.Flush(uct.FlushRemote, &r.comp)
		if err == ucs.InProgress {
			continue
		}
		r.comp.Count--
		if err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

// Flush completes when all remote memory operations started on the endpoint
// before have taken effect at the peer, and what was sent before has left. It
// does not wait for messages to be matched. CloseFlags do not apply.
func (ep *Endpoint) Flush(p *RequestParams) (*Request, error) {
	if err := ep.usable(); err != nil {
		return nil, err
	}
	return ep.startFlush(p, &flushOp)
}

func (ep *Endpoint) startFlush(p *RequestParams, op *protocol) (*Request, error) {
	if p != nil && p.Attr&OpForceImmediate != 0 {
		return nil, ucs.ErrNoResource
	}
	r, err := ep.w.useRequest(p)
	if err != nil {
		return nil, err
	}
	r.ep, r.proto, r.step = ep, op, 0
	ep.start(r, false)
	return r.result()
}

// Flush flushes every endpoint of the worker.
func (w *Worker) Flush(p *RequestParams) (*Request, error) {
	if w.closed {
		return nil, ucs.ErrInvalidParam
	}
	if p != nil && p.Attr&OpForceImmediate != 0 {
		return nil, ucs.ErrNoResource
	}
	r, err := w.useRequest(p)
	if err != nil {
		return nil, err
	}
	r.proto = &workerFlush
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err != nil {
			return
		}
		r.comp.Count++
		child := ep.control(&flushOp)
		child.state |= stateParams
		child.step = 0
		child.onSend, child.userData = flushed, r
		ep.start(child, false)
	})
	r.comp.Done(nil)
	return r.result()
}

// flushed is told that one endpoint of a worker flush is done. An endpoint that
// failed meanwhile has nothing left to flush.
func flushed(_ *Request, err error, parent any) {
	r := parent.(*Request)
	if !r.w.closed {
		err = nil
	}
	r.comp.Done(err)
}

// CloseAsync closes the endpoint. By default everything started before is
// flushed first; messages the peer has not matched by then end with
// ucs.ErrCanceled. With CloseForce the endpoint is released in the call, all its
// operations end with ucs.ErrCanceled, and nothing is waited for; that needs
// ErrModePeer. After a failure of the peer either form releases the endpoint at
// once. A second close gives ucs.ErrNotConnected.
func (ep *Endpoint) CloseAsync(p *RequestParams) (*Request, error) {
	var flags CloseFlags
	if p != nil {
		flags = p.CloseFlags
		if flags&^CloseForce != 0 || flags&CloseForce != 0 && p.Attr&OpNoImmediate != 0 {
			return nil, ucs.ErrInvalidParam
		}
	}
	if ep.state&(epClosing|epClosed) != 0 {
		return nil, ucs.ErrNotConnected
	}
	if flags&CloseForce != 0 {
		if ep.errMode == ErrModeNone {
			return nil, ucs.ErrInvalidParam
		}
		ep.destroy(ucs.ErrCanceled)
		return nil, nil
	}
	if ep.err != nil {
		ep.destroy(ep.err)
		return nil, nil
	}
	ep.state |= epClosing
	ep.short = -1
	r, err := ep.startFlush(p, &closeOp)
	if err != nil && ep.state&epClosed == 0 {
		ep.state &^= epClosing // the parameters were refused
		ep.open()
	}
	return r, err
}
