//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Work requests of connected queue pairs.

// peer returns the connected queue pair, nil while it is unreachable. That queue pair must expect
// packets from q and from the address that q sends from.
func (q *qp) peer() *qp {
	if q.path.from == nil {
		return nil
	}
	p := q.path.destination()
	if p == nil {
		return nil
	}
	to := p.k.qps[q.attr.DestQpNum]
	if to == nil || to.typ != q.typ || to.attr.DestQpNum != q.num || to.path.from != p ||
		to.attr.QpState < stateRTR || to.attr.QpState == stateErr || !to.path.reversedBy(&q.path) ||
		!samePartition(q.pkey(), to.pkey()) || to.attr.RqPsn != q.attr.SqPsn {
		return nil
	}
	return to
}

// reversedBy reports whether other is the reverse of the path w: other starts at the destination of
// w and, if the paths use GIDs, leads to the source of w.
func (w *path) reversedBy(other *path) bool {
	if w.global != other.global {
		return false
	}
	if w.global {
		return w.dgid == other.source().ID && other.dgid == w.source().ID
	}
	return w.dlid>>other.from.LMC == other.from.LID>>other.from.LMC
}

// message executes a work request that goes to a peer, subject to the fault hook. It returns what
// execute returns.
func (q *qp) message(w *request) uint32 {
	if q.isHeld() {
		return wait
	}
	x, to := &q.f.k.net.faults, q.peer()
	var fate Fate
	if q.sendState.held {
		q.sendState.held = false
	} else {
		var end *port
		if q.path.from != nil {
			end = q.path.destination()
		}
		if fate = q.askHook(w, end, q.attr.DestQpNum); fate.Hold != 0 && !fate.Drop {
			q.sendState.held, q.sendState.due = true, x.until(fate.Hold)
			q.sendState.number = x.counts.Held
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
			return wcSuccess // dropped
		}
		return q.retry(&q.retries, q.attr.RetryCnt, wcRetryExc)
	case fate.NotReady && reliable && needsReceive(w.op):
		x.counts.NotReady++
		return q.answer(wcRNRRetryExc)
	}
	status := uint32(wcSuccess)
	switch {
	case q.sendState.answered:
	case q.acceptsLength(w, to):
		status = q.connected(w, to)
	default:
		status = to.refuse(wcRemInvReq)
	}
	switch {
	case !reliable && status != wcSuccess:
		return wcSuccess // dropped
	case status != wcSuccess:
		return status
	case fate.NoAnswer && reliable:
		q.sendState.answered = true
		x.counts.AnswersLost++
		return q.lost()
	}
	x.clock++
	return wcSuccess
}

// fits reports whether the MTUs of both ports allow packets of the path's MTU.
func (q *qp) fits(w *request, to *qp) bool {
	n := min(w.length, max(mtuBytes(q.attr.PathMtu), 1))
	return n <= q.path.from.mtu() && n <= to.path.from.mtu()
}

// acceptsLength reports whether the peer accepts the packet lengths of a message. A message of more
// than one packet needs equal path MTUs at both ends (rxe_resp_check_length,
// drivers/infiniband/sw/rxe/rxe_resp.c).
func (q *qp) acceptsLength(w *request, to *qp) bool {
	n, mine, theirs := w.length, mtuBytes(q.attr.PathMtu), mtuBytes(to.attr.PathMtu)
	if n > mine {
		return mine == theirs
	}
	return n <= theirs
}

// connected executes a work request of a connected queue pair at the queue pair to, and returns the
// status.
func (q *qp) connected(w *request, to *qp) uint32 {
	n := uint64(w.length)
	// An operation that the peer's access flags do not allow is an invalid request (check_op_valid,
	// drivers/infiniband/sw/rxe/rxe_resp.c).
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
		q.f.k.net.scratch.bounce.scatter(w.local.list, src)
		return wcSuccess
	}
	return q.atomic(w, to)
}

// arrival returns the receiver's completion of a work request.
func (q *qp) arrival(w *request, opcode, flags uint32) abi.Wc {
	wc := abi.Wc{Opcode: opcode, ByteLen: w.length, WcFlags: flags, SrcQp: q.num}
	if q.path.global {
		wc.WcFlags |= abi.IB_WC_GRH
	}
	if flags != 0 {
		wc.Ex = w.ex
	}
	return wc
}

// deliver sends a message to a receive of the peer and returns the status. The parameter flags is
// that of the receiver's completion.
func (q *qp) deliver(w *request, to *qp, flags uint32) uint32 {
	wc := q.arrival(w, abi.IB_WC_RECV, flags)
	return q.answer(to.receive(&w.local, &wc, w.solicited))
}

// write writes to the peer's memory and returns the status. With immediate data it also consumes a
// receive of the peer.
func (q *qp) write(w *request, to *qp) uint32 {
	n, bounce := uint64(w.length), &q.f.k.net.scratch.bounce
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

// rights returns the access rights that an operation needs at the peer.
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

// atomic executes compare-and-swap or fetch-and-add and returns the status.
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
	bounce := &q.f.k.net.scratch.bounce
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

// answer converts the receiver's status for a message to the sender's status. It counts a try if
// the receiver has no receive.
func (q *qp) answer(status uint32) uint32 {
	if status == wcRNRRetryExc && q.typ == abi.IB_UVERBS_QPT_RC {
		q.retries = 0 // the peer has answered
		q.f.k.notReady++
		return q.retry(&q.rnr, q.attr.RnrRetry, wcRNRRetryExc)
	}
	return status
}

// datagram sends one message of an unreliable datagram queue pair and returns the status.
func (q *qp) datagram(w *request) uint32 {
	a := w.to
	if a == nil || a.from.num != q.attr.PortNum {
		return wcLocQPOp
	}
	if w.length > a.from.mtu() {
		return wcLocLen
	}
	p := &q.f.k.net.scratch.packet
	*p = packet{
		dgid: a.dgid, qpn: w.qpn, qkey: w.qkey, pkey: q.pkey(), solicited: w.solicited,
		wc: abi.Wc{Opcode: abi.IB_WC_RECV, ByteLen: w.length + grhLength, SrcQp: q.num},
	}
	if w.op == abi.IB_UVERBS_WR_SEND_WITH_IMM {
		p.wc.WcFlags = abi.IB_WC_WITH_IMM
		p.wc.Ex = w.ex
	}
	if a.from.InfiniBand {
		p.wc.Slid, p.wc.Sl = a.from.LID, a.sl
		p.wc.DlidPathBits = uint8(a.dlid & (1<<a.from.LMC - 1))
	}
	if a.global {
		p.route(a)
	}
	if p.multicast = a.global && isMulticast(p.dgid); p.multicast {
		q.multicast(w, a, p)
	} else {
		q.deliverDatagram(w, a.destination(), p)
	}
	return wcSuccess
}

// route writes the global route header of a packet that takes the path w: an IPv6 header, or an
// IPv4 header in the second half of the area.
func (p *packet) route(w *path) {
	from, grh := &w.source().ID, &p.grh
	p.global, p.v1 = true, w.source().V1
	if [12]byte(p.dgid[:]) == [12]byte{10: 0xff, 11: 0xff} {
		p.ipv4 = true
		grh[20] = 0x45
		grh[29] = 17
		copy(grh[32:], from[12:])
		copy(grh[36:], p.dgid[12:])
		return
	}
	grh[0] = 0x60
	grh[6], grh[7] = 17, w.hops
	copy(grh[8:], from[:])
	copy(grh[24:], p.dgid[:])
}

// multicast sends a packet to every queue pair of its group.
func (q *qp) multicast(w *request, by *path, p *packet) {
	if !by.from.up() {
		return
	}
	for _, k := range q.f.k.net.kernels {
		for _, to := range k.order {
			if !to.groups[p.dgid] {
				continue
			}
			if end := k.port(uint64(to.attr.PortNum)); end != nil && end.InfiniBand == by.from.InfiniBand {
				p.qpn = to.num
				q.deliverDatagram(w, end, p)
			}
		}
	}
}

// isMulticast reports whether a GID is a multicast address of IPv6, or of IPv4 mapped into IPv6
// (rdma_is_multicast_addr, ib_addr.h).
func isMulticast(gid [16]byte) bool {
	v4 := [12]byte{10: 0xff, 11: 0xff}
	return gid[0] == 0xff || [12]byte(gid[:12]) == v4 && gid[12]&0xf0 == 0xe0
}
