//go:build linux

package verbs

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// WROpcode is the operation of a work request.
type WROpcode = provider.WROpcode

// Operations of work requests; enum ib_uverbs_wr_opcode.
const (
	WRRDMAWrite         = provider.WRRDMAWrite
	WRRDMAWriteWithImm  = provider.WRRDMAWriteWithImm
	WRSend              = provider.WRSend
	WRSendWithImm       = provider.WRSendWithImm
	WRRDMARead          = provider.WRRDMARead
	WRAtomicCmpAndSwp   = provider.WRAtomicCmpAndSwp
	WRAtomicFetchAndAdd = provider.WRAtomicFetchAndAdd
	WRLocalInv          = provider.WRLocalInv
	WRBindMW            = provider.WRBindMW
	WRSendWithInv       = provider.WRSendWithInv
)

// SendFlags modify a work request.
type SendFlags = provider.SendFlags

// Flags of work requests; enum ib_send_flags, ib_verbs.h.
const (
	SendFence     = provider.SendFence     // start after the preceding reads and atomics are done
	SendSignaled  = provider.SendSignaled  // generate a completion even in case of success
	SendSolicited = provider.SendSolicited // wake a receiver that waits for solicited completions
	SendInline    = provider.SendInline    // the data is in SendWR.Inline
)

// SGE is a scatter/gather element, a piece of registered memory: its Addr, Length and LKey; struct
// ibv_sge. See MR.SGE.
type SGE = provider.SGE

// SendWR is a work request for the send queue; struct ibv_send_wr. Fields that its
// operation does not have are ignored.
type SendWR struct {
	ID     uint64
	Opcode WROpcode
	Flags  SendFlags
	SGList []SGE    // the data to send, or the destination of a read
	Inline [][]byte // with SendInline: the data to send instead of SGList

	Imm           uint32 // for WITH_IMM, in the machine's byte order; arrives unchanged
	InvalidateKey RKey   // for WRSendWithInv: key of a peer's window; for WRLocalInv: a local one's

	RemoteAddr uint64 // for RDMA and atomics: address in the peer's memory
	RKey       RKey
	CompareAdd uint64 // for atomics: the value to compare with, or to add
	Swap       uint64

	Bind *MWBind // for WRBindMW

	AH         *AH // for UD: the destination
	RemoteQPN  QPN
	RemoteQKey QKey
}

// RecvWR is a work request for a receive queue: its ID, and SGList, the destination of the received
// data; struct ibv_recv_wr.
type RecvWR = provider.RecvWR
