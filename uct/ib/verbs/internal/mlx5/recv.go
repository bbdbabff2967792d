//go:build linux

package mlx5

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// recvQueue is the receive queue of a queue pair: entries of one size, each a scatter/gather list.
// It needs no doorbell, because the device finds new entries by the doorbell record.
type recvQueue struct {
	queue    segments
	requests []received // the request in each entry
	shift    uint32     // log2 of the bytes of an entry
	pieces   int        // scatter/gather elements of an entry
	head     uint32     // number of requests posted; owned by the goroutine that posts
	open     bool
	rec      record

	_    [64]byte
	done uint32 // number of requests completed; written by the goroutine that polls
}

// received is the request in an entry of a receive queue.
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

// post writes requests into the queue and returns the number posted (providers/mlx5/qp.c,
// mlx5_post_recv). The error is that of the request after these.
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
			putSGEs(&q.queue, i<<q.shift, wr.SGList, q.pieces)
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

// putSGEs writes a scatter/gather list to offset off of the queue, and an end mark if the number
// of elements is below the parameter most. It leaves out elements of length 0, because the device
// would take them for 2 GiB.
func putSGEs(q *segments, off uint32, list []provider.SGE, most int) {
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

// putEnd writes the end mark of a scatter/gather list.
func putEnd(s *[16]byte) {
	binary.BigEndian.PutUint64(s[:8], abi.MLX5_INVALID_LKEY)
	binary.BigEndian.PutUint64(s[8:], 0)
}

// completed removes the request in the entry with index counter, which is the oldest request, from
// the queue and returns its id; ok is false if no request is posted there. The goroutine that polls
// calls completed.
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
