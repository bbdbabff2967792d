//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// Work requests of connected queue pairs.

// peer is the queue pair at the other end, nil while it cannot be reached: it has to
// expect packets from this one, from the address that they come from.
func (q *qp) peer() *qp {
	if q.way.from == nil {
		return nil
	}
	p := q.way.end()
	if p == nil {
		return nil
	}
	to := p.k.qps[q.attr.DestQpNum]
	if to == nil || to.typ != q.typ || to.attr.DestQpNum != q.num || to.way.from != p ||
		to.attr.QpState < stateRTR || to.attr.QpState == stateErr || !to.way.leadsBack(&q.way) ||
		!samePartition(q.pkey(), to.pkey()) || to.attr.RqPsn != q.attr.SqPsn {
		return nil
	}
	return to
}

// leadsBack reports whether packets of the other way come from where this one leads
// to, and are sent to where it begins.
func (w *way) leadsBack(other *way) bool {
	if w.global != other.global {
		return false
	}
	if w.global {
		return w.dgid == other.source().ID && other.dgid == w.source().ID
	}
	return w.dlid>>other.from.LMC == other.from.LID>>other.from.LMC
}

// message does a work request that goes to a peer, by way of the hook.
func (q *qp) message(w *request) uint32 {
	if q.stopped() {
		return wait
	}
	x, to := &q.f.k.net.faults, q.peer()
	var fate Fate
	if q.trip.held {
		q.trip.held = false
	} else {
		var end *port
		if q.way.from != nil {
			end = q.way.end()
		}
		if fate = q.ask(w, end, q.attr.DestQpNum); fate.Hold != 0 && !fate.Drop {
			q.trip.held, q.trip.due = true, x.until(fate.Hold)
			return wait
		}
	}
	reliable := q.typ == abi.IB_UVERBS_QPT_RC
	switch {
	case fate.Drop:
		x.counts.Dropped++
		return q.lost()
	case to == nil || !q.fits(w, to):
		if !reliable {
			return wcSuccess // lost
		}
		return q.retry(&q.retries, q.attr.RetryCnt, wcRetryExc)
	case fate.NotReady && reliable && needsReceive(w.op):
		x.counts.NotReady++
		return q.answer(wcRNRRetryExc)
	}
	status := uint32(wcSuccess)
	switch {
	case q.trip.answered:
	case q.understands(w, to):
		status = q.connected(w, to)
	default:
		status = to.refuse(wcRemInvReq)
	}
	switch {
	case !reliable && status != wcSuccess:
		return wcSuccess // lost
	case status != wcSuccess:
		return status
	case fate.NoAnswer && reliable:
		q.trip.answered = true
		x.counts.AnswersLost++
		return q.lost()
	}
	x.passed++
	return wcSuccess
}

// fits reports whether the links let through packets as large as the path's MTU has
// them.
func (q *qp) fits(w *request, to *qp) bool {
	n := min(w.length, max(mtuBytes(q.attr.PathMtu), 1))
	return n <= q.way.from.mtu() && n <= to.way.from.mtu()
}

// understands reports whether the peer takes packets of the lengths in which a message
// comes: those of full packets have to be its own MTU (rxe_resp_check_length,
// drivers/infiniband/sw/rxe/rxe_resp.c).
func (q *qp) understands(w *request, to *qp) bool {
	n, mine, theirs := w.length, mtuBytes(q.attr.PathMtu), mtuBytes(to.attr.PathMtu)
	if n > mine {
		return mine == theirs
	}
	return n <= theirs
}

// connected does a work request of a connected queue pair.
func (q *qp) connected(w *request, to *qp) uint32 {
	n := uint64(w.length)
	// What the queue pair has no right to is not a request it understands
	// (check_op_valid, drivers/infiniband/sw/rxe/rxe_resp.c).
	if need := rights(w.op); to.attr.QpAccessFlags&need != need {
		return to.refuse(wcRemInvReq)
	}
	switch w.op {
	case abi.IB_UVERBS_WR_SEND_WITH_INV:
		if to.hasReceive() && !to.invalidate(w.ex) {
			return to.refuse(wcRemAccess)
		}
		return q.deliver(w, to, abi.IB_WC_WITH_INVALIDATE)
	case abi.IB_UVERBS_WR_SEND_WITH_IMM:
		return q.deliver(w, to, abi.IB_WC_WITH_IMM)
	case abi.IB_UVERBS_WR_SEND:
		return q.deliver(w, to, 0)
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		return q.write(w, to)
	case abi.IB_UVERBS_WR_RDMA_READ:
		if n == 0 {
			return wcSuccess
		}
		src, ok := to.remote(w.rkey, w.addr, n, abi.IB_UVERBS_ACCESS_REMOTE_READ)
		if !ok {
			return to.refuse(wcRemAccess)
		}
		q.f.k.net.desk.bounce.scatter(w.local.list, src)
		return wcSuccess
	}
	return q.atomic(w, to)
}

// arrival is the completion of what a work request brings.
func (q *qp) arrival(w *request, opcode, flags uint32) abi.Wc {
	wc := abi.Wc{Opcode: opcode, ByteLen: w.length, WcFlags: flags, SrcQp: q.num}
	if q.way.global {
		wc.WcFlags |= abi.IB_WC_GRH
	}
	if flags != 0 {
		wc.Ex = w.ex
	}
	return wc
}

// deliver sends a message; flags are of its completion.
func (q *qp) deliver(w *request, to *qp, flags uint32) uint32 {
	wc := q.arrival(w, abi.IB_WC_RECV, flags)
	return q.answer(to.receive(&w.local, &wc, w.solicited))
}

// write writes to the peer's memory, with a receive if there is immediate data.
func (q *qp) write(w *request, to *qp) uint32 {
	n, bounce := uint64(w.length), &q.f.k.net.desk.bounce
	var dst piece
	if n > 0 {
		var ok bool
		if dst, ok = to.remote(w.rkey, w.addr, n, abi.IB_UVERBS_ACCESS_REMOTE_WRITE); !ok {
			return to.refuse(wcRemAccess)
		}
	}
	if w.op == abi.IB_UVERBS_WR_RDMA_WRITE {
		bounce.gather(dst, w.local.list)
		return wcSuccess
	}
	wc := q.arrival(w, abi.IB_WC_RECV_RDMA_WITH_IMM, abi.IB_WC_WITH_IMM)
	if status := to.take(0, &wc); status != wcSuccess {
		return q.answer(status)
	}
	bounce.gather(dst, w.local.list)
	to.received(&wc, w.solicited)
	return wcSuccess
}

// rights are those that an operation needs at the other end.
func rights(opcode uint32) uint32 {
	switch opcode {
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		return abi.IB_UVERBS_ACCESS_REMOTE_WRITE
	case abi.IB_UVERBS_WR_RDMA_READ:
		return abi.IB_UVERBS_ACCESS_REMOTE_READ
	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		return abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	}
	return 0
}

// atomic does compare-and-swap and fetch-and-add.
func (q *qp) atomic(w *request, to *qp) uint32 {
	if w.length != 8 {
		return wcLocLen
	}
	p, ok := to.remote(w.rkey, w.addr, 8, abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC)
	if !ok {
		return to.refuse(wcRemAccess)
	}
	if w.addr%8 != 0 {
		return to.refuse(wcRemInvReq)
	}
	bounce := &q.f.k.net.desk.bounce
	old := bounce.update(p, func(old uint64) uint64 {
		switch {
		case w.op == abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
			return old + w.add
		case old == w.add:
			return w.swap
		}
		return old
	})
	putU64(w.data[:], old)
	bounce.scatter(w.local.list, local(w.data[:8]))
	return wcSuccess
}

// answer turns what the receiver made of a message into what the sender does.
func (q *qp) answer(status uint32) uint32 {
	if status == wcRNRRetryExc && q.typ == abi.IB_UVERBS_QPT_RC {
		q.retries = 0 // the peer has answered
		q.f.k.notReady++
		return q.retry(&q.rnr, q.attr.RnrRetry, wcRNRRetryExc)
	}
	return status
}
