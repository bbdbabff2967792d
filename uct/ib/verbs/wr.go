//go:build linux

package verbs

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// WROpcode is the operation of a work request.
type WROpcode = provider.WROpcode

// Operations; enum ib_uverbs_wr_opcode.
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

// Flags; enum ib_send_flags, ib_verbs.h.
const (
	SendFence     = provider.SendFence     // wait for the preceding reads and atomics
	SendSignaled  = provider.SendSignaled  // complete even in case of success
	SendSolicited = provider.SendSolicited // wake a receiver that waits for solicited completions
	SendInline    = provider.SendInline    // the data is SendWR.Inline
)

// SGE is a piece of registered memory: its Addr, Length and LKey; struct ibv_sge. See
// MR.SGE.
type SGE = provider.SGE

// SendWR is a work request for the send queue; struct ibv_send_wr. Fields that its
// operation does not have are ignored.
type SendWR struct {
	ID     uint64
	Opcode WROpcode
	Flags  SendFlags
	SGList []SGE    // what is sent, or the destination of what is read
	Inline [][]byte // with SendInline: what is sent instead of SGList; may be reused at once

	Imm           uint32 // WITH_IMM, in the machine's byte order; it arrives unchanged
	InvalidateKey RKey   // SEND_WITH_INV: of a window of the peer; LOCAL_INV: of a local one

	RemoteAddr uint64 // RDMA and atomics
	RKey       RKey
	CompareAdd uint64 // atomics: what to compare with, or to add
	Swap       uint64

	Bind *MWBind // BIND_MW

	AH         *AH // UD
	RemoteQPN  QPN
	RemoteQKey QKey
}

// RecvWR is a work request for a receive queue: its ID, and SGList, the destination of what
// is received; struct ibv_recv_wr.
type RecvWR = provider.RecvWR
