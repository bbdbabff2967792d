//go:build linux

package rc

import (
	"errors"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// How operations are posted.
//
// A work request takes a place in the send queue of its endpoint, and one in the
// completion queue, whether it asks for a completion or not: if the connection breaks each
// has one. The places come back when a completion tells how far the device has come,
// which is the number of requests posted on the endpoint so far, and in the completion's
// ID with the index of the endpoint.
//
// So that a completion comes while somebody needs it, a request asks for one when none of
// some before it has, when no other one is under way, and when places or buffers that
// endpoints share are running low: each endpoint may go to sleep over what its last few
// requests hold. What is behind the last one that has asked is the tail (tail.go).

// flags are those of the next request of a user. must says that somebody waits for its end.
func (e *endpoint) flags(must bool) verbs.SendFlags {
	f := e.signal(must)
	if e.fenced {
		f |= e.fence()
	}
	return f
}

// signal is the flag that asks for a completion, if the next request is to do so.
func (e *endpoint) signal(must bool) verbs.SendFlags {
	i := e.iface
	if must || e.unsignaled >= i.moderation || i.credits <= i.lowCredits || e.posted-e.unsignaled == e.done {
		return verbs.SendSignaled
	}
	return 0
}

// fence is the flag of the first request behind a fence: it waits for reads and atomics,
// if there are any.
func (e *endpoint) fence() verbs.SendFlags {
	e.fenced = false
	if int32(e.fetches-e.done) > 0 {
		return verbs.SendFence
	}
	return 0
}

// id is that of the next request.
func (e *endpoint) id() uint64 { return uint64(e.index)<<32 | uint64(e.posted+1) }

// ring hands a request to the device. nil says that it has been accepted.
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
		// It is in the queue, and the device does not know. The endpoint's end ends it.
		e.fail(err)
	}
	return nil
}

// refused is told that a request could not be posted: there was room by all that is
// known, so the queue pair is not what it was.
//
//go:noinline
func (e *endpoint) refused(err error) error {
	if errors.Is(err, ucs.ErrNoResource) {
		err = errQueue
	}
	e.fail(err)
	return e.failed
}

// solicit is the flag of all messages: who sleeps wants to be told of them.
const solicit = verbs.SendSolicited
