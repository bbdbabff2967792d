//go:build linux

package verbs

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// WROpcode is what a work request asks for.
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
	SendFence     = provider.SendFence     // wait for the reads and atomics before it
	SendSignaled  = provider.SendSignaled  // complete, also in case of success
	SendSolicited = provider.SendSolicited // wake who waits for solicited completions
	SendInline    = provider.SendInline    // the data is SendWR.Inline
)

// SGE is a piece of registered memory: its Addr, Length and LKey; struct ibv_sge. See
// MR.SGE.
type SGE = provider.SGE

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

// RecvWR is a work request for a receive queue: its ID, and SGList, where what is
// received goes; struct ibv_recv_wr.
type RecvWR = provider.RecvWR
