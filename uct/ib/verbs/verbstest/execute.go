//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/word"
)

const grhLength = 40

// execute does one work request and returns its status, or wait.
func (q *qp) execute(w *request) uint32 {
	wr := &w.wqe.Wr
	if w.broken || w.wqe.Dma.Length > maxMsgSize {
		return wcLocLen
	}
	if !q.allows(wr.Opcode) || wr.SendFlags&flagInline != 0 && (wr.Opcode == abi.IB_UVERBS_WR_RDMA_READ || isAtomic(wr.Opcode)) {
		return wcLocQPOp
	}
	switch wr.Opcode {
	case abi.IB_UVERBS_WR_BIND_MW:
		return q.bind(view[abi.RxeMwWr](wr))
	case abi.IB_UVERBS_WR_LOCAL_INV:
		if !q.invalidate(wr.Ex) {
			return wcLocQPOp
		}
		return wcSuccess
	}
	access := uint32(0)
	if wr.Opcode == abi.IB_UVERBS_WR_RDMA_READ || isAtomic(wr.Opcode) {
		access = abi.IB_UVERBS_ACCESS_LOCAL_WRITE
	}
	var local [][]byte
	if wr.SendFlags&flagInline != 0 {
		local = [][]byte{w.tail[:w.wqe.Dma.Length]}
	} else {
		var ok bool
		if local, ok = q.pd.local(q.f.k, w.sges, access); !ok {
			return wcLocProt
		}
	}
	if q.typ == abi.IB_UVERBS_QPT_UD {
		return q.datagram(w, local)
	}
	to := q.peer()
	if to == nil {
		if q.typ == abi.IB_UVERBS_QPT_UC {
			return wcSuccess // lost
		}
		return retry(&q.retries, q.attr.RetryCnt, wcRetryExc)
	}
	status := q.connected(w, local, to)
	if q.typ == abi.IB_UVERBS_QPT_UC && status != wcSuccess {
		return wcSuccess // lost
	}
	return status
}

func isAtomic(opcode uint32) bool {
	return opcode == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP || opcode == abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
}

// allows reports whether the type of queue pair has an operation.
func (q *qp) allows(opcode uint32) bool {
	switch opcode {
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM:
		return true
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, abi.IB_UVERBS_WR_BIND_MW:
		return q.typ != abi.IB_UVERBS_QPT_UD
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD,
		abi.IB_UVERBS_WR_SEND_WITH_INV, abi.IB_UVERBS_WR_LOCAL_INV:
		return q.typ == abi.IB_UVERBS_QPT_RC
	}
	return false
}

// peer is the queue pair at the other end, nil while it cannot be reached.
func (q *qp) peer() *qp {
	k := q.f.k
	to := k.qps[q.attr.DestQpNum]
	if !k.active || to == nil || !k.hasGID(q.attr.Dest.Dgid) || to.typ != q.typ || to.attr.DestQpNum != q.num ||
		to.attr.QpState < stateRTR || to.attr.QpState == stateErr {
		return nil
	}
	return to
}

// connected does a work request of a connected queue pair.
func (q *qp) connected(w *request, local [][]byte, to *qp) uint32 {
	wr, n := &w.wqe.Wr, uint64(w.wqe.Dma.Length)
	wc := abi.Wc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(n), WcFlags: abi.IB_WC_GRH, SrcQp: q.num}
	switch wr.Opcode {
	case abi.IB_UVERBS_WR_SEND_WITH_IMM:
		wc.WcFlags |= abi.IB_WC_WITH_IMM
		wc.Ex = wr.Ex
	case abi.IB_UVERBS_WR_SEND_WITH_INV:
		wc.WcFlags |= abi.IB_WC_WITH_INVALIDATE
		wc.Ex = wr.Ex
	}
	solicited := wr.SendFlags&flagSolicited != 0
	// What the queue pair has no right to is not a request it understands
	// (check_op_valid, drivers/infiniband/sw/rxe/rxe_resp.c).
	if need := rights(wr.Opcode); to.attr.QpAccessFlags&need != need {
		return to.refuse(wcRemInvReq)
	}
	switch wr.Opcode {
	case abi.IB_UVERBS_WR_SEND_WITH_INV:
		if to.hasReceive() && !to.invalidate(wr.Ex) {
			return to.refuse(wcRemAccess)
		}
		return q.answer(to.receive(local, nil, wc, solicited))
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM:
		return q.answer(to.receive(local, nil, wc, solicited))
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		rdma := view[abi.RxeRdmaWr](wr)
		var dst []byte
		if n > 0 {
			var ok bool
			if dst, ok = to.remote(rdma.Rkey, rdma.RemoteAddr, n, abi.IB_UVERBS_ACCESS_REMOTE_WRITE); !ok {
				return to.refuse(wcRemAccess)
			}
		}
		if wr.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM {
			wc.Opcode, wc.Ex = abi.IB_WC_RECV_RDMA_WITH_IMM, wr.Ex
			wc.WcFlags |= abi.IB_WC_WITH_IMM
			if status := q.answer(to.receive(nil, func() { gather(dst, local) }, wc, solicited)); status != wcSuccess {
				return status
			}
			return wcSuccess
		}
		gather(dst, local)
		return wcSuccess
	case abi.IB_UVERBS_WR_RDMA_READ:
		rdma := view[abi.RxeRdmaWr](wr)
		if n == 0 {
			return wcSuccess
		}
		src, ok := to.remote(rdma.Rkey, rdma.RemoteAddr, n, abi.IB_UVERBS_ACCESS_REMOTE_READ)
		if !ok {
			return to.refuse(wcRemAccess)
		}
		scatter(local, src)
		return wcSuccess
	}
	return q.atomic(w, local, to)
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
func (q *qp) atomic(w *request, local [][]byte, to *qp) uint32 {
	a := view[abi.RxeAtomicWr](&w.wqe.Wr)
	if w.wqe.Dma.Length != 8 {
		return wcLocLen
	}
	b, ok := to.remote(a.Rkey, a.RemoteAddr, 8, abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC)
	if !ok {
		return to.refuse(wcRemAccess)
	}
	if a.RemoteAddr%8 != 0 {
		return to.refuse(wcRemInvReq)
	}
	var old uint64
	if w.wqe.Wr.Opcode == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP {
		old = word.CompareSwap64(b, a.CompareAdd, a.Swap)
	} else {
		old = word.Add64(b, a.CompareAdd)
	}
	var result [8]byte
	putU64(result[:], old)
	scatter(local, result[:])
	return wcSuccess
}

// refuse is the answer to access that is not allowed: the queue pair fails.
func (q *qp) refuse(status uint32) uint32 {
	if q.typ == abi.IB_UVERBS_QPT_RC {
		q.f.event(eventQPAccessErr, q.user)
		q.fail()
	}
	return status
}

// bind opens a memory window.
func (q *qp) bind(b abi.RxeMwWr) uint32 {
	k := q.f.k
	w, m := k.mws[b.MwRkey>>8], k.mrs[b.MrLkey>>8]
	if w == nil || m == nil || w.rkey != b.MwRkey || m.lkey != b.MrLkey || w.pd != q.pd || m.pd != q.pd || w.mr != nil ||
		b.Length == 0 || b.Rkey&0xff == w.rkey&0xff || m.access&abi.IB_UVERBS_ACCESS_MW_BIND == 0 ||
		b.Access&^m.access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE != 0 {
		return wcMWBind
	}
	if _, ok := m.at(b.Addr, b.Length); !ok {
		return wcMWBind
	}
	w.rkey = w.rkey&^0xff | b.Rkey&0xff
	w.mr, w.qp, w.addr, w.length, w.access = m, q, b.Addr, b.Length, b.Access
	return wcSuccess
}

// invalidate closes a memory window.
func (q *qp) invalidate(key uint32) bool {
	w := q.f.k.mws[key>>8]
	if w == nil || w.rkey != key || w.qp != q {
		return false
	}
	w.mr, w.qp = nil, nil
	return true
}

// hasReceive reports whether a message can be received.
func (q *qp) hasReceive() bool {
	if q.srq != nil {
		return q.srq.ring.waiting() > 0
	}
	return q.rq.waiting() > 0
}

// answer turns what the receiver made of a message into what the sender does.
func (q *qp) answer(status uint32) uint32 {
	if status == wcRNRRetryExc && q.typ == abi.IB_UVERBS_QPT_RC {
		return retry(&q.rnr, q.attr.RnrRetry, wcRNRRetryExc)
	}
	return status
}

// receive takes a receive request, scatters a message into it and completes it.
// before is called when the receive is there.
func (q *qp) receive(data [][]byte, before func(), wc abi.Wc, solicited bool) uint32 {
	r, most := q.rq, q.cap.MaxRecvSge
	if q.srq != nil {
		r, most = q.srq.ring, q.srq.maxSGE
	}
	if r.waiting() == 0 {
		return wcRNRRetryExc
	}
	b := r.at(r.index)
	wqe := load[abi.RxeRecvWqe](b)
	list, broken := sges(&wqe.Dma, append([]byte(nil), b[recvWQESize:]...), most)
	wc.WrId, wc.QpNum, wc.PortNum = wqe.WrId, q.num, 1
	space, ok := q.pd.local(q.f.k, list, abi.IB_UVERBS_ACCESS_LOCAL_WRITE)
	n := 0
	for _, p := range data {
		n += len(p)
	}
	r.consume()
	if q.srq != nil && q.srq.limit > 0 && r.waiting() < q.srq.limit {
		q.srq.limit = 0
		q.f.event(eventSRQLimit, q.srq.user)
	}
	switch {
	case broken || n > int(wqe.Dma.Length):
		wc.Status = wcLocLen
	case !ok:
		wc.Status = wcLocProt
	}
	if wc.Status != wcSuccess {
		q.recv.complete(abi.Wc{WrId: wc.WrId, Status: wc.Status, QpNum: q.num}, true)
		if q.typ != abi.IB_UVERBS_QPT_UD {
			q.fail()
		}
		return wcRemInvReq
	}
	if before != nil {
		before()
	}
	message := make([]byte, n)
	gather(message, data)
	scatter(space, message)
	q.recv.complete(wc, solicited)
	return wcSuccess
}

// datagram sends one message of an unreliable datagram queue pair.
func (q *qp) datagram(w *request, local [][]byte) uint32 {
	k, wr := q.f.k, &w.wqe.Wr
	ud := view[abi.RxeUdWr](wr)
	a := k.ahs[ud.AhNum]
	if a == nil || a.pd != q.pd {
		return wcLocQPOp
	}
	if w.wqe.Dma.Length > mtuBytes {
		return wcLocLen
	}
	var grh [grhLength]byte
	from := k.gids[a.attr.Grh.SgidIndex%gidTable]
	if a.attr.Grh.Dgid[10] == 0xff && a.attr.Grh.Dgid[11] == 0xff && a.attr.Grh.Dgid[0] == 0 {
		grh[20] = 0x45 // an IPv4 header in the second half
		grh[29] = 17
		copy(grh[32:], from[12:])
		copy(grh[36:], a.attr.Grh.Dgid[12:])
	} else {
		grh[0] = 0x60
		grh[6], grh[7] = 17, a.attr.Grh.HopLimit
		copy(grh[8:], from[:])
		copy(grh[24:], a.attr.Grh.Dgid[:])
	}
	wc := abi.Wc{Opcode: abi.IB_WC_RECV, ByteLen: w.wqe.Dma.Length + grhLength, WcFlags: abi.IB_WC_GRH, SrcQp: q.num}
	if wr.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM {
		wc.WcFlags |= abi.IB_WC_WITH_IMM
		wc.Ex = wr.Ex
	}
	for _, to := range q.hearers(a.attr.Grh.Dgid, ud) {
		to.receive(append([][]byte{grh[:]}, local...), nil, wc, wr.SendFlags&flagSolicited != 0)
	}
	return wcSuccess
}

// hearers are the queue pairs that get a datagram; none and it is lost.
func (q *qp) hearers(dgid [16]byte, ud abi.RxeUdWr) (to []*qp) {
	k := q.f.k
	group := isMulticast(dgid)
	if !k.active || !group && !k.hasGID(dgid) {
		return nil
	}
	for num, o := range k.qps {
		ready := o.typ == q.typ && o.attr.QpState >= stateRTR && o.attr.QpState != stateErr && o.attr.Qkey == ud.RemoteQkey
		if ready && (group && o.groups[dgid] || !group && num == ud.RemoteQpn) {
			to = append(to, o)
		}
	}
	return to
}

// isMulticast reports whether a GID is that of a group: of IPv6, or of IPv4 mapped
// into it (rdma_is_multicast_addr, ib_addr.h).
func isMulticast(gid [16]byte) bool {
	v4 := [12]byte{10: 0xff, 11: 0xff}
	return gid[0] == 0xff || [12]byte(gid[:12]) == v4 && gid[12]&0xf0 == 0xe0
}

// gather copies pieces into dst.
func gather(dst []byte, pieces [][]byte) {
	for _, p := range pieces {
		dst = dst[copy(dst, p):]
	}
}

// scatter copies src into pieces.
func scatter(pieces [][]byte, src []byte) {
	for _, p := range pieces {
		src = src[copy(p, src):]
	}
}
