package self

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// endpoint is an endpoint from an iface to itself.
type endpoint struct {
	uct.NoAM
	uct.NoRMA
	uct.BasicSource
	tx      *iface // destination of sends: field home, or var nowhere if nothing is accepted
	home    *iface
	pending kit.Queue
	src     uct.Source // source of the endpoint's messages
	failure error      // reason why the receiver dropped the endpoint
	user    any        // user data to pass to OnError
	queued  int        // messages of the endpoint in the backlog
	closed  bool
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.Atomic
	uct.SourceOwner
} = (*endpoint)(nil)

// nowhere is the destination of an endpoint that accepts nothing. All its fields stay zero, so
// no send takes the fast path.
var nowhere = new(iface)

// headerLen is the length of the header of AMShort.
const headerLen = 8

// NewEndpoint implements uct.Iface. The addresses are untrusted, and are checked as in Reachable.
func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	if err := i.reaches(p.IfaceAddr); err != nil {
		return nil, err
	}
	if p.PathIndex < 0 || p.PathIndex >= i.attr.NumPaths {
		return nil, fmt.Errorf("self: path %d of %d: %w", p.PathIndex, i.attr.NumPaths, ucs.ErrInvalidParam)
	}
	i.endpoints++
	e := &endpoint{tx: i, home: i, user: p.UserData}
	e.src.Owner = e
	return e, nil
}

// Flush implements uct.Endpoint. Every accepted operation has taken effect, or is a message in
// the backlog. With FlushCancel there is nothing to cancel; the endpoint accepts nothing more.
func (e *endpoint) Flush(flags uct.FlushFlags, _ *uct.Completion) error {
	if flags&uct.FlushCancel != 0 {
		e.tx = nowhere
		e.leaveWaiting()
		return nil
	}
	return e.ready()
}

// Fence implements uct.Endpoint. Operations take effect in order, so there is nothing to do.
func (e *endpoint) Fence() error { return e.ready() }

// Check implements uct.Endpoint. The peer is the calling process.
func (e *endpoint) Check(*uct.Completion) error { return e.ready() }

// ready returns nil if an operation that needs no buffer can proceed, or the error to return.
func (e *endpoint) ready() error {
	if e.tx == nowhere {
		return e.refusal()
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// refusal returns the reason why an endpoint accepts nothing. The field tx of the endpoint is
// nowhere.
func (e *endpoint) refusal() error {
	if e.failure != nil {
		return e.failure
	}
	return ucs.ErrNotConnected
}

// DropSource implements uct.SourceOwner. The endpoint accepts nothing more, its undelivered
// messages are dropped, and progress reports the failure.
func (e *endpoint) DropSource(err error) {
	if e.closed || e.failure != nil {
		return
	}
	e.failure = fmt.Errorf("self: dropped by the receiver: %w: %w", err, ucs.ErrConnectionReset)
	e.tx = nowhere
	e.home.failures.Add(&e.home.reporter, e, e.failure)
	e.home.rouse()
	e.src.Gone()
}

// PendingAdd implements uct.Endpoint. It queues only what would be refused now.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	i := e.home
	if e.tx == nowhere || e.pending.Empty() && !i.backlog.full() {
		return ucs.ErrBusy // the caller then retries the operation, which returns the error
	}
	i.waiting.Add(&e.pending, e, p)
	i.rouse()
	return nil
}

// PendingPurge implements uct.Endpoint. It also works on a failed and on a closed endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) {
	e.home.waiting.Purge(&e.pending, fn)
	e.home.updateInline()
}

func (e *endpoint) leaveWaiting() {
	e.home.waiting.Leave(&e.pending)
	e.home.updateInline()
}

// Room implements kit.Sender. All endpoints share the backlog. Pending requests send to the
// backlog, because the sends of a handler that runs inside a dispatch could overtake the
// requests that are still queued.
func (e *endpoint) Room() kit.Room {
	switch {
	case e.tx == nowhere:
		return kit.Full
	case e.home.backlog.full():
		return kit.Exhausted
	}
	return kit.Open
}

// Over implements kit.Failing. No operation is in flight.
func (e *endpoint) Over(error) (userData any, report bool) { return e.user, !e.closed }

// Close implements uct.Endpoint. Accepted messages are still delivered. The Source of the messages
// ends with the last one.
func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.closed = true
	e.tx = nowhere
	e.leaveWaiting()
	e.home.endpoints--
	if e.queued == 0 {
		e.src.Gone()
	}
}
