package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// The queue of answers that a peer does not read. An answer is a response of the library itself.
// Most answers are small: a message was matched, the data of an offer was taken. As long as the
// peer reads, the transport takes an answer at once. An answer that the transport does not take
// becomes a record in a queue of the endpoint. One pending request drains the queue, before all
// else that waits for the lane. A record costs about as much memory as the message that it
// answers; a request would cost twenty times as much.
//
// Answers to one-sided operations with a result are requests: they must leave in the order of the
// operations, and most have data. Answers to operations without a result are only counted
// (rmaFlow.completionsOwed). Records and requests are charged to the connection of the peer that
// asked. The charge of a connection is the number of bytes of answers that its peer has not read.
// When the charge exceeds account.StopReplies, the worker does not read the connection until half
// of that is left, so that TCP stops the peer. If reading cannot be stopped, or the charge is far
// higher (account.DropMultiple), the connection is dropped. If there is no connection to drop the
// endpoint fails.
//
// Two honest peers that flood each other do not stop forever. A worker stops reading a peer only
// while the worker waits for nothing from the peer (awaits). If two workers both have answers to
// send to each other, both wait for answers, so neither stops reading. An answer is never answered,
// so workers that read finally have nothing left to answer. If a worker that has stopped reading
// starts an operation afterwards, it gets the answer when it reads again: the peer waits for
// answers, so the peer reads, and first gets the answers that are queued for it. The answers that
// two workers that do not stop can accumulate are bounded by the requests that they read while
// their answers, which are sent first, cannot leave. These requests fit in the buffers of a
// connection, some MiB, and each costs about its size again. The limit at which a connection is
// dropped is far above that.

// answer sends the small answer that r, a request of the library, describes, or queues a record
// of the answer. The answer is charged to from.
func (rs *replyState) answer(ep *Endpoint, r *Request, kind answerKind, from *source) {
	w := ep.w
	if from.Detached() {
		from = &w.accounts.unnamed
	}
	if ep.needs&r.needs() != 0 {
		w.rma.serve(from, ep, r, nil)
		return
	}
	if ep.charge == nil || ep.charge.answers.count == 0 { // a lane with queued answers would refuse it
		err := r.proto.progress(r)
		switch {
		case err == nil:
			return
		case err != ucs.ErrNoResource:
			r.proto.abort(r, err)
			return
		}
	}
	rec := answerRecord{from: from, kind: kind, req: r.peerID, size: r.ackSize, status: r.ackStatus}
	r.state &^= stateFreed
	w.pool.dropRequest(r)
	w.stats.Pending++
	q := &ep.w.accounts.ensureCharge(ep).answers
	q.push(rec)
	from.AddReplies(answerSize)
	if q.drain == nil {
		q.drain = ep.control(sendAnswers{})
		if d := q.drain; ep.lane(d.lane).PendingAdd(&d.pend) != nil {
			d.run() // there is room again, or the lane has failed
		}
	}
	from.checkReplyBytes(ep)
	if int(q.count)*answerSize > w.accounts.Limits.DropReplies && from.uct == nil {
		ep.fail(fmt.Errorf("the peer does not read its replies: %w", ucs.ErrExceedsLimit))
	}
}

// sendAnswers sends the records of an endpoint.
type sendAnswers struct{ basics }

func (sendAnswers) about() protocolInfo { return protocolInfo{name: "answers"} }

func (sendAnswers) progress(r *Request) error {
	q := &r.ep.charge.answers
	if q.draining {
		return nil // a call of progress up the stack drains the queue
	}
	q.draining = true
	defer func() { q.draining = false }()
	for q.count > 0 {
		a := q.front()
		q.pop() // before the call: the peer may be this worker
		err := a.send(r)
		if err != nil && err != ucs.InProgress {
			q.unpop(a)
			return err
		}
		a.from.SubReplies(answerSize)
	}
	if r.pend.Queued() && r != r.w.dispatching {
		return nil // another request is being dispatched, and lets answers go first; r is dispatched later
	}
	q.drain = nil
	r.finish(nil)
	return nil
}

// send sends one record with the request that drains the queue.
func (a *answerRecord) send(r *Request) error {
	ue := r.ep.lane(r.lane)
	r.peerID, r.step = a.req, uint8(a.kind)
	r.ackSize, r.ackStatus = a.size, a.status
	_, err := ue.AMBcopy(uct.AMID(answerIDs[a.kind]), r.hooks(), 0, nil)
	return err
}

func (sendAnswers) pack(r *Request, dst []byte) int {
	req := proto.RequestID(r.peerID)
	if answerKind(r.step) == answerSync {
		return proto.EagerSyncAck{ReqID: req, Status: r.ackStatus}.Put(dst)
	}
	return proto.RndvAck{ReqID: req, Status: r.ackStatus, Size: r.ackSize, HasSize: true}.Put(dst)
}

// release drops the records that could not be sent, because the endpoint has failed.
func (sendAnswers) release(r *Request) {
	q := &r.ep.charge.answers
	if q.drain == r {
		q.drain = nil
	}
	for q.count > 0 && q.drain == nil {
		a := q.front()
		q.pop()
		a.from.SubReplies(answerSize)
	}
}

// answerKind is what an answer tells the peer. An answer is a message of a few bytes that the peer's
// protocol waits for; a reply is a message of the application.
type answerKind uint8

const (
	answerSync answerKind = iota // a synchronous message was matched
	answerATS                    // an offer is finished
	answerATP                    // the data of an offer is not coming
)

// answerIDs are the message ids of the kinds.
var answerIDs = [...]proto.AMID{answerSync: proto.IDEagerSyncAck, answerATS: proto.IDRndvATS, answerATP: proto.IDRndvATP}

// answerRecord is a small answer that waits in a queue.
type answerRecord struct {
	from   *source // the source that is charged
	req    uint64  // id of the peer's request
	size   int     // number of bytes that the answer acknowledges or cancels
	kind   answerKind
	status ucs.Status
}

// answerSize is the charge for a record, in bytes.
const answerSize = 32

// chunkLen is the number of records in a chunk, which takes 4 KiB.
const chunkLen = 127

// answerChunk is a part of an answerQueue.
type answerChunk struct {
	next *answerChunk
	list [chunkLen]answerRecord
}

// answerQueue is a FIFO of records. While the queue is not empty it has a request that drains it.
type answerQueue struct {
	head, tail *answerChunk
	first, end uint32 // index of the oldest record in head, and of the first free entry in tail
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

// front returns the oldest record; the queue must not be empty.
func (q *answerQueue) front() answerRecord { return q.head.list[q.first] }

// pop removes the oldest record.
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

// unpop puts back the record that was just removed.
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

// before reports whether the queue has answers that must be sent before r, which waits on the
// same lane.
func (q *answerQueue) before(r *Request) bool {
	return q.count > 0 && !q.draining && q.drain != r && q.drain != nil && q.drain.lane == r.lane
}
