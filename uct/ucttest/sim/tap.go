package sim

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// Tap is called for each event on a network: when a message, a remote memory access or a flush
// is accepted, when it ends, and for refusals and failures. It runs on the goroutine that
// progresses the iface of the event, inside the operation that it reports, and must not call
// into the network.
type Tap func(e Event)

// EventKind is a kind of event.
type EventKind uint8

// Kinds of events.
const (
	// Sent: the transport has accepted an operation.
	Sent EventKind = iota + 1

	// Arrived: a message is about to be handed to its handler.
	Arrived

	// Ended: an access or a flush has ended, with Err.
	Ended

	// NoRoom: an operation was refused with ucs.ErrNoResource.
	NoRoom

	// Failed: an endpoint has failed with Err, and is about to report it.
	Failed

	// Dropped: the handler of a message returned Err, which drops the connection.
	Dropped
)

// Event is the argument of a Tap.
type Event struct {
	Kind     EventKind
	Number   int // number of the operation, from 1 on each network; 0 if the event has none
	Device   string
	From, To []byte // iface addresses of the initiator and of the peer

	Op   fault.Kind // kind of a message or an access
	Lost bool       // accepted, but an injected fault loses it

	// Fields of a flush, for which Op is not set.
	Flush  bool
	Remote bool // the flush also waits for the peer

	// Fields of a message. Data is valid during the call only.
	ID   uct.AMID
	Data []byte

	// Fields of a remote memory access.
	Addr   uint64
	Size   int
	Atomic uct.AtomicOp
	X, Y   uint64 // operand; or compare and swap

	// By is the object of the layer above that receives callbacks: the packer, unpacker or
	// owner of the completion. It is nil if there is none.
	By any

	Err error
}

// Tap sets the function that is called for all following events; nil removes it. Only the
// goroutine that uses the ifaces may call Tap.
func (n *Network) Tap(t Tap) { n.tap, n.tapped = t, 0 }

// tapID identifies an operation that was reported to the tap.
type tapID struct {
	number int
	kind   fault.Kind
	by     any
}

// owner returns the owner of a completion, for Event.By.
func owner(c *uct.Completion) any {
	if c == nil {
		return nil
	}
	return c.Owner
}

// event returns an event with the fields that all events of an endpoint have.
func (e *endpoint) event(kind EventKind) Event {
	v := Event{Kind: kind, Device: e.home.attr.Resource.Device, From: e.home.addr}
	if e.peer != nil {
		v.To = e.peer.addr
	}
	return v
}

// tapSent reports an accepted message.
func (e *endpoint) tapSent(p *packet, op fault.Kind, id uct.AMID, by any, lost bool) {
	n := e.home.net
	if n.tap == nil {
		return
	}
	n.tapped++
	p.tap.number = n.tapped
	v := e.event(Sent)
	v.Number, v.Op, v.ID, v.By, v.Lost = n.tapped, op, id, by, lost
	v.Data = append(v.Data, p.buf...)
	for i := range p.iov {
		v.Data = append(v.Data, p.iov[i].Data...)
	}
	n.tap(v)
}

// tapArrived reports a message that is delivered, or refused with an error.
func (i *iface) tapArrived(p *packet, kind EventKind, err error) {
	if i.net.tap == nil || p.tap.number == 0 {
		return
	}
	v := p.from.event(kind)
	v.Number, v.ID, v.Data, v.Err = p.tap.number, p.id, p.buf, err
	i.net.tap(v)
}

// tapAccess reports an accepted access or flush.
func (e *endpoint) tapAccess(o *op, flush, remote bool) {
	n := e.home.net
	if n.tap == nil {
		return
	}
	n.tapped++
	o.tap.number = n.tapped
	v := e.event(Sent)
	v.Number, v.Flush, v.Remote = n.tapped, flush, remote
	if a := &o.access; !flush {
		v.Op, v.Addr, v.Size, v.Atomic, v.X, v.Y = o.tap.kind, a.addr, a.size, a.atomic, a.x, a.y
	}
	if v.By = o.tap.by; v.By == nil {
		v.By = owner(o.comp)
	}
	n.tap(v)
}

// tapEnded reports the end of an operation that tapAccess has reported.
func (e *endpoint) tapEnded(o *op, err error) {
	if e.home.net.tap == nil || o.tap.number == 0 {
		return
	}
	v := e.event(Ended)
	v.Number, v.Err = o.tap.number, err
	e.home.net.tap(v)
}

// tapNoRoom reports a refused operation.
func (e *endpoint) tapNoRoom(op fault.Kind, id uct.AMID) {
	if e.home.net.tap == nil {
		return
	}
	v := e.event(NoRoom)
	v.Op, v.ID = op, id
	e.home.net.tap(v)
}

// tapFailed reports a failed endpoint.
func (e *endpoint) tapFailed(err error) {
	if e.home.net.tap == nil {
		return
	}
	v := e.event(Failed)
	v.Err = err
	e.home.net.tap(v)
}
