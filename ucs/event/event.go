// Package event delivers readiness of file descriptors and expiry of timers.
//
// A Set is one epoll instance. One goroutine at a time, the owner, polls it. The instance's
// descriptor becomes readable when an event is pending, so another poller, such as Go's, can wait
// on a Set. Other goroutines wake the owner with a Bell; a Sleeper waits for events. On systems
// other than Linux a Set has no descriptor and watches none: only Bell, Sleeper and Timers work
// there.
package event

// Events is a bit set of readiness kinds.
type Events uint32

// Readiness kinds, with the kernel's numbers (EPOLL* in linux/eventpoll.h). Err and Hup are
// always delivered.
const (
	Read  Events = 0x001
	Write Events = 0x004
	Err   Events = 0x008
	Hup   Events = 0x010
	Edge  Events = 1 << 31
)

// Handler receives the readiness of one descriptor.
type Handler interface {
	// HandleEvent is called inside Set.Poll, on the polling goroutine. It may add, change and
	// remove descriptors of the same Set, and close the Set. It must not poll the Set.
	HandleEvent(ev Events)
}
