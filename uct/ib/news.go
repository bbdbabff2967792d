//go:build linux

package ib

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// newsDesk reads the asynchronous events of a device and distributes them. A device has one
// descriptor for these events, which is in the event sets of all workers that use the device.
// The worker that wakes first reads all events, and puts each into the mailboxes of the
// interfaces that the event concerns.
type newsDesk struct {
	domain *Domain
	listen bool

	mu     sync.Mutex
	ifaces []*Iface // guarded by mu
	gone   bool     // guarded by mu: the device is gone, and all interfaces have been notified
}

// mailbox holds the events and search results that an interface has not processed yet.
type mailbox struct {
	bell    *event.Bell
	waiting atomic.Bool
	letters []verbs.AsyncEvent // guarded by newsDesk.mu
	read    []verbs.AsyncEvent // copy of letters that ReadNews works on
	found   []verdict          // guarded by newsDesk.mu: results of searches (seek.go)
	watched bool               // the descriptor is in the worker's set by this interface
}

// maxLetters bounds the events in a mailbox. A full mailbox drops its oldest event. A queue
// pair whose event was dropped fails without the event too.
const maxLetters = 1024

func (n *newsDesk) open(d *Domain, listen bool) { n.domain, n.listen = d, listen }

func (n *newsDesk) watchers() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.ifaces)
}

// subscribe starts the delivery of events to an interface.
func (n *newsDesk) subscribe(i *Iface) (err error) {
	if i.letters.bell, err = event.NewBell(i.Worker.Events(), bellRung{i}); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ifaces = append(n.ifaces, i)
	if n.listen {
		n.watch(i)
	}
	return nil
}

// watch adds the descriptor to the event set of the interface's worker, unless another
// interface of the worker has added it. Lock held.
func (n *newsDesk) watch(i *Iface) {
	for _, o := range n.ifaces {
		if o != i && o.Worker == i.Worker && o.letters.watched {
			return
		}
	}
	// A device that is gone has no descriptor; Add then fails.
	i.letters.watched = i.Worker.Events().Add(n.domain.ctx.AsyncFD(), event.Read, deviceTells{n, i}) == nil
}

// unsubscribe ends the delivery of events to an interface. If the interface had added the
// descriptor to its worker's event set, another interface of the worker adds it again.
func (n *newsDesk) unsubscribe(i *Iface) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ifaces = slices.DeleteFunc(n.ifaces, func(o *Iface) bool { return o == i })
	i.letters.found = nil
	if i.letters.watched {
		i.letters.watched = false
		i.Worker.Events().Remove(n.domain.ctx.AsyncFD())
		for _, o := range n.ifaces {
			if o.Worker == i.Worker {
				n.watch(o)
				break
			}
		}
	}
	if i.letters.bell != nil {
		i.letters.bell.Close()
		i.letters.bell = nil
	}
}

// deviceTells handles a readable descriptor. It runs in the goroutine of the worker whose
// event set has the descriptor; i is the interface that added the descriptor.
type deviceTells struct {
	n *newsDesk
	i *Iface
}

// HandleEvent implements event.Handler.
func (h deviceTells) HandleEvent(event.Events) {
	if !h.n.read() && h.i.letters.watched {
		// The descriptor of a device that is gone would stay readable.
		h.i.letters.watched = false
		h.i.Worker.Events().Remove(h.n.domain.ctx.AsyncFD())
	}
}

// read reads all pending events of the device and puts each into the mailboxes of the
// interfaces that the event concerns. It reports whether more events may come. The first error
// of a read means that the device is gone, and is delivered as verbs.EventDeviceFatal.
func (n *newsDesk) read() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		e, ok, err := n.domain.ctx.TryAsyncEvent()
		switch {
		case err != nil && !n.gone:
			n.gone = true
			e = verbs.AsyncEvent{Type: verbs.EventDeviceFatal}
		case err != nil:
			return false
		case !ok:
			return true
		}
		for _, i := range n.ifaces {
			if i.concerned(e) {
				i.letters.put(e)
			}
		}
	}
}

// concerned reports whether an event is about the interface.
func (i *Iface) concerned(e verbs.AsyncEvent) bool {
	switch {
	case e.Port != 0:
		return e.Port == i.Port.Num
	case e.QP != nil:
		return e.QP.RecvCQ() == i.RecvCQ
	case e.CQ != nil:
		return e.CQ == i.SendCQ || e.CQ == i.RecvCQ
	case e.SRQ != nil:
		return e.SRQ == i.SRQ
	}
	return e.Type == verbs.EventDeviceFatal // any other event is about an object that is closed
}

// put adds an event; a full mailbox drops its oldest. Lock of the newsDesk held.
func (m *mailbox) put(e verbs.AsyncEvent) {
	if len(m.letters) == maxLetters {
		m.letters = slices.Delete(m.letters, 0, 1)
	}
	m.letters = append(m.letters, e)
	m.ring()
}

// ring marks the mailbox as not empty and wakes the worker. Lock of the newsDesk held.
func (m *mailbox) ring() {
	m.waiting.Store(true)
	m.bell.Ring()
}

// verdict is the result of a search, and the callback to call with it.
type verdict struct {
	tell  func(found bool)
	found bool
}

// found puts the result of a search into the mailbox of the waiting interface, unless the
// interface is closed.
func (n *newsDesk) found(w waiter, so bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.ifaces, w.i) {
		w.i.letters.found = append(w.i.letters.found, verdict{w.done, so})
		w.i.letters.ring()
	}
}

// Failed implements uct.Failer.
func (i *Iface) Failed() error { return i.failed }

// Fail marks the interface as failed: nothing can be sent or received any more. The
// transport calls it, because only the transport knows which other code uses the interface.
// The first error is kept.
func (i *Iface) Fail(err error) {
	if i.failed == nil {
		i.failed = err
	}
}

// bellRung runs in the worker's goroutine when the mailbox of the interface is not empty.
type bellRung struct{ i *Iface }

// HandleEvent implements event.Handler.
func (h bellRung) HandleEvent(event.Events) {
	if b := h.i.letters.bell; b != nil {
		b.Clear()
	}
	h.i.ReadNews()
}

// ReadNews passes events of the interface to its transport and returns their number. It is
// called inside progress.
func (i *Iface) ReadNews() int {
	if !i.letters.waiting.Load() {
		return 0
	}
	n := &i.Domain.news
	n.mu.Lock()
	i.letters.waiting.Store(false)
	i.letters.read = append(i.letters.read[:0], i.letters.letters...)
	i.letters.letters = i.letters.letters[:0]
	found := i.letters.found
	i.letters.found = nil
	n.mu.Unlock()
	for _, e := range i.letters.read {
		if i.Domain == nil || i.RecvCQ == nil {
			break // a handler has closed the interface
		}
		i.user.AsyncEvent(e)
	}
	for _, v := range found {
		if i.RecvCQ == nil {
			break
		}
		v.tell(v.found)
	}
	return len(i.letters.read) + len(found)
}
