// Package event delivers readiness of file descriptors and expiry of timers.
//
// A Set is one epoll instance. Its owner polls it from one goroutine; the instance's own
// descriptor becomes readable when something is pending, so any other poller, Go's
// included, can wait on a Set. Other goroutines wake the owner with a Bell; a Sleeper
// waits. On systems other than Linux a set has no descriptor and watches none: only bells,
// sleepers and timers work there.
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
	// HandleEvent runs inside Poll, on the polling goroutine. It may add,
	// change and remove descriptors of the same Set and close it; it does not
	// poll.
	HandleEvent(ev Events)
}
