package ucp

import "context"

// ConnectWait waits until the endpoint is connected: until messages that are started on it
// go out, with lanes that both ends have agreed on, as far as it takes the peer's worker to
// be progressed. It fails as the endpoint does. If ctx ends
// before, its error is returned, and the connecting goes on.
func (ep *Endpoint) ConnectWait(ctx context.Context) error {
	if ep.missing() {
		return errMissing("Endpoint.ConnectWait", ep == nil)
	}
	return ep.endWith(ctx, startReaching)
}

func startReaching(c *call) (*Request, error) {
	ep := c.ep
	if err := ep.usable(); err != nil {
		return nil, err
	}
	r, err := ep.w.useRequest(nil)
	if err != nil {
		return nil, err
	}
	r.toward(ep)
	r.proto = reaching{}
	ep.submit(r)
	return r.result()
}

// reaching is an operation that needs to be connected, and nothing else.
type reaching struct{ basics }

func (reaching) about() protocolInfo {
	return protocolInfo{name: "connect", kind: kindFlush, needs: needID}
}

func (reaching) progress(r *Request) error {
	r.finish(nil)
	return nil
}
