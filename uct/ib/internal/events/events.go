//go:build linux

package events

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Dispatcher reads the asynchronous events of a device and distributes them to boxes, one per interface.
type Dispatcher struct {
	ctx     *verbs.Context
	enabled bool

	mu    sync.Mutex
	boxes []*Box // guarded by mu
	gone  bool   // guarded by mu: the device is gone, and all boxes have the event that says so
}

// Open prepares a desk. If listen is false, the desk reads no events.
func (d *Dispatcher) Open(ctx *verbs.Context, listen bool) { d.ctx, d.enabled = ctx, listen }

// Boxes returns the number of open boxes.
func (d *Dispatcher) Boxes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.boxes)
}

// Box holds the events and functions that an interface has not processed yet. Its methods belong to
// the goroutine of the interface's worker, except Post.
type Box struct {
	desk         *Dispatcher
	worker       *uct.Worker
	concerned    func(verbs.AsyncEvent) bool // called with the lock of the desk held
	deliverEvent func(verbs.AsyncEvent)
	bell         *event.Bell
	waiting      atomic.Bool
	read         []verbs.AsyncEvent // copy of events that Read works on
	watched      bool               // this box has added the descriptor to the worker's event set

	events []verbs.AsyncEvent // guarded by Dispatcher.mu
	posted []func()           // guarded by Dispatcher.mu
}

// maxEvents bounds the events in a box. A full box drops its oldest event. A queue pair whose event
// was dropped fails without the event too.
const maxEvents = 1024

// Open starts the delivery of events of a device to a box. concerned reports whether an event is
// about the interface; it may be called by other goroutines from now on. tell is called with each
// event inside progress.
func (b *Box) Open(d *Dispatcher, w *uct.Worker, concerned func(verbs.AsyncEvent) bool, deliver func(verbs.AsyncEvent)) (err error) {
	b.desk, b.worker, b.concerned, b.deliverEvent = d, w, concerned, deliver
	if b.bell, err = event.NewBell(w.Events(), rung{b}); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boxes = append(d.boxes, b)
	if d.enabled {
		d.watch(b)
	}
	return nil
}

// watch adds the descriptor to the event set of the box's worker, unless another box of the worker
// has added it. Lock held.
func (d *Dispatcher) watch(b *Box) {
	for _, o := range d.boxes {
		if o != b && o.worker == b.worker && o.watched {
			return
		}
	}
	// A device that is gone has no descriptor; Add then fails.
	b.watched = b.worker.Events().Add(d.ctx.AsyncFD(), event.Read, ready{b}) == nil
}

// Close ends the delivery of events. If the box had added the descriptor to its worker's event set,
// another box of the worker adds it again. Closing a box that is not open does nothing.
func (b *Box) Close() {
	d := b.desk
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boxes = slices.DeleteFunc(d.boxes, func(o *Box) bool { return o == b })
	b.posted = nil
	if b.watched {
		b.watched = false
		b.worker.Events().Remove(d.ctx.AsyncFD())
		for _, o := range d.boxes {
			if o.worker == b.worker {
				d.watch(o)
				break
			}
		}
	}
	if b.bell != nil {
		b.bell.Close()
		b.bell = nil
	}
}

// ready handles a readable descriptor. It runs in the goroutine of the worker whose event set has
// the descriptor, for the box that added it.
type ready struct{ b *Box }

// HandleEvent implements event.Handler.
func (h ready) HandleEvent(event.Events) {
	b := h.b
	if !b.desk.read() && b.watched {
		b.watched = false
		b.worker.Events().Remove(b.desk.ctx.AsyncFD())
	}
}

// read reads all pending events of the device and puts each into the boxes of the interfaces that
// the event concerns. It reports whether more events may come.
func (d *Dispatcher) read() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		e, ok, err := d.ctx.TryAsyncEvent()
		switch {
		case err != nil && !d.gone:
			d.gone = true
			e = verbs.AsyncEvent{Type: verbs.EventDeviceFatal}
		case err != nil:
			return false
		case !ok:
			return true
		}
		for _, b := range d.boxes {
			if b.concerned(e) {
				b.put(e)
			}
		}
	}
}

// put adds an event; a full box drops its oldest. Lock held.
func (b *Box) put(e verbs.AsyncEvent) {
	if len(b.events) == maxEvents {
		b.events = slices.Delete(b.events, 0, 1)
	}
	b.events = append(b.events, e)
	b.ring()
}

// ring marks the box as not empty and wakes the worker. Lock held.
func (b *Box) ring() {
	b.waiting.Store(true)
	b.bell.Ring()
}

// Post arranges for Read to call fn, unless the box is closed before. Any goroutine may call Post.
func (b *Box) Post(fn func()) {
	d := b.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.boxes, b) {
		b.posted = append(b.posted, fn)
		b.ring()
	}
}

// rung is the handler of a box's bell. It runs in the worker's goroutine when the box is not empty.
type rung struct{ b *Box }

// HandleEvent implements event.Handler.
func (h rung) HandleEvent(event.Events) {
	if h.b.bell != nil {
		h.b.bell.Clear()
	}
	h.b.Read()
}

// Waiting reports whether events or functions wait for Read.
func (b *Box) Waiting() bool { return b.waiting.Load() }

// Read passes the events in the box to the interface, calls the posted functions, and returns the
// number of both. It stops when one of these calls closes the box.
func (b *Box) Read() int {
	if !b.waiting.Load() {
		return 0
	}
	d := b.desk
	d.mu.Lock()
	b.waiting.Store(false)
	b.read = append(b.read[:0], b.events...)
	b.events = b.events[:0]
	posted := b.posted
	b.posted = nil
	d.mu.Unlock()
	for _, e := range b.read {
		if b.bell == nil {
			break
		}
		b.deliverEvent(e)
	}
	for _, fn := range posted {
		if b.bell == nil {
			break
		}
		fn()
	}
	return len(b.read) + len(posted)
}
