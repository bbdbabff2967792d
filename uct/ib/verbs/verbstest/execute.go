//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// execute does one work request and returns its status, or wait.
func (q *qp) execute(w *request) uint32 {
	wr := &w.wqe.Wr
	if w.broken || w.wqe.Dma.Length > maxMsgSize {
		return wcLocLen
	}
	if !q.allows(wr.Opcode) || wr.SendFlags&flagInline != 0 && (wr.Opcode == abi.IB_UVERBS_WR_RDMA_READ || isAtomic(wr.Opcode)) {
		return wcLocQPOp
	}
	access := uint32(0)
	switch wr.Opcode {
	case abi.IB_UVERBS_WR_BIND_MW:
		return q.bind(view[abi.RxeMwWr](wr))
	case abi.IB_UVERBS_WR_LOCAL_INV:
		if !q.invalidate(wr.Ex) {
			return wcLocQPOp
		}
		return wcSuccess
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		access = abi.IB_UVERBS_ACCESS_LOCAL_WRITE
	}
	if wr.SendFlags&flagInline != 0 {
		w.local.clear()
		w.local.add(w.inline[:w.wqe.Dma.Length])
	} else if !w.local.fill(q.f.k, q.pd, w.list, access) {
		return wcLocProt
	}
	if q.typ == abi.IB_UVERBS_QPT_UD {
		return q.datagram(w)
	}
	return q.message(w)
}
