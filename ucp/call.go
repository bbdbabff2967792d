package ucp

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// call describes a call of the application, either so that another goroutine can carry it out or
// because the call waits for the end of its operation. In thread mode multi, a call that finds the
// worker owned by another goroutine is delegated to that owner (delegate). wait.go is about calls
// that wait.
type call struct {
	engine.Waiter
	engine.Task
	w     *Worker
	start func(*call) (*Request, error) // carries out the call

	// The arguments of the call.
	ep     *Endpoint
	key    *Rkey
	msg    *TagMessage
	am     *AMMessage // message to be received, or that a queue has returned
	queue  *AMQueue
	amID   uint16
	header []byte // header of an active message
	form   *messageForm
	tag    Tag
	mask   Tag
	raddr  uint64
	op     AtomicOp
	state  requestState
	buf    []byte
	p      *RequestParams // nil or &params
	params RequestParams
	rule   *callRule

	// State of a delegated call.
	delegatedRequest *Request // the request that the caller got, nil if the call is detached
	made             bool     // delegatedRequest is a new object, to be counted in Stats.Requests
	memory           *Memory  // RequestParams.Memory, in use until the operation has begun
	detached         bool     // the call has returned to its caller as done: no request, no callback
	small            [smallBytes]byte

	waiting
}

// smallBytes is the length in bytes of the longest message that a delegated send copies, so that
// the send is done for its caller.
const smallBytes = 64

var calls = sync.Pool{New: func() any { return new(call) }}

// newCall returns a call with start set, for the caller to fill in.
func (w *Worker) newCall(start func(*call) (*Request, error)) *call {
	c := calls.Get().(*call)
	c.w, c.start = w, start
	return c
}

// drop returns the call to the pool. Nothing may refer to it any more.
func (c *call) drop() {
	c.w, c.start, c.ep, c.key, c.msg, c.form, c.buf, c.rule = nil, nil, nil, nil, nil, nil, nil, nil
	c.am, c.queue, c.header = nil, nil, nil
	if c.p != nil {
		c.p, c.params = nil, RequestParams{}
	}
	c.dropMemory()
	c.delegatedRequest, c.made, c.detached, c.state = nil, false, false, 0
	c.waiting = waiting{}
	calls.Put(c)
}

// dropMemory ends the call's use of RequestParams.Memory.
func (c *call) dropMemory() {
	if c.memory != nil {
		c.memory.unuse()
		c.memory = nil
	}
}

// with copies the optional parameters p into the call, so that the application may reuse them, and
// returns c.
func (c *call) with(p *RequestParams) *call {
	if p != nil {
		c.params = *p
		c.p = &c.params
	}
	return c
}

// Do implements engine.Doer: the owner of the worker carries out the delegated call.
func (c *call) Do() {
	w := c.w // [do]
	err := w.owner.misused()
	if !c.detached {
		c.runDelegated(err)
		c.drop()
		return
	}
	var r *Request
	if err == nil {
		r, err = c.start(c)
	}
	if r == nil {
		c.detachedOver(err)
		return
	}
	r.state |= stateParams | stateFreed // the operation goes on, with the data in c.small
	r.onSend, r.userData = endDetached, c
}

// endDetached is the completion callback of the operation of a detached call.
func endDetached(_ *Request, err error, c any) { c.(*call).detachedOver(err) }

// detachedOver ends a detached call. The next flush of the endpoint returns err if it is not nil.
func (c *call) detachedOver(err error) {
	if err != nil {
		c.w.keepError(c.ep, err)
	}
	c.w.detachedCalls.Add(-1)
	c.drop()
}

// runDelegated carries out a delegated call for which the caller already has a request. If err is
// not nil the call is not carried out and the request ends with err. A callback may have freed or
// canceled the request before.
func (c *call) runDelegated(err error) {
	w, r := c.w, c.delegatedRequest
	was := r.state
	if was&stateFreed != 0 {
		c.params.OnSend, c.params.OnTagRecv, c.params.OnStreamRecv = nil, nil, nil
	}
	if err == nil && was&stateUnwanted != 0 {
		err = ucs.ErrCanceled
	}
	if c.made {
		w.stats.Requests++
	}
	if err == nil {
		w.pool.promised, w.rights.delegated = r, c
		_, err = c.start(c)
		w.pool.promised, w.rights.delegated = nil, nil
	}
	if err != nil {
		c.dropMemory()
		r.refused(c, err)
	}
	if was&stateFreed != 0 {
		r.free()
	}
}

// delegate passes the call to the goroutine that owns the worker. It returns what the call would
// return: a request in flight, or nil for a detached call.
func (c *call) delegate() (*Request, error) {
	r, left, err := c.tryDelegate()
	if !left {
		c.drop()
	}
	return r, err
}

// tryDelegate is delegate for calls with further results. left reports whether the call was
// delegated. If not, the call was carried out or refused: the caller takes the further results from
// the call, and drops it.
func (c *call) tryDelegate() (r *Request, left bool, err error) {
	w := c.w
	if err := c.rule.check(c.buf, c.p); err != nil {
		return nil, false, err
	}
	switch {
	case !c.mayDelegate():
		w.owner.acquire()
		r, err = c.start(c)
		w.owner.release()
		return r, false, err
	case c.detached:
		w.detachedCalls.Add(1)
		c.buf = c.small[:copy(c.small[:], c.buf)]
	default:
		r, c.made = w.newDelegatedRequest()
		r.state, r.userData = stateDelegated|c.state&stateRecv, c.params.UserData
		c.params.Flags |= OpNoImmediate
		c.p, c.delegatedRequest = &c.params, r
		if m := c.params.Memory; m != nil && m.use() {
			c.memory = m
		}
	}
	c.Of(c)
	w.owner.push(&c.Task)
	return r, true, nil
}

// keepError records the error of a detached call on ep for the next flush. Only the first is kept.
func (w *Worker) keepError(ep *Endpoint, err error) {
	if ep.life.Stage == life.Gone {
		return
	}
	if w.lostErrors == nil {
		w.lostErrors = make(map[*Endpoint]error)
	}
	w.lostErrors[ep] = cmp.Or(w.lostErrors[ep], err) // the first one
}

// takeError returns the error that keepError recorded, and forgets it.
func (ep *Endpoint) takeError() error {
	if len(ep.w.lostErrors) == 0 {
		return nil
	}
	err := ep.w.lostErrors[ep]
	delete(ep.w.lostErrors, ep)
	return err
}

// maxDetached bounds, approximately, the detached calls in flight. Nothing else slows down a
// goroutine that makes them: neither the owner of the worker, which may own it for long, nor a peer
// that does not read.
const maxDetached = 512

// mayDelegate reports whether the call may be delegated, because its result does not depend on the
// goroutine that carries it out.
func (c *call) mayDelegate() bool {
	if c.detached && c.w.detachedCalls.Load() >= maxDetached {
		return false
	}
	hooks := c.w.ctx.params.RequestInit != nil || c.w.ctx.params.RequestCleanup != nil
	ended := c.ep != nil && atomic.LoadUint32(&c.ep.ended) != 0
	return c.params.Flags&OpForceImmediate == 0 && c.params.Request == nil && !hooks && !ended
}

// newDelegatedRequest returns a request for a delegated call. The result made reports whether the object is
// new.
func (w *Worker) newDelegatedRequest() (r *Request, made bool) {
	if r, ok := w.pool.spares.Get().(*Request); ok {
		r.setLife(lifeInFlight)
		return r, false
	}
	return w.pool.makeRequest(), true
}

// refused ends the promised request of a delegated call that cannot be carried out with err.
func (r *Request) refused(c *call, err error) {
	r.state = stateParams | statePromised | c.state&stateRecv
	r.onSend, r.onTagRecv, r.onRecv, r.userData = c.params.OnSend, c.params.OnTagRecv, c.params.OnStreamRecv, c.params.UserData
	r.finish(err)
}

// Errors of calls that the application makes wrongly. An error names the call, what was given and
// what is wanted. The functions that make these errors are not inlined into the paths of messages.

// missingFeature returns the error of a call that needs one of the features f: the worker's context has none
// of them, or else the worker is closed.
//
//go:noinline
func (w *Worker) missingFeature(call string, f Features) error {
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

// A call on a handle that this package has not made, nil or a zero value, returns an error. The
// explicit check for nil replaces the implicit one of the first access, so it costs nothing on
// short paths.

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
	return from.Account().Ledger().Refuse(why)
}

// noCopy marks a struct that is returned as a pointer and must not be copied, because other structs
// refer to it by its address. The copylocks check of go vet, which go test also runs, reports
// copies of a struct with such a field. The field takes no memory unless it is the last one.
type noCopy struct{}

// Lock and Unlock are the methods by which the copylocks check recognizes noCopy.
func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}
