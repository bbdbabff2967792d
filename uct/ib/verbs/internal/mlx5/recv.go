//go:build linux

package mlx5

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// recvQueue is the receive queue of a queue pair: entries of one size, of a list of
// pieces of memory each. The device looks for them itself.
type recvQueue struct {
	queue    segments
	requests []received
	shift    uint32 // log2 of the bytes of an entry
	pieces   int
	head     uint32 // requests that were posted; of who posts
	open     bool
	rec      record

	_    [64]byte
	done uint32 // those that have completed; of who polls
}

// received is what is known of an entry that is posted.
type received struct {
	id     uint64
	posted bool
}

func (q *recvQueue) init(mem []byte, l *layout, r record) {
	if l.receives > 0 {
		q.queue, q.requests = newSegments(mem, l.recvBytes()), make([]received, l.receives)
		q.shift, q.pieces, q.rec, q.open = l.recvShift, l.recvPieces, r, true
	}
}

func (q *recvQueue) detach() { q.open, q.queue, q.rec = false, segments{}, nil }

func (q *recvQueue) reset() {
	q.head, q.done = 0, 0
	clear(q.requests)
}

// post puts requests into the queue (providers/mlx5/qp.c, mlx5_post_recv).
func (q *recvQueue) post(wrs []provider.RecvWR) (n int, err error) {
	if !q.open {
		return 0, provider.ErrNoRQ
	}
	done := atomic.LoadUint32(&q.done)
	for n < len(wrs) && err == nil {
		wr := &wrs[n]
		if q.head-done >= uint32(len(q.requests)) {
			err = provider.ErrQueueFull
		} else if _, err = provider.Length(wr.SGList, q.pieces); err == nil {
			i := q.head & uint32(len(q.requests)-1)
			q.requests[i] = received{wr.ID, true}
			putPieces(&q.queue, i<<q.shift, wr.SGList, q.pieces)
			q.head++
			n++
		}
	}
	if n > 0 {
		uverbs.RaceSent()
		toDevice()
		setRecord(q.rec, abi.MLX5_RCV_DBR, q.head&0xffff)
	}
	return n, err
}

// putPieces writes a list of at most so many pieces, and where it ends. Of no length
// there are none: it would be 2 GiB.
func putPieces(q *segments, off uint32, list []provider.SGE, most int) {
	n := 0
	for i := range list {
		if list[i].Length != 0 {
			putData(q.at(off+uint32(n)*unit), &list[i])
			n++
		}
	}
	if n < most {
		putEnd(q.at(off + uint32(n)*unit))
	}
}

// putEnd ends a list.
func putEnd(s *[16]byte) {
	binary.BigEndian.PutUint64(s[:8], abi.MLX5_INVALID_LKEY)
	binary.BigEndian.PutUint64(s[8:], 0)
}

// completed takes the request at a place, which is the oldest, out of the queue, and
// returns its id; ok is false if there is none. It is for who polls.
func (q *recvQueue) completed(counter uint32) (id uint64, ok bool) {
	if len(q.requests) == 0 {
		return 0, false
	}
	r := &q.requests[counter&uint32(len(q.requests)-1)]
	if !r.posted {
		return 0, false
	}
	r.posted = false
	word.StoreRelease32(&q.done, q.done+1)
	return r.id, true
}
