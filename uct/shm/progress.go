//go:build linux

package shm

import (
	"fmt"
	"runtime"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Progress implements uct.Progressor. A round without a message is one load of
// the next element and a comparison.
func (i *iface) Progress() int {
	if i.chores || i.fenced || i.dead {
		return i.progressOdd()
	}
	if w := i.rx.word(); w&flagPhase == i.rx.phase { // as poll, without its call
		return i.receive(w)
	}
	if i.idle++; i.idle%watchEvery == 0 {
		i.watch()
	}
	return 0
}

// progressOdd is Progress when there is more to do than to receive.
//
//go:noinline
func (i *iface) progressOdd() int {
	n := 0
	if i.chores {
		n = i.doChores()
	}
	if i.fenced || i.dead {
		return n + i.receiveFenced()
	}
	return n + i.poll()
}

// doChores lets pending requests try again and reports failures.
//
//go:noinline
func (i *iface) doChores() int {
	i.inRound = true // what is called may not close the interface
	n := i.waiting.Dispatch()
	i.blocked.moved = i.blocked.moved || n > 0
	i.settle()
	n += i.failures.Report()
	n += i.tellExits()
	i.inRound = false
	i.chores = !i.waiting.Empty() || !i.failures.Empty() || i.unsettled()
	return n
}

// poll receives what is there.
func (i *iface) poll() int {
	if w := i.rx.word(); w&flagPhase == i.rx.phase {
		return i.receive(w)
	}
	if i.idle++; i.idle%watchEvery == 0 {
		i.watch()
	}
	return 0
}

// receiveFenced is poll for a ring that can be cut short: that of a file with
// a name. It is not used any more then.
//
//go:noinline
func (i *iface) receiveFenced() (n int) {
	if i.dead {
		return 0
	}
	defer fault.End(fault.Begin(), i, nil, nil)
	return i.poll()
}

// Arm implements uct.Armer: it says whether a message to come will make the socket
// readable.
func (i *iface) Arm() error { return i.ArmFor(uct.EventAny) }

// ArmFor implements uct.EventArmer. Sends are over in their call, and room in a peer's ring is
// told to those that wait for it, so only messages can be left out.
func (i *iface) ArmFor(events uct.EventFlags) error {
	receives := events&uct.EventRecv != 0 && !i.dead
	longest, ok := i.rest()
	if !ok || !i.failures.Empty() || i.unsettled() || receives && !i.armRing() || !i.limitSleep(longest) {
		return ucs.ErrBusy
	}
	return nil
}

// armRing asks for a wakeup. It fails when something was claimed.
func (i *iface) armRing() (ok bool) {
	if i.fenced {
		defer fault.End(fault.Begin(), i, nil, nil)
	}
	i.watchTail() // whoever takes the ring to be full wakes nobody
	if i.rx.arm() {
		return true
	}
	// The next round without a message looks into it: what has to be delivered
	// then is for progress.
	i.idle = watchEvery - 1
	return false
}

// receive delivers the messages that are there, of which there is one: w is the
// first word of its element.
func (i *iface) receive(w uint32) int {
	if i.likely != nil {
		cpu.PrefetchWrite(i.likely)
		i.likely = nil // who only receives would take it from who looks at it
	}
	r := &i.rx
	i.idle = 0
	i.inRound = true
	n := 0
	for {
		raceReceived()
		if weakOrder {
			// A sender writes the flags last, but a wider load may be older in its
			// other parts.
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
			i.corrupt(fmt.Sprintf("element with id %d of %d bytes, flags %#x", uint8(w>>8), w>>16, uint8(w)))
			return n
		}
		r.next()
		if n++; n >= i.o.maxPoll {
			break
		}
		if w = r.word(); w&flagPhase != r.phase {
			break
		}
	}
	i.inRound = false
	if tail := r.read &^ r.release; tail != r.told {
		r.told = tail
		i.takeNotes()
	}
	return n
}

// weakOrder says that loads of one word may be reordered with each other.
const weakOrder = runtime.GOARCH != "amd64"

// fewBytes is what is copied in line. Every element has room for it.
const fewBytes = 16

// deliver hands the next message, whose element begins with w, to its handler.
// It returns false when no sender writes such an element.
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

// deliverBuffered delivers a message that is in the descriptor of its element.
// The handler may keep that if another one can take its place. Of memory that can
// be cut short handlers get a copy: a fault would leave their work half done, and
// what they keep they read where no fence is.
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

// handlerFailed is told of messages that no peer in its right mind sends. Nobody
// knows who sent them, so nobody can be held responsible.
//
//go:noinline
func (i *iface) handlerFailed(id uct.AMID, err error) {
	write := i.worker.Log().Debug
	if !i.refused {
		write = i.worker.Log().Diag
	}
	i.refused = true
	write("a message was refused by its handler", zap.Uint8("id", uint8(id)), zap.Error(err))
}
