package ucp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucp/internal/backoff"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucp/internal/wakeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// EpollTarget is an epoll set that a worker adds itself to until it is closed. Closing the
// worker wakes no sleeper on the set.
type EpollTarget struct {
	FD   int    // the epoll set
	Data uint64 // the user data of the events
	Edge bool   // edge-triggered: each event is reported once
}

// wakeup is a worker's state for sleeping and for waking sleepers.
type wakeup struct {
	wakeset.Set

	watched     uint64      // value of engine.NewsCount when WaitMem last returned because of it
	blockedCall atomic.Bool // a call waits, or Close is running
	w           *Worker
}

// open prepares the worker to wake sleeping goroutines, and adds the worker to the epoll
// set of the application.
func (wk *wakeup) open() error {
	w := wk.w
	if err := wk.Open(w.uctw.Events(), w.owner.engine, w.ctx.params.Features&FeatureWakeup != 0); err != nil {
		return err
	}
	if t := w.params.Epoll; t != nil {
		return wakeset.AddTo(t.FD, wk.FD(), t.Data, t.Edge)
	}
	return nil
}

// needWakeup returns an error for wakeup calls on a closed worker or without FeatureWakeup.
func (wk *wakeup) needWakeup() error {
	w := wk.w
	if w.closed || w.ctx.params.Features&FeatureWakeup == 0 {
		return w.missingFeature("EventFD, Arm or Wait", FeatureWakeup)
	}
	return nil
}

// EventFD returns a descriptor that becomes readable when, after a successful Arm, there is
// something to progress. It belongs to the worker and never changes. A worker with an epoll
// set gives ucs.ErrUnsupported, as does any system other than Linux.
//
// Only one goroutine at a time may arm and sleep, in ThreadModeMulti as well: the Arm of
// another goroutine would consume events that the first one has not seen. Close makes the
// descriptor readable for a sleeping goroutine. The descriptor stays readable and open
// until that goroutine calls Arm, which returns the error.
func (w *Worker) EventFD() (int, error) {
	if w.missing() {
		return 0, errMissing("Worker.EventFD", w == nil)
	}
	w.owner.acquireRead()
	defer w.owner.releaseRead()
	if err := w.wake.needWakeup(); err != nil {
		return -1, err
	}
	if fd := w.wake.FD(); w.params.Epoll == nil && fd >= 0 {
		return fd, nil
	}
	return -1, ucs.ErrUnsupported
}

// Arm prepares the event descriptor: after nil, every new event that WorkerParams.Events
// asks for makes it readable. ucs.ErrBusy means that there is already something to
// progress, that Signal was called, or in ThreadModeMulti that another goroutine has
// progressed something. Then call Progress until it returns 0, check your conditions, and
// arm again. Arm has to be called before each sleep.
func (w *Worker) Arm() error {
	if w.missing() {
		return errMissing("Worker.Arm", w == nil)
	}
	w.owner.acquire()
	w.wake.Return()
	err := w.wake.needWakeup()
	if err == nil {
		err = w.wake.armAnew(w.wake.wanted())
	}
	if w.owner.multi && err == nil {
		w.owner.engine.Armed(true) // [armed]
	}
	w.owner.release()
	return err
}

// armAnew is armFor for Arm and Wait, the calls of the application. It returns ucs.ErrBusy if there
// was a Signal, or if in thread mode multi another goroutine has progressed something since the
// last check.
func (wk *wakeup) armAnew(events uct.EventFlags) error {
	w := wk.w
	woken := wk.Consume()
	if w.owner.multi && w.owner.engine.TakeNews() {
		woken = true
	}
	if woken {
		return ucs.ErrBusy
	}
	return wk.armFor(events)
}

func (wk *wakeup) arm() error {
	w := wk.w
	if !w.owner.multi && wk.Consume() {
		return ucs.ErrBusy
	}
	return wk.armQuietly()
}

// armQuietly is arm for a caller that has already checked for a Signal.
func (wk *wakeup) armQuietly() error { return wk.armFor(uct.EventAny) }

// armFor is armQuietly for the given events. It returns ucs.ErrBusy if there is work left to do.
func (wk *wakeup) armFor(events uct.EventFlags) error {
	w := wk.w
	if !w.dispatched.Empty() || !w.copying.Empty() || w.stream.look || w.conns.departed != nil {
		return ucs.ErrBusy
	}
	if w.eager.untimed { // no timer would wake the sleeper; this lasts for orphanTime at most
		return ucs.ErrBusy
	}
	return w.uctw.ArmFor(events) // [arm]
}

// Signal makes the event descriptor readable, or lets Wait return. Any goroutine may call
// it at any time. On a closed worker, or without FeatureWakeup, it gives
// ucs.ErrInvalidParam.
func (w *Worker) Signal() error {
	if w.missing() {
		return errMissing("Worker.Signal", w == nil)
	}
	if w.ctx.params.Features&FeatureWakeup == 0 {
		return w.missingFeature("Signal", FeatureWakeup)
	}
	return w.wake.Signal()
}

// sleepers implements engine.Host for a worker.
type sleepers Worker

// Arm implements engine.Host.
func (s *sleepers) Arm() (busy bool) { return (*Worker)(s).wake.arm() == ucs.ErrBusy }

// Rouse implements engine.Host.
func (s *sleepers) Rouse() { s.wake.Rouse() }

// Ring implements engine.Host.
func (s *sleepers) Ring() { s.wake.Ring() }

var errWaitInside = fmt.Errorf("ucp: waiting inside a callback: %w", ucs.ErrInvalidParam)

// beginWait begins a call that waits, and endWait ends it. Inside a callback beginWait fails. In
// modes other than multi it makes sure that one goroutine at a time waits on the worker; only that
// goroutine may then read the worker's state.
func (wk *wakeup) beginWait() error {
	w := wk.w
	if w.owner.multi {
		if w.owner.engine.Nested() {
			return errWaitInside
		}
		return nil
	}
	if !wk.blockedCall.CompareAndSwap(false, true) {
		return fmt.Errorf("ucp: another goroutine, or the call that runs this callback, already waits on worker %s, in thread mode %v: %w",
			w.name, w.params.ThreadMode, ucs.ErrBusy)
	}
	if w.owner.inCallback() {
		wk.endWait()
		return errWaitInside
	}
	if err := w.owner.misused(); err != nil {
		wk.endWait()
		panic(err)
	}
	return nil
}

// enterClose is beginWait for Close: it makes sure that no goroutine waits on the worker or begins
// to, and acquires the worker. If the worker is closed already it does nothing.
func (wk *wakeup) enterClose() error {
	w := wk.w
	busy := func(why string) error {
		return fmt.Errorf("ucp: closing worker %s %s: %w", w.name, why, ucs.ErrBusy)
	}
	if !wk.blockedCall.CompareAndSwap(false, true) {
		return busy("while another goroutine, or the call that runs this callback, waits on it")
	}
	var err error
	if w.owner.inCallback() {
		err = busy("inside a callback")
	} else if !w.closed {
		err = w.owner.acquireChecked()
	}
	if err != nil || w.closed {
		wk.endWait()
	}
	return err
}

func (wk *wakeup) endWait() {
	if !wk.w.owner.multi {
		wk.blockedCall.Store(false)
	}
}

// mustStayAwake reports whether err, of an attempt to sleep, requires a waiting call to stay awake: there
// is something to do, or no descriptor is left to sleep on.
func mustStayAwake(err error) bool { return err == ucs.ErrBusy || errors.Is(err, syscall.EMFILE) }

// WakeupEvents are the events that wake a goroutine that sleeps on a worker's descriptor
// (enum ucp_wakeup_event_types). Transports know two directions, sending and receiving, so
// events of one direction have the same effect: WakeupTagRecv and WakeupRX, for example.
//
// Over shared memory and rc, Arm leaves out a direction that is not asked for, as C does,
// but only while no operation is in flight on any endpoint of the worker: the end of a
// rendezvous, of a synchronous send, of a get or a flush is a message of the peer, and a
// receive that fetches its data ends as a send does. Over other transports every event
// wakes. Timers, connections and failures that the kernel reports wake any worker; a failed
// send of a device is noticed at the next keepalive. A worker with WakeupTX alone serves
// its peers only when it is progressed; until then they wait.
//
// A wakeup does not mean that an operation has finished, in either library: the caller
// progresses the worker and checks. Wait, Run and the calls with a context wake for all
// events, whatever is asked for here.
type WakeupEvents uint32

// Wakeup events, with C's bit numbers.
const (
	WakeupRMA     WakeupEvents = 1 << 0  // completions of one-sided operations
	WakeupAMO     WakeupEvents = 1 << 1  // completions of atomic operations
	WakeupTagSend WakeupEvents = 1 << 2  // completions of tagged sends
	WakeupTagRecv WakeupEvents = 1 << 3  // arrivals of tagged messages
	WakeupTX      WakeupEvents = 1 << 10 // anything sent
	WakeupRX      WakeupEvents = 1 << 11 // anything received

	// WakeupEdge asks for edge-triggered events in the application's epoll set, like
	// EpollTarget.Edge: each event is reported once. It needs WorkerParams.Epoll; an
	// application that adds a descriptor to its set by itself chooses the trigger there.
	WakeupEdge WakeupEvents = 1 << 16

	// wakeupAll are the events that transports report.
	wakeupAll = WakeupRMA | WakeupAMO | WakeupTagSend | WakeupTagRecv | WakeupTX | WakeupRX

	wakeupKnown = wakeupAll | WakeupEdge
)

// checkEvents refuses unknown events, events without FeatureWakeup, and WakeupEdge without an epoll
// set.
func (p *WorkerParams) checkEvents(f Features) error {
	switch e := p.Events; {
	case e&^wakeupKnown != 0:
		return fmt.Errorf("ucp: unknown wakeup events %#x: %w", uint32(e&^wakeupKnown), ucs.ErrInvalidParam)
	case e != 0 && f&FeatureWakeup == 0:
		return fmt.Errorf("ucp: wakeup events without FeatureWakeup: %w", ucs.ErrInvalidParam)
	case e&WakeupEdge != 0 && p.Epoll == nil:
		return fmt.Errorf("ucp: WakeupEdge without an epoll set: %w", ucs.ErrInvalidParam)
	}
	return nil
}

// The events of the two directions that transports distinguish.
const (
	wakeupSends    = WakeupRMA | WakeupAMO | WakeupTagSend | WakeupTX
	wakeupReceives = WakeupTagRecv | WakeupRX
)

// wakesFor returns the events that wake a sleeper on the descriptor: all events of each direction
// that is asked for.
func (wk *wakeup) wakesFor() (all WakeupEvents) {
	w := wk.w
	switch e := w.params.Events & wakeupAll; {
	case w.ctx.params.Features&FeatureWakeup == 0:
		return 0
	case e == 0:
		all = wakeupAll
	default:
		for _, direction := range []WakeupEvents{wakeupSends, wakeupReceives} {
			if e&direction != 0 {
				all |= direction
			}
		}
	}
	return all | w.params.Events&WakeupEdge
}

// wanted returns the events for which an Arm of the application arms the transports.
func (wk *wakeup) wanted() (events uct.EventFlags) {
	w := wk.w
	wakes := wk.wakesFor()
	if wakes&wakeupSends != 0 {
		events |= uct.EventSendComp
	}
	if wakes&wakeupReceives != 0 {
		events |= uct.EventRecv
	}
	if events != uct.EventAny && w.endpoints.Any((*Endpoint).underWay) {
		events = uct.EventAny
	}
	return events
}

// underWay reports whether an operation, a flush or a close of the endpoint has not ended, or
// whether something that operations need, such as connected lanes, is missing.
func (ep *Endpoint) underWay() bool {
	closing := life.Draining <= ep.life.Stage && ep.life.Stage <= life.Leaving
	return ep.inFlight > 0 || ep.needs != 0 || closing || ep.flushes > 0
}

// Bounds of the poll interval of WaitMem. A peer or goroutine that writes the word does not wake
// the caller.
const (
	minPollInterval = 20 * time.Microsecond
	maxPollInterval = time.Millisecond
)

// WaitMem waits until a word of the caller's memory differs from old, or until something
// happens on the worker, including Signal. Then it returns nil, and the caller checks the
// word and its other conditions. mem is 4 or 8 bytes, aligned to its length, in the byte
// order of the machine; old is the value that the caller last read. Passing old avoids the
// race of ucp_worker_wait_mem in C, which gets no value and may wait for a change that has
// already happened. If ctx ends first its error is returned.
//
// The worker is progressed meanwhile, because writes that peers send as messages need it,
// and callbacks run. The call returns after a round of progress in which anything has
// happened, so call it in a loop. Other writers of the word, such as a peer in shared
// memory or a goroutine with atomic operations, do not wake the caller. After spinning for
// a time, which UCX_WAIT bounds as for other waits, WaitMem polls the word with sleeps of
// at most a millisecond; an event on the worker ends a sleep early, except in
// ThreadModeMulti.
//
// Like other waits it is refused inside a callback, and in modes other than ThreadModeMulti
// while another goroutine waits on the worker. In ThreadModeMulti it also returns if
// another goroutine has progressed something since the last WaitMem that returned for this
// reason; only one goroutine is notified of that.
func (w *Worker) WaitMem(ctx context.Context, mem []byte, old uint64) error {
	if w.missing() {
		return errMissing("Worker.WaitMem", w == nil)
	}
	if n := len(mem); n != 4 && n != 8 || word.Address(mem)%uint64(n) != 0 {
		return fmt.Errorf("ucp: WaitMem of %d bytes, wanted 4 or 8, aligned to their length: %w", n, ucs.ErrInvalidParam)
	}
	if err := w.wake.beginWait(); err != nil {
		return err
	}
	defer w.wake.endWait()
	return w.wake.awaitWord(ctx, mem, old)
}

func (wk *wakeup) awaitWord(ctx context.Context, mem []byte, old uint64) error {
	w := wk.w
	p := w.backoff.Fresh()
	interval := minPollInterval
	var seen uint64
	for round := 1; !changed(mem, old); round++ {
		if w.owner.isClosed() {
			if round == 1 {
				return w.closedFor("WaitMem")
			}
			return wakeset.ErrClosed
		}
		if wk.progressedSince(&seen) {
			return nil
		}
		if w.Progress() > 0 {
			wk.progressedSince(&seen) // marks this round's progress as reported
			return nil
		}
		step := p.Next(0)
		if round%64 == 0 || step == backoff.Sleep {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if step != backoff.Sleep {
			step.Take()
			continue
		}
		switch woken, err := wk.sleepFor(ctx, interval); {
		case woken:
			return nil
		case err == nil || ctx.Err() != nil:
		case mustStayAwake(err):
			backoff.Rest.Take()
		default:
			return err
		}
		interval = min(2*interval, maxPollInterval)
	}
	return nil
}

// progressedSince reports whether there was a Signal, or in thread mode multi whether any goroutine
// has progressed something since *seen, a value of engine.NewsCount, and updates *seen. 0 stands for
// wakeup.watched, the value when WaitMem last returned because of it.
func (wk *wakeup) progressedSince(seen *uint64) bool {
	w := wk.w
	if !w.owner.multi && !wk.Signaled() {
		return false
	}
	w.owner.acquire()
	defer w.owner.release()
	woken := wk.Consume()
	if w.owner.multi {
		if *seen == 0 {
			*seen = max(1, wk.watched)
		}
		now := w.owner.engine.NewsCount()
		if woken = woken || now != *seen; woken {
			wk.watched = now
		}
		*seen = now
	}
	return woken
}

// changed reports whether the word mem differs from old.
func changed(mem []byte, old uint64) bool {
	if len(mem) == 4 {
		return word.Load32(mem) != uint32(old)
	}
	return word.Load64(mem) != old
}

// sleepFor sleeps for d at most. woken reports that there was a Signal before the sleep.
func (wk *wakeup) sleepFor(ctx context.Context, d time.Duration) (woken bool, err error) {
	w := wk.w
	short, cancel := platform.WithTimeout(ctx, d)
	defer cancel()
	if w.owner.multi { // the event set is armed for the leader of the waiting calls
		platform.Receive(short.Done())
		return false, nil
	}
	w.owner.acquire()
	defer w.owner.release()
	if wk.Consume() {
		return true, nil
	}
	if err = wk.armQuietly(); err == nil {
		err = wk.Park(short)
	}
	if short.Err() != nil {
		return false, nil
	}
	return false, err
}
