package ucp

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
// for already it is not called for again.
func (ep *Endpoint) SetErrorHandler(fn func(ep *Endpoint, err error, userData any)) {
	ep.w.look()
	ep.onError = fn
	ep.w.unlook()
}
