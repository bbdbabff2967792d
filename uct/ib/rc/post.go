//go:build linux

package rc

import (
	"errors"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// How operations are posted.
//
// A work request takes a place in the send queue of its endpoint, and one in the completion
// queue, even if it asks for no completion: if the connection breaks, each request has a
// completion. The places are released when a completion tells how far the device has come. The
// ID of a request, which its completion has as well, is the index of the endpoint and the
// number of requests posted on the endpoint so far.
//
// So that completions come in time, a request asks for one when none of the last moderation
// requests has, when no signaled request is in flight, and when the places or buffers that
// endpoints share are running low: any endpoint may become idle while its last few requests
// still hold some. What is posted after the last signaled request is the tail (tail.go).

// flags returns the flags of the next request of a caller. must says that its completion is
// needed.
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

// fence returns the flag of the first request after a fence: the request waits for reads and
// atomics, if any are in flight.
func (e *endpoint) fence() verbs.SendFlags {
	e.fenced = false
	if int32(e.fetches-e.done) > 0 {
		return verbs.SendFence
	}
	return 0
}

// id returns the ID of the next request.
func (e *endpoint) id() uint64 { return uint64(e.index)<<32 | uint64(e.posted+1) }

// ring hands a request to the device. nil means that the request was accepted.
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

// refused handles a request that could not be posted although there was room by all counts: the
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
