//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Completion of work requests.

// complete adds a completion to the queue and raises the event that the queue is armed for. If the
// queue overruns, complete raises an error event, and ignores all completions from then on.
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
	if c.armed == armedNext || c.armed == armedSolicited && (solicited || d.wc.Status != wcSuccess && c.f.k.kind.failuresWakeSolicited()) {
		c.raiseEvent()
	}
}

// raiseEvent raises the event that the queue was armed for, and disarms the queue.
func (c *cq) raiseEvent() {
	c.armed = 0
	if c.channel != nil && c.channel.put(abi.Bytes(&c.desc)) {
		c.events++
	}
}

// read withdraws the events that the user has not read, and returns how many the user has read.
func (c *cq) read() uint32 {
	if c.events == 0 {
		return 0
	}
	return c.events - c.channel.withdraw(func(record []byte) bool { return load[abi.CompEventDesc](record) == c.desc })
}

// complete removes the first work request, which is w, from the send queue. It adds a completion,
// unless the request has succeeded and is not signaled.
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

// completionOf returns the completion opcode of an operation.
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

// fail puts the queue pair into the error state and flushes its posted work requests.
func (q *qp) fail() {
	if q.attr.QpState != stateErr && q.srq != nil && q.f.k.cfg.LastWQE {
		q.f.event(eventLastWQE, q.user)
	}
	q.attr.QpState, q.sendState = stateErr, sendState{}
	q.leave()
	q.flush()
}

// flush completes the posted work requests of a queue pair in the error state with wcFlush.
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

// reset discards the posted work requests and the attributes of the queue pair.
func (q *qp) reset() {
	q.leave()
	q.sq.reset()
	if q.rq != nil {
		q.rq.reset()
	}
	q.attr, q.path = abi.ModifyQp{}, path{}
	q.retries, q.rnr, q.sendState = 0, 0, sendState{}
}

// refuse returns the status with which the peer's request fails because q does not allow it. If q
// is an RC queue pair, it enters the error state with an event.
func (q *qp) refuse(status uint32) uint32 {
	if q.typ == abi.IB_UVERBS_QPT_RC {
		q.f.event(eventQPAccessErr, q.user)
		q.fail()
	}
	return status
}

// retry counts a failed try. It returns wait, or the given status when the number of retries in the
// parameter most is used up. The number 7 means endless retries while the receiver has no receive;
// for an unreachable peer see Config.Endless.
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
