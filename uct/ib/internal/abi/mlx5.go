//go:build linux

package abi

import "structs"

// Versions and flags of mlx5's calls; rdma/mlx5-abi.h.
const (
	MLX5_IB_UVERBS_ABI_VERSION = 1

	MLX5_LIB_CAP_4K_UAR  = 1 << 0
	MLX5_LIB_CAP_DYN_UAR = 1 << 1

	MLX5_IB_ALLOC_UCTX_DEVX = 1 << 0

	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET = 1 << 0
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY    = 1 << 1
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE               = 1 << 2
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS           = 1 << 3
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS      = 1 << 4
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG   = 1 << 5

	MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE = 1 << 0
	MLX5_USER_CMDS_SUPP_UHW_CREATE_AH    = 1 << 1

	MLX5_QP_FLAG_SIGNATURE                = 1 << 0
	MLX5_QP_FLAG_SCATTER_CQE              = 1 << 1
	MLX5_QP_FLAG_TUNNEL_OFFLOADS          = 1 << 2
	MLX5_QP_FLAG_BFREG_INDEX              = 1 << 3
	MLX5_QP_FLAG_TYPE_DCT                 = 1 << 4
	MLX5_QP_FLAG_TYPE_DCI                 = 1 << 5
	MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC     = 1 << 6
	MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC     = 1 << 7
	MLX5_QP_FLAG_ALLOW_SCATTER_CQE        = 1 << 8
	MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE = 1 << 9
	MLX5_QP_FLAG_UAR_PAGE_INDEX           = 1 << 10
	MLX5_QP_FLAG_DCI_STREAM               = 1 << 11

	MLX5_SRQ_FLAG_SIGNATURE = 1 << 0

	MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD   = 1 << 0
	MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX = 1 << 1
	MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS   = 1 << 2
)

// Kinds of mmap(2) mappings, in bits 8 to 15 of the page offset; enum mlx5_ib_mmap_cmd,
// rdma/mlx5-abi.h. The index is in bits 0 to 7 and from 16 on.
const (
	MLX5_IB_MMAP_REGULAR_PAGE = 0
	MLX5_IB_MMAP_WC_PAGE      = 2
	MLX5_IB_MMAP_NC_PAGE      = 3
	MLX5_IB_MMAP_CORE_CLOCK   = 5
	MLX5_IB_MMAP_ALLOC_WC     = 6
	MLX5_IB_MMAP_CLOCK_INFO   = 7
	MLX5_IB_MMAP_DEVICE_MEM   = 8
)

// Doorbell pages (UARs) as kernel objects; mlx5_user_ioctl_cmds.h, mlx5_user_ioctl_verbs.h. No
// other driver-specific numbers are used here.
const (
	MLX5_IB_OBJECT_UAR = driverSpace + 8

	MLX5_IB_METHOD_UAR_OBJ_ALLOC   = driverSpace
	MLX5_IB_METHOD_UAR_OBJ_DESTROY = driverSpace + 1

	MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE      = driverSpace
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE        = driverSpace + 1
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET = driverSpace + 2
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH = driverSpace + 3
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID     = driverSpace + 4

	MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE = driverSpace

	MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF = 0
	MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC = 1
)

// Mlx5AllocUcontextReqV2 is struct mlx5_ib_alloc_ucontext_req_v2, rdma/mlx5-abi.h.
type Mlx5AllocUcontextReqV2 struct {
	_                   structs.HostLayout
	TotalNumBfregs      uint32
	NumLowLatencyBfregs uint32
	Flags               uint32
	CompMask            uint32
	MaxCqeVersion       uint8
	Reserved0           uint8
	Reserved1           uint16
	Reserved2           uint32
	LibCaps             uint64
}

// Mlx5AllocUcontextResp is struct mlx5_ib_alloc_ucontext_resp, rdma/mlx5-abi.h.
type Mlx5AllocUcontextResp struct {
	_                  structs.HostLayout
	QpTabSize          uint32
	BfRegSize          uint32 // 0: no write combining
	TotBfregs          uint32 // 0: doorbell pages are objects
	CacheLineSize      uint32
	MaxSqDescSz        uint16
	MaxRqDescSz        uint16
	MaxSendWqebb       uint32
	MaxRecvWr          uint32
	MaxSrqRecvWr       uint32
	NumPorts           uint16
	FlowActionFlags    uint16
	CompMask           uint32
	ResponseLength     uint32
	CqeVersion         uint8
	CmdsSuppUhw        uint8
	EthMinInline       uint8
	ClockInfoVersions  uint8
	HcaCoreClockOffset uint64
	LogUarSize         uint32 // this and the next field are 0 on old kernels: one UAR for each page
	NumUarsPerPage     uint32
	NumDynBfregs       uint32
	DumpFillMkey       uint32
}

// Mlx5AllocPdResp is struct mlx5_ib_alloc_pd_resp, rdma/mlx5-abi.h.
type Mlx5AllocPdResp struct {
	_   structs.HostLayout
	Pdn uint32
}

// Mlx5CreateCq is struct mlx5_ib_create_cq, rdma/mlx5-abi.h.
type Mlx5CreateCq struct {
	_                structs.HostLayout
	BufAddr          uint64
	DbAddr           uint64
	CqeSize          uint32
	CqeCompEn        uint8
	CqeCompResFormat uint8
	Flags            uint16
	UarPageIndex     uint16
	Reserved0        uint16
	Reserved1        uint32
}

// Mlx5CreateCqResp is struct mlx5_ib_create_cq_resp, rdma/mlx5-abi.h.
type Mlx5CreateCqResp struct {
	_        structs.HostLayout
	Cqn      uint32
	Reserved uint32
}

// Mlx5ResizeCq is struct mlx5_ib_resize_cq, rdma/mlx5-abi.h.
type Mlx5ResizeCq struct {
	_         structs.HostLayout
	BufAddr   uint64
	CqeSize   uint16
	Reserved0 uint16
	Reserved1 uint32
}

// Mlx5CreateSrq is struct mlx5_ib_create_srq, rdma/mlx5-abi.h.
type Mlx5CreateSrq struct {
	_         structs.HostLayout
	BufAddr   uint64
	DbAddr    uint64
	Flags     uint32
	Reserved0 uint32
	Uidx      uint32
	Reserved1 uint32
}

// Mlx5CreateSrqResp is struct mlx5_ib_create_srq_resp, rdma/mlx5-abi.h.
type Mlx5CreateSrqResp struct {
	_        structs.HostLayout
	Srqn     uint32
	Reserved uint32
}

// Mlx5CreateQp is struct mlx5_ib_create_qp, rdma/mlx5-abi.h.
type Mlx5CreateQp struct {
	_          structs.HostLayout
	BufAddr    uint64
	DbAddr     uint64
	SqWqeCount uint32
	RqWqeCount uint32
	RqWqeShift uint32
	Flags      uint32
	Uidx       uint32
	BfregIndex uint32
	SqBufAddr  uint64
	EceOptions uint32
	DciStreams [2]uint8
	Reserved   uint16
}

// Mlx5CreateQpResp is struct mlx5_ib_create_qp_resp, rdma/mlx5-abi.h.
type Mlx5CreateQpResp struct {
	_          structs.HostLayout
	BfregIndex uint32
	EceOptions uint32
	CompMask   uint32
	Tirn       uint32
	Tisn       uint32
	Rqn        uint32
	Sqn        uint32
	Reserved1  uint32
	TirIcmAddr uint64
}

// Mlx5CreateAhResp is struct mlx5_ib_create_ah_resp, rdma/mlx5-abi.h.
type Mlx5CreateAhResp struct {
	_              structs.HostLayout
	ResponseLength uint32
	Dmac           [6]uint8
	Reserved       [6]uint8
}

// Mlx5AllocMw is struct mlx5_ib_alloc_mw, rdma/mlx5-abi.h.
type Mlx5AllocMw struct {
	_         structs.HostLayout
	CompMask  uint32
	NumKlms   uint8
	Reserved1 uint8
	Reserved2 uint16
}
