//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// sendQueue counts the requests of the queue pair. Requests complete in order, so a request is named
// by the number of requests posted so far, which is also the ID of its completion. Most requests ask
// for no completion: a later completion covers all requests before it.
type sendQueue struct {
	size       int    // requests that may be in flight
	reserve    int    // part of size for control packets only
	moderation uint32 // largest number of requests in a row without a completion
	posted     uint32 // number of the last request posted
	done       uint32 // number of the last request that is complete
	signaled   uint32 // number of the last request that asks for a completion
}

const (
	maxModeration = 16
	maxReserve    = 16
)

// open sets the size of the queue. buffers is the largest number of buffers: at most half of them
// may wait for a completion that no request has asked for.
func (q *sendQueue) open(size, buffers int) {
	q.size = size
	q.reserve = min(size/8, maxReserve)
	q.moderation = uint32(min(size/4, buffers/2, maxModeration))
}

// room returns the number of requests that can be posted.
func (q *sendQueue) room() int { return q.size - int(q.posted-q.done) }

// over reports whether a request is complete.
func (q *sendQueue) over(seq uint32) bool { return int32(q.done-seq) >= 0 }

// waits reports whether a completion is outstanding.
func (q *sendQueue) waits() bool { return int32(q.signaled-q.done) > 0 }

// flags returns the flags of the next request; must makes the request ask for a completion.
func (q *sendQueue) flags(must bool) verbs.SendFlags {
	if must || q.posted-q.signaled >= q.moderation {
		return verbs.SendSignaled
	}
	return 0
}

// post counts a request and returns its number.
func (q *sendQueue) post(f verbs.SendFlags) uint32 {
	q.posted++
	if f&verbs.SendSignaled != 0 {
		q.signaled = q.posted
	}
	return q.posted
}

// complete handles a completion. It reports whether seq is the number of a request in flight.
func (q *sendQueue) complete(seq uint32) bool {
	if n := seq - q.done; n == 0 || n > q.posted-q.done {
		return false
	}
	q.done = seq
	return true
}

// drop marks all requests complete, after the queue was reset or destroyed.
func (q *sendQueue) drop() { q.done, q.signaled = q.posted, q.posted }
