//go:build linux

package shm

import (
	"runtime"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Progress implements uct.Progressor. A round without a message costs one load from
// the next element and a comparison.
func (i *iface) Progress() int {
	if i.unusual {
		return i.progressUnusual()
	}
	r := &i.rx
	w := r.word()
	if w&flagPhase != r.phase {
		if i.idle++; i.idle%watchEvery == 0 {
			i.watch()
		}
		return 0
	}

	if i.likely != 0 {
		cpu.PrefetchWrite(uintptr(i.likely))
		i.likely = 0 // an interface that only receives would take the cache line from the peer that polls it
	}
	i.idle = 0
	i.inRound = true
	n := 0
	for {
		raceReceived()
		if weakOrder {
			// A sender writes the flags last. A wider load that sees the new flags
			// may still see older values in its other bytes, so the word is loaded
			// again.
			w = r.word()
		}
		if id, size := uct.AMID(w>>8), w>>16; w&flagInline != 0 && size <= fewBytes && id < uct.MaxAMIDs {
			// Two loads and stores cost less than a call.
			i.few = [fewBytes]byte(r.first()[elemPayload : elemPayload+fewBytes])
			if err := i.handlers.Deliver(nil, id, i.few[:size:size], nil); err != nil {
				i.handlerFailed(uct.AMID(id), err)
			}
		} else if !i.deliver(w) {
			i.inRound = false
			i.corruptElement(w)
			return n
		}
		r.next()
		n++
		if w = r.word(); w&flagPhase != r.phase || n >= i.o.maxPoll {
			break
		}
	}
	i.inRound = false
	if r.released {
		r.released = false
		i.takeNotes()
	}
	return n
}

// deferWork makes the next round call doDeferredWork.
func (i *iface) deferWork() { i.deferredWork, i.unusual = true, true }

// progressUnusual does the work of Progress for an interface that has pending requests or failures to
// process (deferredWork), that has no ring any more, or whose own segments can shrink.
//
//go:noinline
func (i *iface) progressUnusual() (n int) {
	if i.deferredWork {
		n = i.doDeferredWork()
	}
	if !i.dead {
		n += i.receive()
	}
	i.unusual = i.deferredWork || i.fenced || i.dead
	return n
}

// receive does the rest of Progress, inside a fence (internal/fault) if the ring can shrink, such as a
// ring in a file with a name. After a fault that ring is not used any more.
func (i *iface) receive() (n int) {
	if i.fenced {
		defer fault.End(fault.Begin(), i, nil, nil)
	}
	i.unusual = false
	return i.Progress()
}

// doDeferredWork retries pending requests and reports failures and exits.
//
//go:noinline
func (i *iface) doDeferredWork() int {
	i.inRound = true // callbacks may not close the interface
	n := i.waiting.Dispatch()
	i.blocked.moved = i.blocked.moved || n > 0
	i.settle()
	n += i.failures.Report()
	n += i.reportExits()
	i.inRound = false
	i.deferredWork = !i.waiting.Empty() || !i.failures.Empty() || i.unsettled()
	return n
}

// Arm implements uct.Progressor: if it returns nil, the next message will make the socket readable.
// Sends complete within their call, and senders that wait for room in a peer's ring are always
// notified of room, so of all events only uct.EventRecv makes a difference.
func (i *iface) Arm(events uct.EventFlags) error {
	receives := events&uct.EventRecv != 0 && !i.dead
	longest, ok := i.rest()
	if !ok || !i.failures.Empty() || i.unsettled() || receives && !i.armRing() || !i.limitSleep(longest) {
		return ucs.ErrBusy
	}
	return nil
}

// armRing requests a wakeup from the next sender. It returns false when a sender has claimed an
// element that was not received yet.
func (i *iface) armRing() (ok bool) {
	if i.fenced {
		defer fault.End(fault.Begin(), i, nil, nil)
	}
	i.watchTail() // a sender that takes the ring to be full sends no wakeup
	if i.rx.arm() {
		return true
	}
	// The next round without a message calls watch. Arming does not call watch itself: watch
	// may deliver messages, which must happen inside progress.
	i.idle = watchEvery - 1
	return false
}

// weakOrder says that loads from one word may be reordered with each other.
const weakOrder = runtime.GOARCH != "amd64"

// fewBytes is the length up to which Progress copies an inline message by itself, without
// a call to deliver. Every element has room for fewBytes.
const fewBytes = 16

// deliver hands the next message, whose element begins with w, to its handler. It returns false if
// the element is invalid, which no correct sender writes.
func (i *iface) deliver(w uint32) bool {
	r := &i.rx
	id, n := w>>8&0xff, int(w>>16)
	if id >= uct.MaxAMIDs {
		return false
	}
	if w&flagInline == 0 {
		return i.deliverBuffered(uct.AMID(id), n, true)
	}
	if n > len(i.inline) {
		return false
	}
	data := i.inline[:n:n]
	copy(data, r.elems[r.pos+elemPayload:r.pos+r.elem])
	if err := i.handlers.Deliver(nil, uct.AMID(id), data, nil); err != nil {
		i.handlerFailed(uct.AMID(id), err)
	}
	return true
}

// deliverBuffered delivers a message that is in the descriptor of its element. If mayKeep is set,
// the handler may keep the descriptor, provided that a spare descriptor can replace it. If the
// memory can shrink, the handler gets a copy and may not keep the descriptor: a fault would abort
// the handler half way, and a kept descriptor is read outside the fence.
func (i *iface) deliverBuffered(id uct.AMID, n int, mayKeep bool) bool {
	r := &i.rx
	slot := int(r.read & uint64(r.n-1))
	d := i.pool.all[r.slots[slot]]
	if n > len(d.data) {
		return false
	}
	data := d.data[:n:n]
	if i.fenced {
		data = i.private[:copy(i.private, data)]
		mayKeep = false
	}
	var desc *uct.AMDesc
	if mayKeep && i.pool.available() {
		desc = &d.AMDesc
		d.state = descOffered
	}
	err := i.handlers.Deliver(nil, id, data, desc)
	if err == ucs.InProgress && desc != nil {
		if d.state == descOffered {
			d.state = descKept
			i.pool.kept++
			k := i.pool.take()
			r.slots[slot] = k
			i.pool.all[k].at.put(r.elems[r.pos : r.pos+r.elem])
		}
		return true
	}
	d.state = descOurs
	if err != nil {
		i.handlerFailed(id, err)
	}
	return true
}

// handlerFailed logs that a handler has refused a message, the first time at level diag, then
// at debug. Correct peers send no such message. Messages do not name their sender, so no peer
// can be held responsible.
//
//go:noinline
func (i *iface) handlerFailed(id uct.AMID, err error) {
	write := i.worker.Log().Debug
	if !i.refused {
		write = i.worker.Log().Diag
	}
	i.refused = true
	write("a handler has rejected a message", zap.Uint8("id", uint8(id)), zap.Error(err))
}
