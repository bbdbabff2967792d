//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// A work request is copied before it is looked at, since its owner can change it
// meanwhile. There is one place for that in a network, used again and again.

// desk is where the work request lies that is being done.
type desk struct {
	send   request
	recv   abi.RxeRecvWqe
	space  pieces // that recv names
	packet packet
}

// request is a work request as copied from the queue.
type request struct {
	wqe    abi.RxeSendWqe
	inline [maxInline]byte
	sges   [maxSGE]abi.RxeSge
	list   []abi.RxeSge // of sges
	broken bool
	local  pieces // what it names, at this end
}

// Sizes of the fixed parts of work requests, and of a piece of memory behind one.
const (
	sendWQESize = 208
	recvWQESize = 40
	sgeSize     = 16
)

// request copies the next work request.
func (q *qp) request() *request {
	b := q.sq.at(q.sq.index)
	w := &q.f.k.net.desk.send
	fetch(&w.wqe, b)
	b = b[sendWQESize:]
	w.list, w.broken = nil, false
	d := &w.wqe.Dma
	if w.wqe.Wr.SendFlags&flagInline != 0 {
		if w.broken = d.Length > q.cap.MaxInlineData || int(d.Length) > len(b); !w.broken {
			copy(w.inline[:d.Length], b)
		}
		return w
	}
	w.list, w.broken = gatherList(w.sges[:], d, b, q.cap.MaxSendSge)
	return w
}

// gatherList reads a gather list into room.
func gatherList(room []abi.RxeSge, d *abi.RxeDmaInfo, b []byte, most uint32) (list []abi.RxeSge, broken bool) {
	n := int(d.NumSge)
	if d.NumSge > most || n > len(room) || n*sgeSize > len(b) {
		return nil, true
	}
	total := uint64(0)
	for i := range n {
		fetch(&room[i], b[i*sgeSize:])
		total += uint64(room[i].Length)
	}
	return room[:n], total != uint64(d.Length) || d.Resid != d.Length || d.CurSge != 0 || d.SgeOffset != 0
}

// isAtomic reports whether an operation is one.
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
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_SEND_WITH_INV, abi.IB_UVERBS_WR_LOCAL_INV:
		return q.typ == abi.IB_UVERBS_QPT_RC
	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		return q.typ == abi.IB_UVERBS_QPT_RC && !q.f.k.cfg.Limits.NoAtomics
	}
	return false
}
