package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// WROpcode is what a work request asks for.
type WROpcode uint32

// Operations; enum ib_uverbs_wr_opcode.
const (
	WRRDMAWrite         WROpcode = 0
	WRRDMAWriteWithImm  WROpcode = 1
	WRSend              WROpcode = 2
	WRSendWithImm       WROpcode = 3
	WRRDMARead          WROpcode = 4
	WRAtomicCmpAndSwp   WROpcode = 5
	WRAtomicFetchAndAdd WROpcode = 6
	WRLocalInv          WROpcode = 7
	WRBindMW            WROpcode = 8
	WRSendWithInv       WROpcode = 9
)

// String returns the name of the operation.
func (o WROpcode) String() string {
	return name(int(o), "RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ", "ATOMIC_CMP_AND_SWP",
		"ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV")
}

// SendFlags modify a work request.
type SendFlags uint32

// Flags; enum ib_send_flags, ib_verbs.h.
const (
	SendFence     SendFlags = 1 << 0 // wait for the reads and atomics before it
	SendSignaled  SendFlags = 1 << 1 // complete, also in case of success
	SendSolicited SendFlags = 1 << 2 // wake who waits for solicited completions
	SendInline    SendFlags = 1 << 3 // the data is SendWR.Inline

	sendFlags = SendFence | SendSignaled | SendSolicited | SendInline
)

// SGE is a piece of registered memory; struct ibv_sge. See MR.SGE.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   LKey
}

// SendWR is a work request for the send queue; struct ibv_send_wr. The fields that
// its operation does not have are not looked at.
type SendWR struct {
	ID     uint64
	Opcode WROpcode
	Flags  SendFlags
	SGList []SGE    // what is sent, or where what is read goes
	Inline [][]byte // with SendInline: what is sent instead of SGList; it may be used again at once

	Imm           uint32 // WITH_IMM, in the machine's order; it arrives as it is
	InvalidateKey RKey   // SEND_WITH_INV: of a window of the peer; LOCAL_INV: of one here

	RemoteAddr uint64 // RDMA and atomics
	RKey       RKey
	CompareAdd uint64 // atomics: what to compare with, or to add
	Swap       uint64

	Bind *MWBind // BIND_MW

	AH         *AH // UD
	RemoteQPN  QPN
	RemoteQKey QKey
}

// RecvWR is a work request for a receive queue; struct ibv_recv_wr.
type RecvWR struct {
	ID     uint64
	SGList []SGE
}

// What is wrong with a call. They are made once: posting does not allocate.
var (
	errQueueFull  = fmt.Errorf("verbs: the queue is full: %w", ucs.ErrNoResource)
	errManySGE    = fmt.Errorf("verbs: more pieces than the queue takes: %w", ucs.ErrInvalidParam)
	errInlineLong = fmt.Errorf("verbs: more inline data than the queue takes: %w", ucs.ErrExceedsLimit)
	errInlineWhat = fmt.Errorf("verbs: inline data with an operation that fetches: %w", ucs.ErrInvalidParam)
	errTooLong    = fmt.Errorf("verbs: more than 2 GiB: %w", ucs.ErrInvalidParam)
	errAtomic     = fmt.Errorf("verbs: an atomic operation has 8 bytes, naturally aligned: %w", ucs.ErrInvalidParam)
	errOpcode     = fmt.Errorf("verbs: not an operation of this type of queue pair: %w", ucs.ErrUnsupported)
	errFlags      = fmt.Errorf("verbs: unknown flags: %w", ucs.ErrInvalidParam)
	errNoAH       = fmt.Errorf("verbs: a datagram needs an address of the queue pair's domain: %w", ucs.ErrInvalidParam)
	errNoMW       = fmt.Errorf("verbs: a bind needs a window and a region of the queue pair's domain, and a range of the region: %w", ucs.ErrInvalidParam)
	errState      = fmt.Errorf("verbs: the state of the queue pair does not allow it: %w", ucs.ErrInvalidParam)
	errClosed     = fmt.Errorf("verbs: closed already: %w", ucs.ErrInvalidParam)
	errNoRQ       = fmt.Errorf("verbs: no receive queue: it is shared, or closed: %w", ucs.ErrInvalidParam)
)
