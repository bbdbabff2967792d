//go:build linux

package ib

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// newsDesk is who reads what a device tells of by itself. There is one descriptor for it,
// in the event sets of all workers that use the device; who wakes first reads all and
// leaves to each interface, in its mailbox, what concerns it.
type newsDesk struct {
	domain *Domain
	listen bool

	mu     sync.Mutex
	ifaces []*Iface // guarded by mu
	gone   bool     // guarded by mu: the device, and all have been told
}

// mailbox is what an interface has not been told yet.
type mailbox struct {
	bell    *event.Bell
	waiting atomic.Bool
	letters []verbs.AsyncEvent // guarded by newsDesk.mu
	read    []verbs.AsyncEvent // by who empties it
	found   []verdict          // guarded by newsDesk.mu: of searches (seek.go)
	watched bool               // the descriptor is in the worker's set by this interface
}

// maxLetters bounds a mailbox. Whoever is told nothing for so long is told of the last
// ones, and queue pairs fail by themselves.
const maxLetters = 1024

func (n *newsDesk) open(d *Domain, listen bool) { n.domain, n.listen = d, listen }

func (n *newsDesk) watchers() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.ifaces)
}

// subscribe makes an interface hear of what happens.
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

// watch has the descriptor in the set of the interface's worker, once. Lock held.
func (n *newsDesk) watch(i *Iface) {
	for _, o := range n.ifaces {
		if o != i && o.Worker == i.Worker && o.letters.watched {
			return
		}
	}
	// A device that is gone has none.
	i.letters.watched = i.Worker.Events().Add(n.domain.ctx.AsyncFD(), event.Read, deviceTells{n, i}) == nil
}

// unsubscribe ends that.
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

// deviceTells is called when the descriptor is readable, in the goroutine of the worker of
// the interface that put it into its set.
type deviceTells struct {
	n *newsDesk
	i *Iface
}

// HandleEvent implements event.Handler.
func (h deviceTells) HandleEvent(event.Events) {
	if !h.n.read() && h.i.letters.watched {
		// It would stay readable.
		h.i.letters.watched = false
		h.i.Worker.Events().Remove(h.n.domain.ctx.AsyncFD())
	}
}

// read takes what the device tells and leaves it to those whom it concerns. It reports
// whether more may come.
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
	return e.Type == verbs.EventDeviceFatal // what else there is is of an object that is closed
}

// put adds a letter. Lock of the desk held.
func (m *mailbox) put(e verbs.AsyncEvent) {
	if len(m.letters) == maxLetters {
		m.letters = slices.Delete(m.letters, 0, 1)
	}
	m.letters = append(m.letters, e)
	m.ring()
}

// ring says that there is something in the box. Lock of the desk held.
func (m *mailbox) ring() {
	m.waiting.Store(true)
	m.bell.Ring()
}

// verdict is how a search has ended, and who wants to know.
type verdict struct {
	tell  func(found bool)
	found bool
}

// found tells an interface how a search has ended, if it is still there.
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

// bellRung is called in the worker's goroutine when there are letters.
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
			break // closed by what it was told
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
