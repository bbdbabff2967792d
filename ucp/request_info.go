package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// RequestAttr describes a request.
type RequestAttr struct {
	Info       string         // protocol and transport
	Err        error          // as Request.Err
	MemoryType ucs.MemoryType // of the buffer; unknown for operations without one
}

// Attr describes the request, until Free. It fails with ucs.ErrInvalidParam for nil, and
// for an object of the application's (RequestParams.Request) that has not been used yet, or
// whose last operation was done in its call.
func (r *Request) Attr() (RequestAttr, error) {
	if r == nil {
		return RequestAttr{}, errNoRequest
	}
	if r.w == nil {
		return RequestAttr{}, fmt.Errorf("ucp: Request.Attr: no operation uses the request: %w", ucs.ErrInvalidParam)
	}
	r.checkLive()
	r.w.look()
	defer r.w.unlook()
	a := RequestAttr{Err: r.Err()}
	if !r.is(kindFlush) && !r.is(kindClose) {
		a.MemoryType = ucs.MemoryHost // what is not is refused
	}
	switch {
	case r.proto != nil && r.ep != nil:
		a.Info = r.protocolName() + " " + r.ep.laneName(int(r.lane))
	case r.proto != nil || r.op != nil:
		a.Info = r.protocolName()
	case r.state&stateStream != 0:
		a.Info = "stream receive"
	case r.state&stateRecv != 0:
		a.Info = "tag receive"
	}
	return a, nil
}

// protocolName names what carries out a request, or before that is decided the
// operation, for people.
func (r *Request) protocolName() string {
	var name string
	if r.proto != nil {
		name = r.proto.about().name
	} else {
		name = r.op.name()
	}
	switch {
	case r.state&stateRecv != 0:
		return "tag " + name
	case r.state&stateAMRecv != 0:
		return "am " + name
	case r.form != nil:
		return r.form.name + " " + name
	}
	return name
}

// String names the protocol that a transport works for, in traces.
func (h *hooks) String() string {
	if h.proto == nil && h.op == nil {
		return ""
	}
	return (*Request)(h).protocolName()
}
