package ucp

import (
	"fmt"
	"runtime"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
)

// Functions of the application (callbacks, error handlers, hooks, datatypes) are
// called here and nowhere else. They run in the middle of things: a panic that went
// through would leave transports half way. So it is caught where it comes out of the
// function, the library ends what it was doing as if the function had returned, and
// the outermost call of the application panics with it. What costs something, the
// deferred function, costs it only where there is such a function.

// CallbackPanic is what a call of the library panics with when a function that it has
// called for the application has panicked: a completion callback, an error handler,
// a hook of requests, a method of a datatype. The worker is in order and can be used
// on if the application recovers. Of several panics in one call the first is raised,
// the others are logged. A call that panics returns nothing: a request it would have
// returned goes on without an owner.
type CallbackPanic struct {
	Value any    // what the function panicked with
	Stack []byte // where it did, as runtime.Stack says it
}

// Error tells the value, and where it comes from.
func (p *CallbackPanic) Error() string {
	return fmt.Sprintf("ucp: panic in a callback: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *CallbackPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// callout is a function of the application being run: it has the worker meanwhile.
type callout struct {
	w        *Worker
	was      gate
	returned bool
}

// callout begins that. The function's caller defers back, and says behind it that it
// has returned.
func (w *Worker) callout() callout {
	if w == nil { // a datatype that is asked outside of any call of a worker
		return callout{}
	}
	a := callout{w: w, was: w.gate & gateInside}
	w.gate &^= gateInside
	w.depth++
	return a
}

// back takes the worker back.
func (a *callout) back() {
	if a.w == nil {
		return
	}
	a.w.depth--
	a.w.gate |= a.was
	if !a.returned {
		a.w.broken(recover())
	}
}

// broken is told that a function of the application did not return. recovered is nil
// if it has ended its goroutine, which nothing can stop.
//
//go:noinline
func (w *Worker) broken(recovered any) {
	if recovered == nil {
		w.gate |= gateAbandoned
		return
	}
	p, ok := recovered.(*CallbackPanic) // of another worker's call, which has told where
	if !ok {
		p = &CallbackPanic{Value: recovered, Stack: stack()}
	}
	if w.panicked != nil {
		log.Error("one more panic in a callback", zap.String("worker", w.name), zap.Any("value", p.Value), zap.ByteString("stack", p.Stack))
		return
	}
	w.panicked = p
	w.gate |= gatePanicked
}

// stack is the goroutine's, as far down as is of use.
func stack() []byte {
	b := make([]byte, 64<<10)
	return b[:runtime.Stack(b, false)]
}

// raise panics with what was caught, if the call that ends is the outermost.
func (w *Worker) raise() {
	if w.depth != 0 || w.gate&gatePanicked == 0 {
		return
	}
	p := w.panicked
	w.gate &^= gatePanicked
	w.panicked = nil
	panic(p)
}

// callSend runs the callback of an operation, callRecv that of a receive. It may free
// the request.
func (r *Request) callSend(fn func(*Request, error, any), err error) {
	a := r.w.callout()
	defer a.back()
	fn(r, err, r.userData)
	a.returned = true
}

func (r *Request) callRecv(fn func(*Request, error, TagRecvInfo, any), err error) {
	a := r.w.callout()
	defer a.back()
	fn(r, err, r.info, r.userData)
	a.returned = true
}

// callError runs the error handler of the endpoint.
func (ep *Endpoint) callError() {
	a := ep.w.callout()
	defer a.back()
	ep.onError(ep, ep.err, ep.userData)
	a.returned = true
}

// callHook runs a hook for request objects.
func (r *Request) callHook(fn func(*Request)) {
	a := r.w.callout()
	defer a.back()
	fn(r)
	a.returned = true
}
