//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// A work request is copied before it is looked at, since its owner can change it
// meanwhile. There is one place for that in a network, used again and again.

// desk is where the work request lies that is being done.
type desk struct {
	send   request
	recv   receive
	space  pieces // that recv names
	packet packet
	bounce bounce
}

// The most of a work request, of any driver.
const (
	maxPieces = 64
	maxData   = 1024 // inline
)

// request is a work request as copied from the queue, in a form that is nobody's.
type request struct {
	tag       tag
	op        uint32 // enum ib_uverbs_wr_opcode
	nothing   bool   // it does nothing at all
	signaled  bool
	solicited bool // the receiver wants to be told
	inline    bool
	ex        uint32 // immediate data (BE) or the key to invalidate
	length    uint32
	addr      uint64 // of the peer's memory
	rkey      uint32
	add       uint64 // or what to compare with
	swap      uint64
	bind      binding
	to        *way // of datagrams; nil for none
	qpn       uint32
	qkey      uint32
	status    uint32 // other than wcSuccess: what is wrong with it as such
	list      []sge  // of sges
	sges      [maxPieces]sge
	data      [maxData]byte
	local     pieces // what it names, at this end
}

// clear makes it one of nothing.
func (w *request) clear() {
	w.tag, w.op, w.nothing, w.signaled, w.solicited, w.inline = tag{}, 0, false, false, false, false
	w.ex, w.length, w.addr, w.rkey, w.add, w.swap, w.bind = 0, 0, 0, 0, 0, 0, binding{}
	w.to, w.qpn, w.qkey, w.status, w.list = nil, 0, 0, wcSuccess, nil
}

// binding is what opens a memory window.
type binding struct {
	window uint32 // the key that it has
	key    uint32 // and that it gets
	typ    uint8  // of the window
	lkey   uint32 // of the region
	addr   uint64 // there
	start  uint64 // for peers
	length uint64 // 0: a window of type 1 is closed
	access uint32
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
