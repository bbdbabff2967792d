//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// execute does one work request and returns its status, or wait.
func (q *qp) execute(w *request) uint32 {
	if w.status != wcSuccess {
		return w.status
	}
	if w.length > maxMsgSize {
		return wcLocLen
	}
	if w.nothing {
		return wcSuccess
	}
	if !q.allows(w.op) || w.inline && (w.op == abi.IB_UVERBS_WR_RDMA_READ || isAtomic(w.op)) {
		return wcLocQPOp
	}
	access := uint32(0)
	switch w.op {
	case abi.IB_UVERBS_WR_BIND_MW:
		return q.bind(&w.bind)
	case abi.IB_UVERBS_WR_LOCAL_INV:
		if !q.invalidate(w.ex) {
			return wcLocQPOp
		}
		return wcSuccess
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		access = abi.IB_UVERBS_ACCESS_LOCAL_WRITE
	}
	if !w.local.fill(q.f.k, q.pd, w.list, w.data[:], access) {
		return wcLocProt
	}
	if q.typ == abi.IB_UVERBS_QPT_UD {
		return q.datagram(w)
	}
	return q.message(w)
}
