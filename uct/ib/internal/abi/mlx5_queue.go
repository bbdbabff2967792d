//go:build linux

package abi

import "structs"

// The contents of mlx5's queues, doorbell records and doorbell pages: the structs of rdma-core's
// providers/mlx5/mlx5dv.h. An entry of a send queue is a control segment and the segments that its
// operation needs, in multiples of 16 bytes.

// Operation codes of entries of send queues.
const (
	MLX5_OPCODE_NOP            = 0x00
	MLX5_OPCODE_SEND_INVAL     = 0x01
	MLX5_OPCODE_RDMA_WRITE     = 0x08
	MLX5_OPCODE_RDMA_WRITE_IMM = 0x09
	MLX5_OPCODE_SEND           = 0x0a
	MLX5_OPCODE_SEND_IMM       = 0x0b
	MLX5_OPCODE_RDMA_READ      = 0x10
	MLX5_OPCODE_ATOMIC_CS      = 0x11
	MLX5_OPCODE_ATOMIC_FA      = 0x12
	MLX5_OPCODE_UMR            = 0x25
)

// Bits and sizes of entries of send and receive queues.
const (
	MLX5_SEND_WQE_BB    = 64 // bytes of a block of a send queue
	MLX5_SEND_WQE_SHIFT = 6

	MLX5_WQE_CTRL_SOLICITED             = 1 << 1
	MLX5_WQE_CTRL_CQ_UPDATE             = 2 << 2 // a completion also on success
	MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE = 1 << 5
	MLX5_WQE_CTRL_FENCE                 = 4 << 5

	MLX5_INLINE_SEG     = 0x80000000 // flag in the length of inline data
	MLX5_EXTENDED_UD_AV = 0x80000000 // flag in the number of a remote queue pair
	MLX5_INVALID_LKEY   = 0x100      // lkey of the segment that ends the list of a receive

	MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN         = 1 << 3
	MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET = 1 << 4
	MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE        = 1 << 5
	MLX5_WQE_UMR_CTRL_FLAG_INLINE            = 1 << 7

	MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN                 = 1 << 0
	MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR          = 1 << 6
	MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY                = 1 << 13
	MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN                 = 1 << 14
	MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE  = 1 << 18
	MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ  = 1 << 19
	MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE = 1 << 20
	MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC       = 1 << 21
	MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE                = 1 << 29

	MLX5_WQE_MKEY_CONTEXT_FREE                      = 1 << 6
	MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_READ   = 1 << 2
	MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE  = 1 << 3
	MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ  = 1 << 4
	MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE = 1 << 5
	MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC       = 1 << 6
)

// Operation codes of completion queue entries, in bits 4 to 7 of their last byte; bit 0 is the
// owner.
const (
	MLX5_CQE_OWNER_MASK    = 1
	MLX5_CQE_REQ           = 0
	MLX5_CQE_RESP_WR_IMM   = 1
	MLX5_CQE_RESP_SEND     = 2
	MLX5_CQE_RESP_SEND_IMM = 3
	MLX5_CQE_RESP_SEND_INV = 4
	MLX5_CQE_RESIZE_CQ     = 5
	MLX5_CQE_REQ_ERR       = 13
	MLX5_CQE_RESP_ERR      = 14
	MLX5_CQE_INVALID       = 15
)

// Syndromes of failed operations (Mlx5ErrCqe.Syndrome).
const (
	MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR        = 0x01
	MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR         = 0x02
	MLX5_CQE_SYNDROME_LOCAL_PROT_ERR          = 0x04
	MLX5_CQE_SYNDROME_WR_FLUSH_ERR            = 0x05
	MLX5_CQE_SYNDROME_MW_BIND_ERR             = 0x06
	MLX5_CQE_SYNDROME_BAD_RESP_ERR            = 0x10
	MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR        = 0x11
	MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR    = 0x12
	MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR       = 0x13
	MLX5_CQE_SYNDROME_REMOTE_OP_ERR           = 0x14
	MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR = 0x15
	MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR       = 0x16
	MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR      = 0x22
)

// Offsets and sizes in doorbell records and doorbell pages.
const (
	MLX5_RCV_DBR = 0 // words of the record of a queue pair
	MLX5_SND_DBR = 1

	MLX5_CQ_SET_CI = 0 // words of the record of a completion queue; mlx5.h
	MLX5_CQ_ARM_DB = 1

	MLX5_CQ_DOORBELL       = 0x20 // in a UAR
	MLX5_CQ_DB_REQ_NOT_SOL = 1 << 24
	MLX5_BF_OFFSET         = 0x800 // offset of the first register in a UAR; mlx5.h
	MLX5_ADAPTER_PAGE_SIZE = 4096  // size of a UAR; mlx5.h
)

// Mlx5WqeCtrlSeg is struct mlx5_wqe_ctrl_seg.
type Mlx5WqeCtrlSeg struct {
	_                  structs.HostLayout
	OpmodIdxOpcode     BE32
	QpnDs              BE32
	Signature          uint8
	DciStreamChannelId BE16
	FmCeSe             uint8
	Imm                BE32
}

// Mlx5WqeAv is struct mlx5_wqe_av, which is the datagram segment.
type Mlx5WqeAv struct {
	_          structs.HostLayout
	Qkey       BE32
	Reserved   BE32
	DqpDct     BE32
	StatRateSl uint8
	FlMlid     uint8
	Rlid       BE16
	Reserved0  [4]uint8
	Rmac       [6]uint8
	Tclass     uint8
	HopLimit   uint8
	GrhGidFl   BE32
	Rgid       [16]uint8
}

// Mlx5WqeRaddrSeg is struct mlx5_wqe_raddr_seg.
type Mlx5WqeRaddrSeg struct {
	_        structs.HostLayout
	Raddr    BE64
	Rkey     BE32
	Reserved BE32
}

// Mlx5WqeAtomicSeg is struct mlx5_wqe_atomic_seg.
type Mlx5WqeAtomicSeg struct {
	_       structs.HostLayout
	SwapAdd BE64
	Compare BE64
}

// Mlx5WqeDataSeg is struct mlx5_wqe_data_seg.
type Mlx5WqeDataSeg struct {
	_         structs.HostLayout
	ByteCount BE32
	Lkey      BE32
	Addr      BE64
}

// Mlx5WqeInlDataSeg is struct mlx5_wqe_inl_data_seg. The data follows.
type Mlx5WqeInlDataSeg struct {
	_         structs.HostLayout
	ByteCount BE32
}

// Mlx5WqeSrqNextSeg is struct mlx5_wqe_srq_next_seg, which entries of shared receive
// queues begin with.
type Mlx5WqeSrqNextSeg struct {
	_            structs.HostLayout
	Rsvd0        [2]uint8
	NextWqeIndex BE16
	Signature    uint8
	Rsvd1        [11]uint8
}

// Mlx5WqeUmrCtrlSeg is struct mlx5_wqe_umr_ctrl_seg.
type Mlx5WqeUmrCtrlSeg struct {
	_                 structs.HostLayout
	Flags             uint8
	Rsvd0             [3]uint8
	KlmOctowords      BE16
	TranslationOffset BE16
	MkeyMask          BE64
	Rsvd1             [32]uint8
}

// Mlx5WqeMkeyContextSeg is struct mlx5_wqe_mkey_context_seg.
type Mlx5WqeMkeyContextSeg struct {
	_                       structs.HostLayout
	Free                    uint8
	Reserved1               uint8
	AccessFlags             uint8
	Sf                      uint8
	QpnMkey                 BE32
	Reserved2               BE32
	FlagsPd                 BE32
	StartAddr               BE64
	Len                     BE64
	BsfOctwordSize          BE32
	Reserved3               [4]BE32
	TranslationsOctwordSize BE32
	Reserved4               [3]uint8
	LogPageSize             uint8
	Reserved                BE32
}

// Mlx5WqeUmrKlmSeg is struct mlx5_wqe_umr_klm_seg.
type Mlx5WqeUmrKlmSeg struct {
	_         structs.HostLayout
	ByteCount BE32
	Mkey      BE32
	Address   BE64
}

// Mlx5Cqe64 is struct mlx5_cqe64.
type Mlx5Cqe64 struct {
	_            structs.HostLayout
	Rsvd0        [2]uint8
	WqeId        BE16
	Rsvd4        [13]uint8
	MlPath       uint8
	Rsvd20       [4]uint8
	Slid         BE16
	FlagsRqpn    BE32
	HdsIpExt     uint8
	L4HdrTypeEtc uint8
	VlanInfo     BE16
	SrqnUidx     BE32
	ImmInvalPkey BE32
	App          uint8
	AppOp        uint8
	AppInfo      BE16
	ByteCnt      BE32
	Timestamp    BE64
	SopDropQpn   BE32
	WqeCounter   BE16
	Signature    uint8
	OpOwn        uint8
}

// Mlx5ErrCqe is struct mlx5_err_cqe, the form of Mlx5Cqe64 for an operation that has failed.
type Mlx5ErrCqe struct {
	_             structs.HostLayout
	Rsvd0         [32]uint8
	Srqn          BE32
	Rsvd1         [18]uint8
	VendorErrSynd uint8
	Syndrome      uint8
	SWqeOpcodeQpn BE32
	WqeCounter    BE16
	Signature     uint8
	OpOwn         uint8
}
