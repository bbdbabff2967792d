package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

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

	// wakeupAll are those that transports can tell, and do.
	wakeupAll = WakeupRMA | WakeupAMO | WakeupTagSend | WakeupTagRecv | WakeupTX | WakeupRX

	wakeupKnown = wakeupAll | WakeupEdge
)

// checkEvents refuses events that are unknown, or that nobody could be woken for.
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

// Directions that transports know.
const (
	wakeupSends    = WakeupRMA | WakeupAMO | WakeupTagSend | WakeupTX
	wakeupReceives = WakeupTagRecv | WakeupRX
)

// wakesFor is what wakes a sleeper on the descriptor: all events of a direction that is asked for.
func (w *Worker) wakesFor() (all WakeupEvents) {
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

// wanted is what an Arm of the application asks the transports to wake for.
func (w *Worker) wanted() (events uct.EventFlags) {
	told := w.wakesFor()
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

// underWay reports whether an operation or a close has not ended, or the lanes are not connected.
func (ep *Endpoint) underWay() bool {
	closing := life.Draining <= ep.life.Stage && ep.life.Stage <= life.Leaving
	return ep.under > 0 || ep.lacks != 0 || closing || ep.flushes > 0
}
