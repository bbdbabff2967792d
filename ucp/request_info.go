package ucp

import "github.com/ucx-go/ucx/ucs"

// RequestAttr describes a request.
type RequestAttr struct {
	Info       string // protocol and transport
	Err        error  // as Request.Err
	MemoryType ucs.MemoryType
}

// Query describes the request. A request that is not in use gives
// ucs.ErrInvalidParam.
func (r *Request) Query() (RequestAttr, error) {
	if r == nil || r.w == nil {
		return RequestAttr{}, ucs.ErrInvalidParam
	}
	r.checkLive()
	a := RequestAttr{Err: r.Err(), MemoryType: ucs.MemoryHost}
	switch {
	case r.proto != nil && r.ep != nil:
		a.Info = r.proto.about().name + " " + r.ep.laneName(int(r.lane))
	case r.proto != nil:
		a.Info = r.proto.about().name
	case r.state&stateRecv != 0:
		a.Info = "tag receive"
	}
	return a, nil
}
