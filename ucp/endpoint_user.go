package ucp

import (
	"go.uber.org/zap"
)

// UserData returns the value of EndpointParams.UserData, or of the last SetUserData.
func (ep *Endpoint) UserData() any {
	ep.w.look()
	v := ep.userData
	ep.w.unlook()
	return v
}

// SetUserData changes the user data that OnError and Worker.StreamPoll pass on.
func (ep *Endpoint) SetUserData(v any) {
	ep.w.look()
	ep.userData = v
	ep.w.unlook()
}

// SetErrorHandler replaces EndpointParams.OnError; nil removes it. If the handler of an
// endpoint has been called, the new one is not called for the same failure. With
// ErrModeNone the handler is never called.
func (ep *Endpoint) SetErrorHandler(fn func(ep *Endpoint, err error, userData any)) {
	ep.w.look()
	ep.onError = fn
	if fn != nil && ep.errMode == ErrModeNone && ep.conn() == nil {
		ep.w.handlerNeverCalled()
	}
	ep.w.unlook()
}

// handlerNeverCalled tells the program, once, of an error handler that belongs to an endpoint
// with ErrModeNone.
func (w *Worker) handlerNeverCalled() {
	w.ctx.log.WarnOnce("", "OnError is never called for an endpoint with ErrModeNone: set ErrModePeer", zap.String("worker", w.name))
}
