package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
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
// for already it is not called for again. An endpoint with ErrModeNone has none:
// ucs.ErrInvalidParam.
func (ep *Endpoint) SetErrorHandler(fn func(ep *Endpoint, err error, userData any)) error {
	ep.w.look()
	defer ep.w.unlook()
	if fn != nil && ep.errMode == ErrModeNone {
		return errNeverCalled
	}
	ep.onError = fn
	return nil
}

var errNeverCalled = fmt.Errorf("ucp: OnError of an endpoint with ErrModeNone, which nothing would call: it takes ErrModePeer: %w", ucs.ErrInvalidParam)
