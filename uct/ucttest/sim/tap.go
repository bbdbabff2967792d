package sim

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// Tap is told of everything that moves on a network: each message, each access to
// remote memory and each flush when it is accepted, and when it is over. It runs on
// the goroutine that progresses the iface in question, in the middle of what it
// tells of, and must not call into the network.
type Tap func(e Event)

// EventKind says what has happened.
type EventKind uint8

// Kinds of events.
const (
	// Sent: the transport has accepted an operation.
	Sent EventKind = iota + 1

	// Arrived: a message is about to be handed to its handler.
	Arrived

	// Ended: an access or a flush is over, with Err.
	Ended

	// NoRoom: an operation was refused, to be tried again.
	NoRoom

	// Failed: an endpoint has failed with Err, and reports it.
	Failed

	// Dropped: the receiver of a message refused it with Err, and its connection.
	Dropped
)

// Event is what a Tap is told.
type Event struct {
	Kind     EventKind
	Number   int // of the operation, from 1 on each network; 0 if it has none
	Device   string
	From, To []byte // addresses of the ifaces: of who does it, and of the peer

	Op   fault.Kind // of messages and accesses
	Lost bool       // accepted, but nothing will come of it

	// A flush has no Op.
	Flush  bool
	Remote bool // it waits for the peer as well

	// Messages. Data is valid during the call only.
	ID   uct.AMID
	Data []byte

	// Accesses.
	Addr   uint64
	Size   int
	Atomic uct.AtomicOp
	X, Y   uint64 // operand; or compare and swap

	// By is what the layer above will be called back by: the packer, unpacker or
	// owner of the completion. Nil where it gave none.
	By any

	Err error
}

// Tap makes t see what happens from now on; nil ends that. Only the goroutine that
// uses the ifaces may call it.
func (n *Network) Tap(t Tap) { n.tap, n.tapped = t, 0 }

// tapID marks what a tap has been told of.
type tapID struct {
	number int
	kind   fault.Kind
	by     any
}

// owner is the By of a completion.
func owner(c *uct.Completion) any {
	if c == nil {
		return nil
	}
	return c.Owner
}

// event is what all events of an endpoint have in common.
func (e *endpoint) event(kind EventKind) Event {
	v := Event{Kind: kind, Device: e.home.attr.Resource.Device, From: e.home.addr}
	if e.peer != nil {
		v.To = e.peer.addr
	}
	return v
}

// tapSent tells of a message.
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

// tapArrived tells of a message that is delivered, or refused with an error.
func (i *iface) tapArrived(p *packet, kind EventKind, err error) {
	if i.net.tap == nil || p.tap.number == 0 {
		return
	}
	v := p.from.event(kind)
	v.Number, v.ID, v.Data, v.Err = p.tap.number, p.id, p.buf, err
	i.net.tap(v)
}

// tapAccess tells of an access, or of a flush.
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

// tapEnded tells of the end of what tapAccess has told of.
func (e *endpoint) tapEnded(o *op, err error) {
	if e.home.net.tap == nil || o.tap.number == 0 {
		return
	}
	v := e.event(Ended)
	v.Number, v.Err = o.tap.number, err
	e.home.net.tap(v)
}

// tapNoRoom tells of an operation that was refused.
func (e *endpoint) tapNoRoom(op fault.Kind, id uct.AMID) {
	if e.home.net.tap == nil {
		return
	}
	v := e.event(NoRoom)
	v.Op, v.ID = op, id
	e.home.net.tap(v)
}

// tapFailed tells of an endpoint that failed.
func (e *endpoint) tapFailed(err error) {
	if e.home.net.tap == nil {
		return
	}
	v := e.event(Failed)
	v.Err = err
	e.home.net.tap(v)
}
