//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// sendQueue counts the requests of the queue pair. They complete in order, so the number
// of requests posted so far names each, and is the ID of its completion. Most ask for
// none: one that does, later, tells of those before it.
type sendQueue struct {
	size       int    // requests that may be under way
	reserve    int    // of these, those for control packets only
	moderation uint32 // requests in a row without a completion, at most
	posted     uint32 // requests, and of them
	done       uint32 // those that are over
	signaled   uint32 // count of the last one that asks for a completion
}

const (
	maxModeration = 16
	maxReserve    = 16
)

// open is told the size of the queue, and how many buffers there may be: not half of
// them may come to wait for a completion that nobody has asked for.
func (q *sendQueue) open(size, buffers int) {
	q.size = size
	q.reserve = min(size/8, maxReserve)
	q.moderation = uint32(min(size/4, buffers/2, maxModeration))
}

// room is how many requests can be posted.
func (q *sendQueue) room() int { return q.size - int(q.posted-q.done) }

// over reports whether a request is.
func (q *sendQueue) over(seq uint32) bool { return int32(q.done-seq) >= 0 }

// waits reports whether a completion will come.
func (q *sendQueue) waits() bool { return int32(q.signaled-q.done) > 0 }

// flags are those of the next request; must says that somebody waits for its end.
func (q *sendQueue) flags(must bool) verbs.SendFlags {
	if must || q.posted-q.signaled >= q.moderation {
		return verbs.SendSignaled
	}
	return 0
}

// post counts a request. It returns its number.
func (q *sendQueue) post(f verbs.SendFlags) uint32 {
	q.posted++
	if f&verbs.SendSignaled != 0 {
		q.signaled = q.posted
	}
	return q.posted
}

// complete is told of a completion. It reports whether it can be one.
func (q *sendQueue) complete(seq uint32) bool {
	if n := seq - q.done; n == 0 || n > q.posted-q.done {
		return false
	}
	q.done = seq
	return true
}

// drop makes all requests be over: there is no queue any more.
func (q *sendQueue) drop() { q.done, q.signaled = q.posted, q.posted }
