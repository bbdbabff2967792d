package ucp

import (
	"fmt"
	"runtime"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
)

// Functions of the application (callbacks, error handlers, hooks, datatypes, Accept) are
// called by what is in this file. They run in the middle of things: a panic that went
// through would leave transports half way. So it is caught where it comes out of the
// function, the library ends what it was doing as if the function had returned, and the
// outermost call of the application panics with it. What costs something, the deferred
// function, costs it only where there is such a function.

// CallbackPanic is the value that a call of the library panics with after a function of the
// application has panicked inside it: a completion callback, an error handler, a request
// hook, a method of a datatype, WorkerParams.Accept. The worker is intact and can be used
// further if the application recovers. If several functions panic in one call, the first
// panic is raised and the others are logged. A call that panics returns nothing: a request
// that it would have returned goes on without an owner.
type CallbackPanic struct {
	Value any    // the value the function panicked with
	Stack []byte // the stack of the panic, as runtime.Stack formats it
}

// Error returns the value and the place of the panic.
func (p *CallbackPanic) Error() string {
	return fmt.Sprintf("ucp: panic in a callback: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *CallbackPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// enterCallback is called before a function of the application, which has the worker
// meanwhile, and leaveCallback behind it, with what enterCallback returned. A deferred function
// in between checks whether the function came back, and if it did not calls callbackPanicked.
// These are few instructions, as programs that count on callbacks have one for each message:
// hence function literals, which are called without another function in between.
func (ow *ownership) enterCallback() (was gate) {
	was = ow.gate
	ow.gate = was&^gateInside + gateDepth
	if was&gateShared != 0 {
		ow.mayCallBack()
	}
	return was
}

// mayCallBack has the engine know the goroutine that is about to run the function.
//
//go:noinline
func (ow *ownership) mayCallBack() { ow.engine.Call() }

func (ow *ownership) leaveCallback(was gate) {
	ow.gate = ow.gate&gateFlags | was
	if was&gateShared != 0 && was.depth() == 0 {
		ow.engine.Return()
	}
}

// callbackReturned reports whether the function came back. Further up the stack of a goroutine
// that is being ended, another one may have the worker already: callbackPanicked handles that.
//
//go:norace
func (ow *ownership) callbackReturned(was gate) bool { return ow.gate.depth() == was.depth() }

//go:noinline
func (w *Worker) callbackPanicked(was gate, recovered any) {
	if w.abandoned() {
		return
	}
	w.owner.leaveCallback(was)
	w.broken(recovered)
}

//go:norace
func (w *Worker) abandoned() bool { return w.owner.gate&gateAbandoned != 0 }

// broken is told that a function of the application did not return. recovered is nil
// if it has ended its goroutine, which nothing can stop.
func (w *Worker) broken(recovered any) {
	if recovered == nil {
		w.owner.gate = w.owner.gate&gateFlags | gateAbandoned // none of those up the stack comes back
		if w.owner.multi {
			w.owner.abandonShared()
		}
		return
	}
	p, ok := recovered.(*CallbackPanic) // of another worker's call, which has told where
	if !ok {
		p = &CallbackPanic{Value: recovered, Stack: stack()}
	}
	if w.owner.panicked != nil {
		w.ctx.log.Error("another panic in a callback", zap.String("worker", w.name), zap.Any("value", p.Value), zap.ByteString("stack", p.Stack))
		return
	}
	w.owner.panicked = p
	w.owner.gate |= gatePanicked
}

// stack is the goroutine's, as far down as is of use.
func stack() []byte {
	b := make([]byte, 64<<10)
	return b[:runtime.Stack(b, false)]
}

// callSend runs the callback of an operation, callRecv that of a tagged receive,
// callLength that of other receives. It may free the request.
func (w *Worker) callSend(fn func(*Request, error, any), r *Request, err error, data any) {
	was := w.owner.enterCallback()
	defer func() {
		if !w.owner.callbackReturned(was) {
			w.callbackPanicked(was, recover())
		}
	}()
	fn(r, err, data)
	w.owner.leaveCallback(was)
}

func (w *Worker) callRecv(fn func(*Request, error, TagRecvInfo, any), r *Request, err error, info TagRecvInfo, data any) {
	was := w.owner.enterCallback()
	defer func() {
		if !w.owner.callbackReturned(was) {
			w.callbackPanicked(was, recover())
		}
	}()
	fn(r, err, info, data)
	w.owner.leaveCallback(was)
}

// callAM runs the handler of an active message. If it panics that is as if it had not
// wanted the message.
func (w *Worker) callAM(fn AMHandler, m *AMMessage) (err error) {
	was := w.owner.enterCallback()
	defer func() {
		if !w.owner.callbackReturned(was) {
			w.callbackPanicked(was, recover())
			err = ucs.ErrCanceled
		}
	}()
	err = fn(m)
	w.owner.leaveCallback(was)
	return err
}

// callLength runs the callback of a receive that is told a length.
func (w *Worker) callLength(fn func(*Request, error, int, any), r *Request, err error, n int, data any) {
	was := w.owner.enterCallback()
	defer func() {
		if !w.owner.callbackReturned(was) {
			w.callbackPanicked(was, recover())
		}
	}()
	fn(r, err, n, data)
	w.owner.leaveCallback(was)
}

// callError runs the error handler of the endpoint.
func (ep *Endpoint) callError() {
	ep.w.run(func() { ep.onError(ep, ep.err, ep.userData) })
}

// callHook runs a hook for request objects.
func (r *Request) callHook(fn func(*Request)) {
	r.w.run(func() { fn(r) })
}

// run runs any function. It does not escape, so that it costs no allocation. Without a
// worker, w nil, its panics go straight through.
func (w *Worker) run(fn func()) {
	if w == nil {
		fn()
		return
	}
	was := w.owner.enterCallback()
	defer func() {
		if !w.owner.callbackReturned(was) {
			w.callbackPanicked(was, recover())
		}
	}()
	fn()
	w.owner.leaveCallback(was)
}
