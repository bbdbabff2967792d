package ucp

import "context"

// ConnectWait waits until the endpoint is connected: both ends have agreed on lanes, and
// messages started on the endpoint are sent. For that the peer's worker must be progressed,
// too. ConnectWait fails if the endpoint fails. If ctx ends first its error is returned,
// and the connection setup goes on.
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
