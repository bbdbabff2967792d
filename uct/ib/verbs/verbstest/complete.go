//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// How work requests end.

// complete adds a completion.
func (c *cq) complete(d completion, solicited bool) {
	if c.dead {
		return
	}
	if !c.overruns && c.queue.full() {
		c.dead = true
		c.f.event(eventCQErr, c.user)
		return
	}
	uverbs.RaceSent()
	d.solicited = solicited
	c.queue.put(d)
	if c.armed == armedNext || c.armed == armedSolicited && (solicited || d.wc.Status != wcSuccess && c.f.k.of.failuresTold()) {
		c.tell()
	}
}

// tell tells the user of a completion that was asked for.
func (c *cq) tell() {
	c.armed = 0
	if c.channel != nil && c.channel.put(abi.Bytes(&c.desc)) {
		c.events++
	}
}

// read takes the events back that the user has not read, and returns how many he has.
func (c *cq) read() uint32 {
	if c.events == 0 {
		return 0
	}
	return c.events - c.channel.withdraw(func(record []byte) bool { return load[abi.CompEventDesc](record) == c.desc })
}

// complete ends a work request.
func (q *qp) complete(w *request, status uint32) {
	t := q.sq.take()
	if status == wcSuccess && !w.signaled && !q.sigAll {
		return
	}
	d := completion{wc: abi.Wc{Status: status, QpNum: q.num}, tag: t, q: q}
	if status == wcSuccess {
		d.wc.Opcode, d.wc.ByteLen = completionOf(w.op), w.length
	}
	q.send.complete(d, false)
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
	q.flush()
}

// flush completes what is posted to a queue pair in the error state.
func (q *qp) flush() {
	flushed := completion{wc: abi.Wc{Status: wcFlush, QpNum: q.num}, q: q}
	for q.sq.waiting() {
		flushed.tag = q.sq.take()
		q.send.complete(flushed, false)
	}
	if q.rq == nil {
		return
	}
	flushed.recv, flushed.wc.Opcode = true, abi.IB_WC_RECV
	for q.rq.waiting() > 0 {
		flushed.tag = q.rq.take()
		q.recv.complete(flushed, false)
	}
}

// reset forgets what is posted.
func (q *qp) reset() {
	q.leave()
	q.sq.reset()
	if q.rq != nil {
		q.rq.reset()
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

// retry counts a try in vain; it says when to give up. 7 is for ever where there is no
// receive, and in rdma_rxe.
func (q *qp) retry(tries *uint8, most uint8, status uint32) uint32 {
	k := q.f.k
	endless := status != wcRetryExc || k.cfg.Endless || k.cfg.MLX5 == nil && k.net.sched.work == serving
	if most != 7 || !endless {
		if *tries >= most {
			return status
		}
		*tries++
	}
	q.postpone(status)
	return wait
}
