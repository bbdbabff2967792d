//go:build linux

package verbstest

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// How work requests end.

// complete adds a completion.
func (c *cq) complete(wc *abi.Wc, solicited bool) {
	if c.dead {
		return
	}
	if c.ring.full() {
		c.dead = true
		c.f.event(eventCQErr, c.user)
		return
	}
	copy(c.ring.at(c.ring.index), abi.Bytes(wc))
	uverbs.RaceSent()
	c.ring.produce()
	// Errors are no exception with rdma_rxe (drivers/infiniband/sw/rxe/rxe_cq.c, rxe_cq_post).
	if c.armed == armedNext || c.armed == armedSolicited && solicited {
		c.armed = 0
		c.events++
		if c.channel >= 0 {
			unix.Write(c.channel, abi.Bytes(&c.desc)) // a reader too slow loses events
		}
	}
}

// complete ends a work request.
func (q *qp) complete(w *request, status uint32) {
	q.sq.consume()
	wr := &w.wqe.Wr
	if status == wcSuccess && wr.SendFlags&flagSignaled == 0 && !q.sigAll {
		return
	}
	wc := abi.Wc{WrId: wr.WrId, Status: status, QpNum: q.num}
	if status == wcSuccess {
		wc.Opcode, wc.ByteLen = completionOf(wr.Opcode), w.wqe.Dma.Length
	}
	q.send.complete(&wc, false)
}

// completionOf is the opcode of the completion of an operation.
func completionOf(opcode uint32) uint32 {
	switch opcode {
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		return abi.IB_UVERBS_WC_RDMA_WRITE
	case abi.IB_UVERBS_WR_RDMA_READ:
		return abi.IB_UVERBS_WC_RDMA_READ
	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
		return abi.IB_UVERBS_WC_COMP_SWAP
	case abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		return abi.IB_UVERBS_WC_FETCH_ADD
	case abi.IB_UVERBS_WR_LOCAL_INV:
		return abi.IB_UVERBS_WC_LOCAL_INV
	case abi.IB_UVERBS_WR_BIND_MW:
		return abi.IB_UVERBS_WC_BIND_MW
	}
	return abi.IB_UVERBS_WC_SEND
}

// fail puts the queue pair into the error state and flushes what is posted.
func (q *qp) fail() {
	if q.attr.QpState != stateErr && q.srq != nil && q.f.k.cfg.LastWQE {
		q.f.event(eventLastWQE, q.user)
	}
	q.attr.QpState, q.trip = stateErr, trip{}
	q.leave()
	for n := q.sq.waiting(); n > 0; n-- {
		var w abi.RxeSendWqe
		fetch(&w, q.sq.at(q.sq.index))
		q.sq.consume()
		q.send.complete(&abi.Wc{WrId: w.Wr.WrId, Status: wcFlush, QpNum: q.num}, false)
	}
	if q.rq == nil {
		return
	}
	for n := q.rq.waiting(); n > 0; n-- {
		var w abi.RxeRecvWqe
		fetch(&w, q.rq.at(q.rq.index))
		q.rq.consume()
		q.recv.complete(&abi.Wc{WrId: w.WrId, Status: wcFlush, QpNum: q.num, Opcode: abi.IB_WC_RECV}, false)
	}
}

// reset forgets what is posted.
func (q *qp) reset() {
	q.leave()
	for q.sq.waiting() > 0 {
		q.sq.consume()
	}
	for q.rq != nil && q.rq.waiting() > 0 {
		q.rq.consume()
	}
	q.attr, q.way = abi.ModifyQp{}, way{}
	q.retries, q.rnr, q.trip = 0, 0, trip{}
}

// refuse is the answer to access that is not allowed: the queue pair fails.
func (q *qp) refuse(status uint32) uint32 {
	if q.typ == abi.IB_UVERBS_QPT_RC {
		q.f.event(eventQPAccessErr, q.user)
		q.fail()
	}
	return status
}

// retry counts a try in vain; it says when to give up. As in rdma_rxe, 7 is for
// ever.
func retry(tries *uint8, most uint8, status uint32) uint32 {
	if most == 7 {
		return wait
	}
	if *tries >= most {
		return status
	}
	*tries++
	return wait
}
