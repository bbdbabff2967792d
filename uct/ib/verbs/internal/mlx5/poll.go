//go:build linux

package mlx5

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Poll takes completions out of the queue. A completion that matches no posted request is skipped.
func (c *cq) Poll(wc []provider.WC) int {
	c.lock.lock()
	n, i := 0, c.next
	if len(c.rescued) != 0 {
		n = c.pollRescued(wc)
	}
	for n < len(wc) && c.size != 0 {
		own, ok := c.there(i)
		if !ok {
			break
		}
		fromDevice()
		uverbs.RaceReceived()
		if c.take(c.queue.at(i), own>>4, &wc[n]) {
			n++
		}
		i++
	}
	if i != c.next {
		c.next = i
		c.consumed()
	}
	c.lock.unlock()
	return n
}

// pollRescued polls the completions that drain (drain.go) has saved from destroyed or reset queue
// pairs. They are older than other completions of the same queue pairs.
//
//go:noinline
func (c *cq) pollRescued(wc []provider.WC) int {
	n := copy(wc, c.rescued)
	if c.rescued = c.rescued[n:]; len(c.rescued) == 0 {
		c.rescued = nil
	}
	return n
}

// number returns the number in a completion that identifies its queue pair: user index or QPN.
func (c *cq) number(e *abi.Mlx5Cqe64) uint32 {
	if c.ctx.uidx {
		return e.SrqnUidx.Get() & 0xffffff
	}
	return e.SopDropQpn.Get() & 0xffffff
}

// find returns the queue pair of a completion, nil if no queue pair that uses this completion queue
// has the completion's number.
func (c *cq) find(e *abi.Mlx5Cqe64) *qp {
	number := c.number(e)
	if q := c.last; q != nil && q.number == number {
		return q
	}
	q := c.ctx.qps.find(number)
	if q == nil || q.sendCQ != c && q.recvCQ != c {
		return nil
	}
	c.last = q
	return q
}

// take converts completion e, whose opcode is op, to w. It returns false, and the completion must
// be skipped, if e matches no posted request.
func (c *cq) take(e *abi.Mlx5Cqe64, op uint8, w *provider.WC) bool {
	switch op {
	case abi.MLX5_CQE_REQ:
		return c.sent(e, w)
	case abi.MLX5_CQE_RESP_SEND, abi.MLX5_CQE_RESP_SEND_IMM, abi.MLX5_CQE_RESP_WR_IMM, abi.MLX5_CQE_RESP_SEND_INV:
		return c.received(e, op, w)
	case abi.MLX5_CQE_REQ_ERR, abi.MLX5_CQE_RESP_ERR:
		return c.failed(e, op, w)
	}
	return false
}

// sender returns the posted send entry that a completion completes, nil if there is none.
func (c *cq) sender(e *abi.Mlx5Cqe64) *sent {
	q := c.find(e)
	if q == nil || q.sendCQ != c {
		return nil
	}
	return q.completed(uint32(e.WqeCounter.Get()))
}

// sent converts the completion of a send to w (providers/mlx5/cq.c, handle_good_req).
func (c *cq) sent(e *abi.Mlx5Cqe64, w *provider.WC) bool {
	s := c.sender(e)
	if s == nil {
		return false
	}
	v := e.SopDropQpn.Get()
	*w = provider.WC{ID: s.id, QPN: provider.QPN(v & 0xffffff)}
	switch v >> 24 {
	case abi.MLX5_OPCODE_RDMA_WRITE, abi.MLX5_OPCODE_RDMA_WRITE_IMM:
		w.Opcode = provider.WCRDMAWrite
	case abi.MLX5_OPCODE_RDMA_READ:
		w.Opcode, w.ByteLen = provider.WCRDMARead, e.ByteCnt.Get()
	case abi.MLX5_OPCODE_ATOMIC_CS:
		w.Opcode, w.ByteLen = provider.WCCompSwap, 8
	case abi.MLX5_OPCODE_ATOMIC_FA:
		w.Opcode, w.ByteLen = provider.WCFetchAdd, 8
	case abi.MLX5_OPCODE_UMR:
		w.Opcode = s.op
	}
	return true
}

// receiver returns the id of the receive request that a completion completes; ok is false if there
// is none. Completions of version 0 contain the number of the shared receive queue, if there is
// one.
func (c *cq) receiver(e *abi.Mlx5Cqe64) (id uint64, ok bool) {
	if !c.ctx.uidx {
		if number := e.SrqnUidx.Get() & 0xffffff; number != 0 {
			if s := c.ctx.srqs.find(number); s != nil {
				return s.take(uint32(e.WqeCounter.Get()))
			}
			return 0, false
		}
	}
	q := c.find(e)
	switch {
	case q == nil || q.recvCQ != c:
		return 0, false
	case q.srq != nil:
		return q.srq.take(uint32(e.WqeCounter.Get()))
	}
	return q.rq.completed(uint32(e.WqeCounter.Get()))
}

// received converts the completion of a receive to w (providers/mlx5/cq.c, handle_responder).
func (c *cq) received(e *abi.Mlx5Cqe64, op uint8, w *provider.WC) bool {
	id, ok := c.receiver(e)
	if !ok {
		return false
	}
	from, imm := e.FlagsRqpn.Get(), e.ImmInvalPkey.Get()
	*w = provider.WC{ID: id, Opcode: provider.WCRecv, ByteLen: e.ByteCnt.Get(), QPN: provider.QPN(e.SopDropQpn.Get() & 0xffffff),
		SrcQPN: provider.QPN(from & 0xffffff), SL: uint8(from >> 24 & 0xf), SLID: provider.LID(e.Slid.Get()), DLIDPathBits: e.MlPath & 0x7f}
	if from>>28&3 != 0 {
		w.Flags = provider.WCGRH
	}
	switch op {
	case abi.MLX5_CQE_RESP_WR_IMM:
		w.Opcode = provider.WCRecvRDMAWithImm
		fallthrough
	case abi.MLX5_CQE_RESP_SEND_IMM:
		w.Flags |= provider.WCWithImm
		w.Imm = imm
	case abi.MLX5_CQE_RESP_SEND_INV:
		w.Flags |= provider.WCWithInv
		w.InvalidatedRKey = provider.RKey(imm)
	default:
		w.PKeyIndex = uint16(imm)
	}
	return true
}

// syndromes maps the adapter's error syndromes to statuses (providers/mlx5/cq.c,
// mlx5_handle_error_cqe).
var syndromes = [...]provider.WCStatus{
	abi.MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR:        provider.WCLocLenErr,
	abi.MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR:         provider.WCLocQPOpErr,
	abi.MLX5_CQE_SYNDROME_LOCAL_PROT_ERR:          provider.WCLocProtErr,
	abi.MLX5_CQE_SYNDROME_WR_FLUSH_ERR:            provider.WCWRFlushErr,
	abi.MLX5_CQE_SYNDROME_MW_BIND_ERR:             provider.WCMWBindErr,
	abi.MLX5_CQE_SYNDROME_BAD_RESP_ERR:            provider.WCBadRespErr,
	abi.MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR:        provider.WCLocAccessErr,
	abi.MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR:    provider.WCRemInvReqErr,
	abi.MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR:       provider.WCRemAccessErr,
	abi.MLX5_CQE_SYNDROME_REMOTE_OP_ERR:           provider.WCRemOpErr,
	abi.MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR: provider.WCRetryExcErr,
	abi.MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR:       provider.WCRNRRetryExcErr,
	abi.MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR:      provider.WCRemAbortErr,
}

func status(syndrome uint8) provider.WCStatus {
	if int(syndrome) < len(syndromes) && syndromes[syndrome] != provider.WCSuccess {
		return syndromes[syndrome]
	}
	return provider.WCGeneralErr
}

// failed converts the completion of a failed request to w. Except for the error codes, it has the
// layout of other completions.
//
//go:noinline
func (c *cq) failed(e *abi.Mlx5Cqe64, op uint8, w *provider.WC) bool {
	var id uint64
	if op == abi.MLX5_CQE_RESP_ERR {
		var ok bool
		if id, ok = c.receiver(e); !ok {
			return false
		}
	} else {
		s := c.sender(e)
		if s == nil {
			return false
		}
		id = s.id
	}
	vendor, syndrome := e.Timestamp[errVendor], e.Timestamp[errSyndrome]
	*w = provider.WC{ID: id, QPN: provider.QPN(e.SopDropQpn.Get() & 0xffffff), Status: status(syndrome), VendorErr: uint32(vendor)}
	return true
}

// Offsets of the fields vendor_err_synd and syndrome of struct mlx5_err_cqe in the bytes that are
// the timestamp in other completions.
const errVendor, errSyndrome = 6, 7
