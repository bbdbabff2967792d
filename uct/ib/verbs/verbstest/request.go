//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// A work request is copied before it is checked, because its owner can change it at any time. Each
// network has one buffer for the copy, which is reused.

// scratch has the buffers for the work request that is being executed.
type scratch struct {
	send   request
	recv   receive
	space  pieces // memory of recv
	packet packet
	bounce bounce
}

// Limits of a work request of any driver.
const (
	maxPieces = 64
	maxData   = 1024 // bytes of inline data
)

// request is a work request as copied from the queue, in a form that does not depend on the driver.
type request struct {
	tag       tag
	op        uint32 // enum ib_uverbs_wr_opcode
	nothing   bool   // the request has no effect
	signaled  bool
	solicited bool // the receiver's completion is a solicited event
	inline    bool
	ex        uint32 // immediate data (BE) or the key to invalidate
	length    uint32
	addr      uint64 // address in the peer's memory
	rkey      uint32
	add       uint64 // value to add, or to compare with
	swap      uint64
	bind      binding
	to        *path // destination of a datagram; nil for none
	qpn       uint32
	qkey      uint32
	status    uint32 // the error if the entry is malformed, else wcSuccess
	list      []sge  // the used part of sges
	sges      [maxPieces]sge
	data      [maxData]byte
	local     pieces // memory to which list refers
}

// clear makes w an empty request, whose buffers are kept.
func (w *request) clear() {
	w.tag, w.op, w.nothing, w.signaled, w.solicited, w.inline = tag{}, 0, false, false, false, false
	w.ex, w.length, w.addr, w.rkey, w.add, w.swap, w.bind = 0, 0, 0, 0, 0, 0, binding{}
	w.to, w.qpn, w.qkey, w.status, w.list = nil, 0, 0, wcSuccess, nil
}

// binding describes a bind of a memory window.
type binding struct {
	window uint32 // present key of the window
	key    uint32 // the new key
	typ    uint8  // type of the window
	lkey   uint32 // key of the region
	addr   uint64 // address in the region
	start  uint64 // address that peers use
	length uint64 // 0: a window of type 1 is closed
	access uint32
}

// isAtomic reports whether an operation is an atomic one.
func isAtomic(opcode uint32) bool {
	return opcode == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP || opcode == abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
}

// allows reports whether the type of queue pair supports an operation.
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

// Message is a message between two queue pairs, as a Hook sees it: a datagram, or a complete work
// request of a connected queue pair. A retried request makes a new Message each time.
type Message struct {
	Number   uint64  // counts all messages of the network, from 1
	From, To *Kernel // To is nil if no device has the address
	FromPort int     // number of the sending port
	FromQP   uint32  // number of the sending queue pair
	ToQP     uint32
	Datagram bool
	Opcode   uint32 // operation of the work request; enum ib_uverbs_wr_opcode
	Length   int    // bytes of data
	Head     []byte // the first 128 bytes at most; none for reads and atomics. Valid in the call
	Try      int    // how often the request has been tried before
}

// headLength is the length of Message.Head in bytes.
const headLength = 128

// Fate is the fate of a message. The zero value delivers it.
type Fate struct {
	// Drop drops the message. Corruption has the same effect: the checksum would be wrong.
	Drop bool
	// Copies is the number of additional copies of a datagram that arrive. It has no effect on
	// connected queue pairs, whose packets are numbered.
	Copies int
	// Hold delays the message until that many other messages have come through; calls of Progress
	// that find nothing to do count as messages. UntilReleased waits for Fabric.Release. With
	// Copies, only the copies of a datagram are delayed. The later requests of a connected queue
	// pair wait behind a delayed one.
	Hold int
	// NoAnswer drops the answer to a request of a reliable connection. The request is retried, and
	// executed only once.
	NoAnswer bool
	// NotReady makes a reliable receiver answer that it has no receive for the message (RNR NAK).
	NotReady bool
}

// UntilReleased is the value of Fate.Hold that delays a message until Fabric.Release.
const UntilReleased = -1

// Hook decides the fate of a message. Hooks are called in the order of the messages with the
// network's lock held: a hook must not call the network, and must not keep m.
type Hook func(m *Message) Fate

// Counts are the message counts of a network.
type Counts struct {
	Messages    uint64 // sent, including retries
	Dropped     uint64 // by Fate.Drop
	Copied      uint64 // datagrams, by Fate.Copies
	Held        uint64 // by Fate.Hold
	AnswersLost uint64 // by Fate.NoAnswer
	NotReady    uint64 // by Fate.NotReady
}

// execute executes one work request. It returns the completion status, wait if the request must be
// tried again later, or again if it is to be tried again at once.
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
