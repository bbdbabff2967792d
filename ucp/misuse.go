package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// Errors of calls that the application makes wrongly. An error names the call, what was given and
// what is wanted. The functions that make these errors are not inlined into the paths of messages.

// lacks returns the error of a call whose feature the worker's context does not have, or else of a
// call on a closed worker.
//
//go:noinline
func (w *Worker) lacks(call string, f Features) error {
	if have := w.ctx.params.Features; have&f == 0 {
		return fmt.Errorf("ucp: %s needs feature %v in ContextParams.Features, which has %v: %w", call, f, have, ucs.ErrInvalidParam)
	}
	return w.closedFor(call)
}

// closedFor returns the error of a call on a closed worker.
//
//go:noinline
func (w *Worker) closedFor(call string) error {
	return fmt.Errorf("ucp: %s on worker %s, which is closed: %w", call, w.name, ucs.ErrInvalidParam)
}

// wrongKey returns the error of an operation of an endpoint with a key that is nil, closed or
// unpacked by another endpoint.
//
//go:noinline
func (ep *Endpoint) wrongKey(call string, k *Rkey) error {
	why := "which is closed"
	switch {
	case k == nil:
		why = "which is nil: Endpoint.UnpackRkey makes one"
	case k.ep != ep:
		why = "which was unpacked by another endpoint, " + k.ep.describe()
	}
	return fmt.Errorf("ucp: %s on endpoint %s with a key %s: %w", call, ep.describe(), why, ucs.ErrInvalidParam)
}

// wrongEndpoint returns an error that describes the first flaw in the parameters of an endpoint,
// nil if there is none.
func (w *Worker) wrongEndpoint(p *EndpointParams) error {
	ways := 0
	for _, given := range []bool{len(p.Address) > 0, p.RemoteAddr.IsValid(), p.ConnRequest != nil} {
		if given {
			ways++
		}
	}
	flags := EndpointNoLoopback
	if p.RemoteAddr.IsValid() {
		flags = EndpointSendClientID
	}
	var flaw string
	switch {
	case w.closed:
		return w.closedFor("NewEndpoint")
	case ways == 0:
		flaw = "none of Address, RemoteAddr and ConnRequest is given"
	case ways > 1:
		flaw = "more than one of Address, RemoteAddr and ConnRequest is given"
	case p.ErrMode > ErrModePeer:
		flaw = fmt.Sprintf("ErrMode is %d, wanted ErrModeNone or ErrModePeer", p.ErrMode)
	case p.Flags&^flags != 0:
		flaw = fmt.Sprintf("Flags has %#x, of which %#x are known for an endpoint of this kind", uint32(p.Flags), uint32(flags))
	case p.LocalAddr.IsValid() && !p.RemoteAddr.IsValid():
		flaw = "LocalAddr is given without RemoteAddr"
	case p.ClientID != 0 && len(p.Address) > 0:
		flaw = "ClientID is given with Address, it needs RemoteAddr or ConnRequest"
	default:
		return nil
	}
	return fmt.Errorf("ucp: EndpointParams: %s: %w", flaw, ucs.ErrInvalidParam)
}

// wrongListener returns an error that describes the first flaw in the parameters of a listener, nil
// if there is none.
func (w *Worker) wrongListener(p *ListenerParams) error {
	var flaw string
	switch {
	case w.closed:
		return w.closedFor("NewListener")
	case !p.Addr.IsValid():
		flaw = "Addr is not given"
	case p.OnConnRequest == nil && p.OnAccept == nil:
		flaw = "neither OnConnRequest nor OnAccept is given"
	case p.OnConnRequest != nil && p.OnAccept != nil:
		flaw = "both OnConnRequest and OnAccept are given"
	default:
		return nil
	}
	return fmt.Errorf("ucp: ListenerParams: %s: %w", flaw, ucs.ErrInvalidParam)
}

// wrong returns an error that describes the first flaw in the parameters of a context, nil if there
// is none.
func (p *ContextParams) wrong() error {
	var flaw string
	switch {
	case p.EstimatedEndpoints < 0 || p.EstimatedPPN < 0:
		flaw = fmt.Sprintf("EstimatedEndpoints is %d and EstimatedPPN %d, wanted 0 or more", p.EstimatedEndpoints, p.EstimatedPPN)
	case p.PeerRelease > PeerRelease122:
		flaw = fmt.Sprintf("PeerRelease is %d, wanted one of the constants", p.PeerRelease)
	case p.RequireTLS && p.TLS == nil:
		flaw = "RequireTLS is set and TLS is nil, wanted a configuration with certificates"
	default:
		return nil
	}
	return fmt.Errorf("ucp: ContextParams: %s: %w", flaw, ucs.ErrInvalidParam)
}

// errNoRequest is the error of a call with a nil request, which stands for an operation that is
// done.
var errNoRequest = fmt.Errorf("ucp: the request is nil, so its operation was done in the call: %w", ucs.ErrInvalidParam)

// errSignalClosed is the error of Signal on a closed worker, which no waiter can receive.
var errSignalClosed = fmt.Errorf("ucp: Signal on a worker that is closed: %w", ucs.ErrInvalidParam)

// A call on a handle that this package has not made, nil or a zero value, returns an error. The
// check of the pointer replaces the one that the processor would do, so it costs nothing on short
// paths.

func (ep *Endpoint) missing() bool   { return ep == nil || ep.w == nil }
func (w *Worker) missing() bool      { return w == nil || w.ctx == nil }
func (c *Context) missing() bool     { return c == nil || c.set == nil }
func (m *Memory) missing() bool      { return m == nil || m.ctx == nil }
func (k *Rkey) missing() bool        { return k == nil || k.ep == nil }
func (l *Listener) missing() bool    { return l == nil || l.w == nil }
func (r *ConnRequest) missing() bool { return r == nil || r.uct == nil }
func (q *AMQueue) missing() bool     { return q == nil || q.w == nil }
func (m *AMMessage) missing() bool   { return m == nil || m.w == nil }
func (d *TagMessage) missing() bool  { return d == nil || d.w == nil }

// errMissing returns the error of a call on a handle that is nil, or else a zero value.
//
//go:noinline
func errMissing(call string, isNil bool) error {
	if isNil {
		return fmt.Errorf("ucp: %s called on nil: %w", call, ucs.ErrInvalidParam)
	}
	return fmt.Errorf("ucp: %s called on a zero value that the package has not made: %w", call, ucs.ErrInvalidParam)
}

// refused counts a refused request of a peer, and reports whether the refusal should be logged.
func (w *Worker) refused(from *source, why ledger.Reason) bool {
	w.stats.Refused++
	return from.account().ledger.Refuse(why)
}

// noCopy marks a struct that is returned as a pointer and must not be copied, because other structs
// refer to it by its address. The copylocks check of go vet, which go test also runs, reports
// copies of a struct with such a field. The field takes no memory unless it is the last one.
type noCopy struct{}

// Lock and Unlock are the methods by which the copylocks check recognizes noCopy.
func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}
