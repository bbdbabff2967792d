package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// WakeupEvents are what shall wake who sleeps on a worker (enum ucp_wakeup_event_types).
// They are a promise of wakeups, not of silence: whichever are asked for, everything that a
// transport has to tell wakes, as WorkerAttr.Wakeup says. That is so over every transport:
//
//   - A worker that shall wake for WakeupTX wakes for arrivals. The end of a rendezvous, of a
//     synchronous send, of a get or a flush is a message of the peer, and connections are made
//     by messages: whoever slept through these would miss what he has asked for.
//   - One that shall wake for WakeupRX wakes when sends go on or end. What found no room
//     would stay with the sleeper, and a receive that fetches its data ends like a send.
//   - Timers, failures and the ends of connections wake any worker.
//
// C asks its transports to leave events out. Those in shared memory and over RDMA devices do,
// and with WakeupTX alone miss ends of sends; tcp of C wakes for everything. C's sentence that
// there are no empty events with TX and RX holds for none of the two libraries: who is woken
// progresses the worker and looks.
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
	// EpollTarget.Edge: each is told once. A descriptor that the application adds itself
	// it adds as it likes, so this takes WorkerParams.Epoll.
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

// wakesFor is what wakes who sleeps on the worker.
func (w *Worker) wakesFor() WakeupEvents {
	if w.ctx.params.Features&FeatureWakeup == 0 {
		return 0
	}
	return wakeupAll | w.params.Events&WakeupEdge
}
