package ucp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// EpollTarget is an epoll set that a worker adds itself to until it is closed. Closing the
// worker wakes no sleeper on the set.
type EpollTarget struct {
	FD   int    // the epoll set
	Data uint64 // the user data of the events
	Edge bool   // edge-triggered: each event is reported once
}

// wakeup is the state of a worker's sleeping and waking.
type wakeup struct {
	signaled atomic.Bool // a Signal that no Arm has consumed

	mu      sync.Mutex
	bell    *event.Bell    // rung by Signal; guarded by mu, nil when closed
	sleeper *event.Sleeper // guarded by mu

	engine      *engine.Engine // in thread mode multi
	watched     uint64         // engine.Tellings that a WaitMem has last returned for
	outside     *bell          // in thread mode multi, for the application's poller
	blockedCall atomic.Bool    // a call waits, or Close is running
	w           *Worker
}

// open puts the bell into the worker's event set.
func (k *wakeup) open(w *Worker) (err error) {
	k.engine = w.owner.engine
	if k.bell, err = event.NewBell(w.uctw.Events(), k); err != nil {
		return fmt.Errorf("ucp: %w", err)
	}
	if w.owner.multi && w.ctx.params.Features&FeatureWakeup != 0 {
		if k.outside, err = newBell(w.uctw.EventFD()); err != nil {
			return err
		}
	}
	if w.params.Epoll != nil {
		return w.params.Epoll.add(w.wake.eventFD())
	}
	return nil
}

// HandleEvent implements event.Handler: it clears the bell, so that the event set is no longer
// readable for it. signaled stays set until Arm or Wait consumes it.
func (k *wakeup) HandleEvent(event.Events) {
	k.bell.Clear() // no effect if heard has cleared it already
	if k.engine != nil {
		k.engine.Heard()
	}
}

func (k *wakeup) close(w *Worker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bell != nil {
		k.bell.Close()
		k.bell = nil
	}
	if k.sleeper != nil {
		k.sleeper.Close()
		k.sleeper = nil
	}
	switch b := k.outside; {
	case b == nil:
	case b.rung && w.params.Epoll == nil:
		b.outlive()
	default:
		b.close()
		k.outside = nil
	}
}

// needWakeup returns an error for wakeup calls on a closed worker or without FeatureWakeup.
func (wk *wakeup) needWakeup() error {
	w := wk.w
	if w.closed || w.ctx.params.Features&FeatureWakeup == 0 {
		return w.lacks("EventFD, Arm or Wait", FeatureWakeup)
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
	if fd := w.wake.eventFD(); w.params.Epoll == nil && fd >= 0 {
		return fd, nil
	}
	return -1, ucs.ErrUnsupported
}

// eventFD returns the descriptor that the application sleeps on.
func (wk *wakeup) eventFD() int {
	w := wk.w
	if b := wk.outside; b != nil {
		return b.set
	}
	return w.uctw.EventFD()
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
	w.wake.comeBack()
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

// armAnew is armFor for the application. It returns ucs.ErrBusy if there was a Signal, or if in
// thread mode multi another goroutine has progressed something since the last check.
func (wk *wakeup) armAnew(events uct.EventFlags) error {
	w := wk.w
	told := wk.heard()
	if w.owner.multi && w.owner.engine.Untold() {
		told = true
	}
	if told {
		return ucs.ErrBusy
	}
	return wk.armFor(events)
}

// heard reports whether there was a Signal that the application has not been told of, and consumes
// it. In thread mode multi only calls of the application use heard. The leader is woken through the
// descriptor, and must not consume a Signal that the application is about to check for.
func (wk *wakeup) heard() bool {
	w := wk.w
	if !wk.signaled.Swap(false) { // [heard]
		return false
	}
	wk.HandleEvent(event.Read)
	if w.owner.multi {
		w.owner.engine.News()
	}
	return true
}

func (wk *wakeup) arm() error {
	w := wk.w
	if !w.owner.multi && wk.heard() {
		return ucs.ErrBusy
	}
	return wk.armQuietly()
}

// armQuietly is arm for a caller that has already checked for a Signal.
func (wk *wakeup) armQuietly() error { return wk.armFor(uct.EventAny) }

// armFor is armQuietly for the given events. It returns ucs.ErrBusy if there is work left to do.
func (wk *wakeup) armFor(events uct.EventFlags) error {
	w := wk.w
	if w.dispatched.head != nil || w.copying.head != nil || w.stream.look || w.conns.departed != nil {
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
		return w.lacks("Signal", FeatureWakeup)
	}
	return w.wake.signal()
}

// signal wakes the worker. Any goroutine may call it.
func (k *wakeup) signal() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bell == nil {
		return errSignalClosed
	}
	k.signaled.Store(true) // [signal]
	return k.bell.Ring()
}

// sleepers is a worker as the host of its engine.
type sleepers Worker

// Arm implements engine.Host.
func (s *sleepers) Arm() (busy bool) { return (*Worker)(s).wake.arm() == ucs.ErrBusy }

// Rouse implements engine.Host.
func (s *sleepers) Rouse() {
	k := &s.wake
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bell != nil {
		k.bell.Ring()
	}
}

// Ring implements engine.Host.
func (s *sleepers) Ring() {
	if b := s.wake.outside; b != nil {
		b.ring()
	}
}

// comeBack records that the application is awake: it clears the bell of its poller.
func (k *wakeup) comeBack() {
	b := k.outside
	if b == nil || !b.rung {
		return
	}
	b.answer()         // [answer]
	if k.bell == nil { // the worker is closed
		b.close()
		k.outside = nil
	}
}

var errWaitInside = fmt.Errorf("ucp: waiting inside a callback: %w", ucs.ErrInvalidParam)

// enterWait makes sure that one goroutine at a time waits on the worker. Only that goroutine may
// then read the worker's state.
func (wk *wakeup) enterWait() error {
	w := wk.w
	if !wk.blockedCall.CompareAndSwap(false, true) {
		return fmt.Errorf("ucp: another goroutine, or the call that runs this callback, already waits on worker %s, in thread mode %v: %w",
			w.name, w.params.ThreadMode, ucs.ErrBusy)
	}
	if w.owner.inCallback() {
		wk.leaveWait()
		return errWaitInside
	}
	if err := w.owner.misused(); err != nil {
		wk.leaveWait()
		panic(err)
	}
	return nil
}

// enterClose is enterWait for Close: it makes sure that no goroutine waits on the worker or begins
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
		wk.leaveWait()
	}
	return err
}

func (wk *wakeup) leaveWait() { wk.blockedCall.Store(false) }

// awake reports whether err, of an attempt to sleep, requires a waiting call to stay awake: there
// is something to do, or no descriptor is left to sleep on.
func awake(err error) bool { return err == ucs.ErrBusy || errors.Is(err, syscall.EMFILE) }

// park sleeps until something may be ready in the armed event set or ctx ends.
func (wk *wakeup) park(ctx context.Context) error {
	w := wk.w
	s, err := wk.openSleeper(w)
	if err != nil {
		return err
	}
	return s.Sleep(ctx)
}

var errClosedMeanwhile = fmt.Errorf("ucp: the worker was closed: %w", ucs.ErrCanceled)

// openSleeper returns the sleeper on the event set, which it makes at the first sleep.
func (k *wakeup) openSleeper(w *Worker) (*event.Sleeper, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sleeper != nil {
		return k.sleeper, nil
	}
	if k.bell == nil {
		return nil, errClosedMeanwhile
	}
	var err error
	if k.sleeper, err = event.NewSleeper(w.uctw.Events()); err != nil {
		return nil, fmt.Errorf("ucp: %w", err)
	}
	return k.sleeper, nil
}

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
	WakeupAMO     WakeupEvents = 1 << 1  // of atomic operations
	WakeupTagSend WakeupEvents = 1 << 2  // of tagged sends
	WakeupTagRecv WakeupEvents = 1 << 3  // tagged messages
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
	told := wk.wakesFor()
	if told&wakeupSends != 0 {
		events |= uct.EventSendComp
	}
	if told&wakeupReceives != 0 {
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
