package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// answerKind says what a record is.
type answerKind uint8

const (
	answerSync answerKind = iota // a synchronous message was matched
	answerATS                    // an offer is over
	answerATP                    // the data of an offer is not coming
)

// answerIDs are their messages.
var answerIDs = [...]proto.AMID{answerSync: proto.IDEagerSyncAck, answerATS: proto.IDRndvATS, answerATP: proto.IDRndvATP}

// answerRecord is a small answer that waits.
type answerRecord struct {
	from   *source // which pays for it
	req    uint64  // the peer's request
	size   int     // bytes that it is about
	kind   answerKind
	status ucs.Status
}

// answerSize is what a record is charged with.
const answerSize = 32

// chunkLen is how many records a chunk of 4 KiB has room for.
const chunkLen = 127

// answerChunk is a piece of the queue.
type answerChunk struct {
	next *answerChunk
	list [chunkLen]answerRecord
}

// answerQueue is a FIFO of records. It has a request that drains it as long as it is
// not empty.
type answerQueue struct {
	head, tail *answerChunk
	first, end uint32 // in head and in tail
	drain      *Request
	count      uint32
	draining   bool
}

func (q *answerQueue) push(a answerRecord) {
	if q.tail == nil || q.end == chunkLen {
		c := new(answerChunk)
		if q.tail == nil {
			q.head, q.first = c, 0
		} else {
			q.tail.next = c
		}
		q.tail, q.end = c, 0
	}
	q.tail.list[q.end] = a
	q.end++
	q.count++
}

// front is the oldest record; there must be one.
func (q *answerQueue) front() answerRecord { return q.head.list[q.first] }

// pop takes the oldest record out.
func (q *answerQueue) pop() {
	q.head.list[q.first] = answerRecord{}
	q.first++
	q.count--
	switch {
	case q.count == 0:
		q.head, q.tail, q.first, q.end = nil, nil, 0, 0
	case q.first == chunkLen:
		q.head, q.first = q.head.next, 0
	}
}

// unpop puts back what was just taken out.
func (q *answerQueue) unpop(a answerRecord) {
	if q.first == 0 {
		c := &answerChunk{next: q.head}
		if q.head == nil {
			q.tail, q.end = c, chunkLen
		}
		q.head, q.first = c, chunkLen
	}
	q.first--
	q.head.list[q.first] = a
	q.count++
}

// before reports whether answers wait that go before r, which waits on the same lane.
func (q *answerQueue) before(r *Request) bool {
	return q.count > 0 && !q.draining && q.drain != r && q.drain != nil && q.drain.lane == r.lane
}
