package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// WakeupEvents are what shall wake who sleeps on a worker (enum ucp_wakeup_event_types).
// They are a promise of wakeups, not of silence: transports do not tell what completed or
// arrived, so a worker that is to be woken for one of them is for all. Spurious wakeups
// are part of sleeping, also with WakeupTX and WakeupRX, for which C promises that there are
// none.
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

	wakeupKnown = WakeupRMA | WakeupAMO | WakeupTagSend | WakeupTagRecv | WakeupTX | WakeupRX | WakeupEdge
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
