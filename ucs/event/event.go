// Package event delivers readiness of file descriptors and expiry of timers.
//
// A Set is one epoll instance. Its owner polls it from one goroutine; the
// instance's own descriptor becomes readable when something is pending, so a
// Set can be waited on by any other poller, Go's included. A Bell is rung from other
// goroutines, a Sleeper waits. On systems other than Linux these and timers are all
// that there is: a set watches no descriptors there and has none.
package event

// Events is a bit set of readiness kinds.
type Events uint32

// Readiness kinds, with the kernel's numbers (EPOLL* in linux/eventpoll.h). Err
// and Hup are delivered whether asked for or not.
const (
	Read  Events = 0x001
	Write Events = 0x004
	Err   Events = 0x008
	Hup   Events = 0x010
	Edge  Events = 1 << 31
)

// Handler receives the readiness of one descriptor.
type Handler interface {
	// HandleEvent runs inside Poll, on the polling goroutine. It may add,
	// change and remove descriptors of the same Set and close it; it does not
	// poll.
	HandleEvent(ev Events)
}
