package ucp

import (
	"cmp"
	"fmt"

	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// flushFamily contains the operations that wait for everything started before: flushes and closes.
type flushFamily struct{ noFamily }

func (flushFamily) about() familyInfo { return familyInfo{name: "flush"} }

// The flags and parameters that the calls accept.
var (
	callFlush = callRule{"a flush", OpNoImmediate | OpForceImmediate, paramOnSend}
	callClose = callRule{"a close", OpNoImmediate | OpForceImmediate, paramOnSend | paramCloseFlags}
)

// flushState is the state of a flush.
type flushState struct {
	posted, asked uint32 // counts in rmaFlow that it waits for (operations by messages)
	epoch         uint32 // operations in pieces of this epoch and later need not be waited for
}

// flushing is a flush of all lanes of an endpoint.
type flushing struct{ basics }

// progress first waits for operations in pieces to be sent completely. Then it asks the transports
// to flush everything sent before, one lane after the other. Operations by messages are waited for
// after that (lanesFlushed).
func (flushing) progress(r *Request) error {
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

// completed is called when all lanes have flushed.
func (flushing) completed(r *Request, err error) { lanesFlushed(r, err) }

// flushBegun counts a flush of the endpoint, which waits for answers of the peer's transports. At
// countless the counter stops for good: from then on the endpoint always counts as flushing.
func (ep *Endpoint) flushBegun() {
	if ep.flushes != countless {
		ep.flushes++
	}
	ep.w.stream.expect()
}

// countless is the value at which Endpoint.flushes stops counting.
const countless = 1<<16 - 1

func (flushing) release(r *Request) {
	if r.ep.flushes != countless {
		r.ep.flushes--
	}
}

// flush is a flush of one endpoint that the application asked for.
type flush struct{ flushing }

func (flush) about() protocolInfo { return protocolInfo{name: "flush", kind: kindFlush} }

// flushPart is the flush of one endpoint as part of a flush of the worker.
type flushPart struct{ flushing }

func (flushPart) about() protocolInfo { return protocolInfo{name: "flush", kind: kindFlush} }

// release reports the end to the flush of the worker. The error of an endpoint that failed
// meanwhile is dropped, because nothing is left to flush; only if the worker is closed it is passed
// on.
func (p flushPart) release(r *Request) {
	p.flushing.release(r)
	parent := r.userData.(*Request)
	r.userData = nil
	err := r.err
	if !r.w.closed {
		err = nil
	}
	parent.comp.Done(err)
}

// workerFlush is a flush of the worker. It waits for the flushes of the worker's endpoints.
type workerFlush struct{ basics }

func (workerFlush) about() protocolInfo { return protocolInfo{name: "worker flush", kind: kindFlush} }

func (workerFlush) progress(*Request) error { return nil }

// Flush is done when all one-sided operations started on the endpoint before it have taken
// effect at the peer, and all messages sent before it have been sent. It does not wait for
// messages to be matched. In ThreadModeMulti it fails with the error of an operation that
// was delegated to another goroutine and failed after its call had returned as done.
// With OpForceImmediate the flush is done in the call, or fails with ucs.ErrNoResource if
// it would have to wait.
func (ep *Endpoint) Flush(p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.Flush", ep == nil)
	}
	if err := callFlush.check(nil, p); err != nil {
		return nil, err
	}
	w := ep.w
	if !w.owner.tryAcquire() {
		c := w.newCall(startFlush).with(p)
		c.ep, c.rule = ep, &callFlush
		return c.delegate()
	}
	r, err := ep.beginFlush(p)
	w.owner.release()
	return r, err
}

func startFlush(c *call) (*Request, error) { return c.ep.beginFlush(c.p) }

func (ep *Endpoint) beginFlush(p *RequestParams) (*Request, error) {
	if err := ep.usable(); err != nil {
		return nil, err
	}
	if err := ep.takeError(); err != nil {
		return nil, err
	}
	return ep.w.ends.startFlush(ep, p)
}

// startFlush starts a flush for the application.
func (ee *endpointEnds) startFlush(ep *Endpoint, p *RequestParams) (*Request, error) {
	r, err := ep.w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	if p != nil && p.Flags&OpForceImmediate != 0 {
		return ee.flushedNow(r, ee.flushNow(ep))
	}
	r.toward(ep)
	r.proto, r.step = flush{}, 0
	ep.flushBegun()
	ep.submit(r)
	return r.result()
}

// Flush flushes every endpoint of the worker, as Endpoint.Flush does.
func (w *Worker) Flush(p *RequestParams) (*Request, error) {
	if w.missing() {
		return nil, errMissing("Worker.Flush", w == nil)
	}
	if err := callFlush.check(nil, p); err != nil {
		return nil, err
	}
	if !w.owner.tryAcquire() {
		c := w.newCall(startWorkerFlush).with(p)
		c.rule = &callFlush
		return c.delegate()
	}
	r, err := w.beginFlush(p)
	w.owner.release()
	return r, err
}

func startWorkerFlush(c *call) (*Request, error) { return c.w.beginFlush(c.p) }

func (w *Worker) beginFlush(p *RequestParams) (*Request, error) {
	if w.closed {
		return nil, w.closedFor("Flush")
	}
	r, err := w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	if p != nil && p.Flags&OpForceImmediate != 0 {
		return r.w.ends.flushedNow(r, w.flushNow())
	}
	r.proto = workerFlush{}
	var lost error
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err != nil {
			return
		}
		r.comp.Count++
		part := ep.control(flushPart{})
		part.step, part.userData = 0, r
		ep.flushBegun()
		ep.submit(part)
		lost = cmp.Or(lost, ep.takeError())
	})
	r.comp.Done(lost)
	return r.result()
}

// CloseAsync closes the endpoint. From then on the endpoint refuses operations. By default
// the operations that were started before go on, and the close is done after them. That
// includes messages that wait for the peer to match them, so a peer that never does delays
// the close. These operations end with ucs.ErrCanceled if the peer's end is gone, or if
// Close is called. The end of an endpoint that was made with an address may stay, hidden,
// after the close, as long as the peer's application holds its end.
//
// With CloseForce the endpoint is released in the call and all its operations end with
// ucs.ErrCanceled, without waiting; that needs ErrModePeer. After a failure of the peer
// either form releases the endpoint at once. A second close gives ucs.ErrNotConnected.
// While another goroutine uses the worker, or waits on it, the close is refused with
// ucs.ErrBusy, except in ThreadModeMulti.
func (ep *Endpoint) CloseAsync(p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.CloseAsync", ep == nil)
	}
	if err := ep.w.owner.acquireChecked(); err != nil {
		return nil, err
	}
	r, err := ep.w.ends.closeAsync(ep, p)
	ep.w.owner.release()
	return r, err
}

func startClose(c *call) (*Request, error) { return c.ep.w.ends.closeAsync(c.ep, c.p) }

func (ee *endpointEnds) closeAsync(ep *Endpoint, p *RequestParams) (*Request, error) {
	var flags CloseFlags
	if err := callClose.check(nil, p); err != nil {
		return nil, err
	}
	if p != nil {
		flags = p.CloseFlags
		if flags&CloseForce != 0 && p.Flags&OpNoImmediate != 0 {
			return nil, fmt.Errorf("ucp: CloseAsync: CloseForce is done in the call and excludes OpNoImmediate: %w", ucs.ErrInvalidParam)
		}
	}
	if ep.life.Refuses() {
		return nil, ucs.ErrNotConnected
	}
	if flags&CloseForce != 0 {
		if ep.errMode == ErrModeNone {
			return nil, fmt.Errorf("ucp: CloseAsync with CloseForce needs ErrModePeer, endpoint %s has ErrModeNone: %w", ep.describe(), ucs.ErrInvalidParam)
		}
		ee.destroy(ep, ucs.ErrCanceled)
		return nil, nil
	}
	if ep.err != nil {
		ee.destroy(ep, ep.err)
		return nil, nil
	}
	return ee.startClosing(ep, life.Close, p)
}

// startClosing starts a close that waits for the operations started before it.
func (ee *endpointEnds) startClosing(ep *Endpoint, how life.Event, p *RequestParams) (*Request, error) {
	if p != nil && p.Flags&OpForceImmediate != 0 {
		return nil, ucs.ErrNoResource
	}
	r, err := ep.w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	r.ep, r.proto = ep, closeRequest{}
	r.state |= stateUncounted
	ep.ensureExtra().closing = r
	ep.report(how, nil)
	ee.markEnded(ep)
	if ep.life.Stage == life.Draining {
		ep.w.uctw.Push() // sends what the transports have collected, without waiting for progress
	}
	return r.result()
}

// closeRequest is the application's request of a close. Other requests carry out the steps of the
// close.
type closeRequest struct{ basics }

func (closeRequest) about() protocolInfo { return protocolInfo{name: "close", kind: kindClose} }

func (closeRequest) progress(*Request) error { return nil }

// A flush with OpForceImmediate is done in the call if nothing is left to wait for, and otherwise
// starts nothing. A transport may have to send something to find that out, as tcp does after
// messages. The peer answers that later, and then the next such flush has less to wait for.

// flushNow flushes the endpoint. It returns ucs.ErrNoResource if the flush would have to wait.
func (ee *endpointEnds) flushNow(ep *Endpoint) error {
	if len(ep.lanes) == 0 || ep.waiting.head != nil {
		return ucs.ErrNoResource
	}
	if f := ep.rma; f != nil && (f.copies.busy() || !f.idle()) {
		return ucs.ErrNoResource
	}
	for i := range ep.lanes {
		err := ep.lanes[i].uct.Flush(uct.FlushRemote, nil)
		if err == ucs.InProgress {
			err = ucs.ErrNoResource
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flushNow flushes all endpoints. It returns ucs.ErrNoResource if a flush would have to wait.
func (w *Worker) flushNow() (err error) {
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err == nil && err == nil && ep.w.ends.flushNow(ep) != nil {
			err = ucs.ErrNoResource
		}
	})
	if err == nil {
		w.endpoints.Each(func(ep *Endpoint) {
			if ep.err == nil {
				err = cmp.Or(err, ep.takeError())
			}
		})
	}
	return err
}

// flushedNow ends the request of a flush with OpForceImmediate in its call.
func (ee *endpointEnds) flushedNow(r *Request, err error) (*Request, error) {
	if err == ucs.ErrNoResource {
		r.w.pool.dropRequest(r)
		return nil, err
	}
	r.finish(err)
	return r.result()
}
