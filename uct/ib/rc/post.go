//go:build linux

package rc

import (
	"errors"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// How operations are posted.
//
// A work request takes an entry of the send queue of its endpoint and one of the completion queue.
// It takes the latter even if it asks for no completion, because each request has a completion if
// the connection breaks. The entries are released when a completion reports how far the device has
// come. The ID of a request and of its completion is the index of the endpoint and the number of
// requests posted on the endpoint so far.
//
// So that completions come in time, a request asks for one in three cases: when none of the last
// i.moderation requests has, when no signaled request is in flight, and when the entries or buffers
// that endpoints share are running low, because any endpoint may become idle while its last few
// requests still hold some. The requests posted after the last signaled one are the tail (tail.go).

// flags returns the flags of the next request of a caller. must is true if the completion of the
// request is needed.
func (e *endpoint) flags(must bool) verbs.SendFlags {
	f := e.signal(must)
	if e.fenced {
		f |= e.fence()
	}
	return f
}

// signal returns the flag that asks for a completion, if the next request is to ask for one.
func (e *endpoint) signal(must bool) verbs.SendFlags {
	i := e.iface
	if must || e.unsignaled >= i.moderation || i.credits <= i.lowCredits || e.posted-e.unsignaled == e.done {
		return verbs.SendSignaled
	}
	return 0
}

// fence returns the flag of the first request after a fence, with which the request waits for reads
// and atomics; 0 if none are in flight.
func (e *endpoint) fence() verbs.SendFlags {
	e.fenced = false
	if int32(e.fetches-e.done) > 0 {
		return verbs.SendFence
	}
	return 0
}

// id returns the ID of the next request.
func (e *endpoint) id() uint64 { return uint64(e.index)<<32 | uint64(e.posted+1) }

// ring hands a request with the flags f to the device. It returns nil if the request was accepted.
func (e *endpoint) ring(p *verbs.Post, f verbs.SendFlags) error {
	n, err := p.Ring()
	if n == 0 {
		return e.refused(err)
	}
	e.posted++
	e.matters = e.posted
	e.room--
	e.iface.credits--
	if f&verbs.SendSignaled != 0 {
		e.unsignaled = 0
	} else {
		e.unsignaled++
	}
	if err != nil {
		// The request is in the queue, but the device has not been notified. It ends with the
		// endpoint.
		e.fail(err)
	}
	return nil
}

// refused handles a request that could not be posted although there was room by all counts. The
// queue pair is broken, and the endpoint fails.
//
//go:noinline
func (e *endpoint) refused(err error) error {
	if errors.Is(err, ucs.ErrNoResource) {
		err = errQueue
	}
	e.fail(err)
	return e.failed
}

// solicit is the flag of all messages: it raises an event at a receiver that sleeps.
const solicit = verbs.SendSolicited
