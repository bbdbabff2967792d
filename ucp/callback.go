package ucp

import (
	"fmt"
	"runtime"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
)

// The library calls functions of the application (callbacks, error handlers, hooks, datatypes,
// Accept) through this file. They run in the middle of other work: a panic that passed through
// would leave transports in an inconsistent state. So the panic is caught where it leaves the
// function, the library completes its work as if the function had returned, and the outermost call
// of the application raises the panic. The cost of the deferred function arises only where there is
// a function to call.

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

// Error returns the value and the stack of the panic.
func (p *CallbackPanic) Error() string {
	return fmt.Sprintf("ucp: panic in a callback: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *CallbackPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// enterCallback is called before a function of the application, which may call the worker, and
// leaveCallback after it, with the value that enterCallback returned. A deferred function between
// them checks whether the function returned, and otherwise calls callbackPanicked. All this is kept
// to few instructions, because some programs have a callback for each message. For the same reason
// the deferred functions are literals, which the compiler calls directly.
func (ow *ownership) enterCallback() (was gate) {
	was = ow.gate
	ow.gate = was&^gateInside + gateDepth
	if was&gateShared != 0 {
		ow.mayCallBack()
	}
	return was
}

// mayCallBack tells the engine that this goroutine is about to run a function of the application.
//
//go:noinline
func (ow *ownership) mayCallBack() { ow.engine.Call() }

func (ow *ownership) leaveCallback(was gate) {
	ow.gate = ow.gate&gateFlags | was
	if was&gateShared != 0 && was.depth() == 0 {
		ow.engine.Return()
	}
}

// callbackReturned reports whether the function of the application returned; the parameter is the
// result of enterCallback. In a goroutine that is being ended, another goroutine may already own
// the worker when the deferred functions further up the stack run; callbackPanicked handles that.
//
//go:norace
func (ow *ownership) callbackReturned(was gate) bool { return ow.gate.depth() == was.depth() }

//go:noinline
func (w *Worker) callbackPanicked(was gate, recovered any) {
	if w.abandoned() {
		return
	}
	w.owner.leaveCallback(was)
	w.callbackFailed(recovered)
}

//go:norace
func (w *Worker) abandoned() bool { return w.owner.gate&gateAbandoned != 0 }

// callbackFailed records that a function of the application did not return. recovered is the panic value,
// nil if the function has ended its goroutine, which nothing can stop.
func (w *Worker) callbackFailed(recovered any) {
	if recovered == nil {
		w.owner.gate = w.owner.gate&gateFlags | gateAbandoned // no function up the stack returns
		if w.owner.multi {
			w.owner.abandonShared()
		}
		return
	}
	p, ok := recovered.(*CallbackPanic) // raised by a call of another worker, with its stack
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

// stack returns the goroutine's stack trace, at most 64 KiB.
func stack() []byte {
	b := make([]byte, 64<<10)
	return b[:runtime.Stack(b, false)]
}

// callSend runs the callback of an operation that is not a receive, callRecv that of a tagged
// receive, callLength that of other receives. The callback may free the request.
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

// callAM runs the handler of an active message. A panic of the handler has the effect of
// ucs.ErrCanceled, an error that refuses the message.
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

// callLength runs the callback of a receive that reports a length.
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

// run runs any function of the application. fn does not escape, so a closure costs no allocation.
// If w is nil, panics are not caught.
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
