package self

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// endpoint leads from its iface back to it.
type endpoint struct {
	uct.NoAM
	uct.NoRMA
	tx      *iface // where sends go: home, or nowhere when no more are allowed
	home    *iface
	pending kit.Queue
	src     uct.Source // of what it sends
	failure error      // why the receiver dropped it
	user    any        // for OnError
	queued  int        // messages of its in the backlog
	closed  bool
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.Atomic
	uct.Checker
} = (*endpoint)(nil)

// nowhere is what an endpoint that accepts nothing leads to. All its fields are
// zero and stay so: no send takes the fast path.
var nowhere = new(iface)

// headerLen is the length of the header of AMShort.
const headerLen = 8

// NewEndpoint implements uct.Iface.
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

// Flush implements uct.Endpoint: what was accepted has left its sender and has
// taken effect, or is a message on its way. With FlushCancel there is nothing
// to cancel; the endpoint accepts nothing more.
func (e *endpoint) Flush(flags uct.FlushFlags, _ *uct.Completion) error {
	if flags&uct.FlushCancel != 0 {
		e.tx = nowhere
		e.leaveWaiting()
		return nil
	}
	return e.ready()
}

// Fence implements uct.Endpoint: operations happen in order.
func (e *endpoint) Fence() error { return e.ready() }

// Check implements uct.Endpoint: the peer is there as long as the caller is.
func (e *endpoint) Check(*uct.Completion) error { return e.ready() }

// ready says whether an operation that needs no buffer may go on.
func (e *endpoint) ready() error {
	if e.tx == nowhere {
		return e.refusal()
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// refusal is why an endpoint that leads nowhere accepts nothing.
func (e *endpoint) refusal() error {
	if e.failure != nil {
		return e.failure
	}
	return ucs.ErrNotConnected
}

// DropSource implements uct.SourceOwner: the endpoint accepts nothing more, what
// it sent and has not been delivered is dropped, and progress tells its user.
func (e *endpoint) DropSource(err error) {
	if e.closed || e.failure != nil {
		return
	}
	e.failure = fmt.Errorf("self: dropped by the receiver: %w: %w", err, ucs.ErrConnectionReset)
	e.tx = nowhere
	e.home.failures.Add(&e.home.reporter, e, e.failure)
	e.src.Gone()
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	i := e.home
	if e.tx == nowhere || e.pending.Empty() && !i.backlog.full() {
		return ucs.ErrBusy // or the operation would not say what is wrong
	}
	i.waiting.Add(&e.pending, e, p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) {
	e.home.waiting.Purge(&e.pending, fn)
	e.home.updateInline()
}

func (e *endpoint) leaveWaiting() {
	e.home.waiting.Leave(&e.pending)
	e.home.updateInline()
}

// Room implements kit.Sender: the backlog is that of all endpoints. What requests
// send goes there: a handler that ran inside a dispatch could overtake those behind.
func (e *endpoint) Room() kit.Room {
	switch {
	case e.tx == nowhere:
		return kit.Full
	case e.home.backlog.full():
		return kit.Exhausted
	}
	return kit.Open
}

// Over implements kit.Failing: no operation is in flight.
func (e *endpoint) Over(error) (userData any, tell bool) { return e.user, !e.closed }

// Close implements uct.Endpoint. Messages that were accepted are delivered.
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
