package ucp

import (
	"go.uber.org/zap"
)

// UserData returns what was given as EndpointParams.UserData, or to SetUserData.
func (ep *Endpoint) UserData() any {
	ep.w.look()
	v := ep.userData
	ep.w.unlook()
	return v
}

// SetUserData changes what OnError and Worker.StreamPoll tell as the endpoint's user data.
func (ep *Endpoint) SetUserData(v any) {
	ep.w.look()
	ep.userData = v
	ep.w.unlook()
}

// SetErrorHandler changes EndpointParams.OnError; nil is none. What an endpoint was called
// for already it is not called for again. With ErrModeNone it is never called.
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
	w.ctx.log.WarnOnce("", "OnError is never called for an endpoint with ErrModeNone: ErrModePeer would call it", zap.String("worker", w.name))
}
