//go:build linux

package abi

// Kernel drivers of RDMA devices; enum rdma_driver_id, ib_user_ioctl_verbs.h.
const (
	RDMA_DRIVER_UNKNOWN    = 0
	RDMA_DRIVER_MLX5       = 1
	RDMA_DRIVER_MLX4       = 2
	RDMA_DRIVER_CXGB4      = 4
	RDMA_DRIVER_BNXT_RE    = 6
	RDMA_DRIVER_OCRDMA     = 7
	RDMA_DRIVER_IRDMA      = 9
	RDMA_DRIVER_VMW_PVRDMA = 10
	RDMA_DRIVER_QEDR       = 11
	RDMA_DRIVER_HNS        = 12
	RDMA_DRIVER_USNIC      = 13
	RDMA_DRIVER_RXE        = 14
	RDMA_DRIVER_HFI1       = 15
	RDMA_DRIVER_QIB        = 16
	RDMA_DRIVER_EFA        = 17
	RDMA_DRIVER_SIW        = 18
	RDMA_DRIVER_ERDMA      = 19
	RDMA_DRIVER_MANA       = 20
	RDMA_DRIVER_IONIC      = 21
)

// Features of the kernel's RDMA core; enum ib_uverbs_core_support, ib_user_ioctl_verbs.h.
const IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS = 1 << 0

// Capabilities of tag matching; enum ib_tm_cap_flags, include/rdma/ib_verbs.h.
const IB_TM_CAP_RNDV_RC = 1 << 0

// Access to memory; enum ib_uverbs_access_flags, ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_ACCESS_LOCAL_WRITE      = 1 << 0
	IB_UVERBS_ACCESS_REMOTE_WRITE     = 1 << 1
	IB_UVERBS_ACCESS_REMOTE_READ      = 1 << 2
	IB_UVERBS_ACCESS_REMOTE_ATOMIC    = 1 << 3
	IB_UVERBS_ACCESS_MW_BIND          = 1 << 4
	IB_UVERBS_ACCESS_ZERO_BASED       = 1 << 5
	IB_UVERBS_ACCESS_ON_DEMAND        = 1 << 6
	IB_UVERBS_ACCESS_HUGETLB          = 1 << 7
	IB_UVERBS_ACCESS_RELAXED_ORDERING = 1 << 20
	IB_UVERBS_ACCESS_OPTIONAL_RANGE   = 0x3ff << 20 // optional access: ignored where unknown, if the core supports that
)

// Types of queue pairs and of shared receive queues; ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_QPT_RC         = 2
	IB_UVERBS_QPT_UC         = 3
	IB_UVERBS_QPT_UD         = 4
	IB_UVERBS_QPT_RAW_PACKET = 8
	IB_UVERBS_QPT_XRC_INI    = 9
	IB_UVERBS_QPT_XRC_TGT    = 10
	IB_UVERBS_QPT_DRIVER     = 0xff

	IB_UVERBS_SRQT_BASIC = 0
	IB_UVERBS_SRQT_XRC   = 1
	IB_UVERBS_SRQT_TM    = 2
)

// Flags of a new queue pair; enum ib_uverbs_qp_create_flags, ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK = 1 << 1
	IB_UVERBS_QP_CREATE_SQ_SIG_ALL               = 1 << 12
)

// Types of GIDs; enum ib_uverbs_gid_type, ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_GID_TYPE_IB      = 0
	IB_UVERBS_GID_TYPE_ROCE_V1 = 1
	IB_UVERBS_GID_TYPE_ROCE_V2 = 2
)

// Commands of write(2), also of INVOKE_WRITE; enum ib_uverbs_write_cmds,
// ib_user_verbs.h.
const (
	IB_USER_VERBS_CMD_GET_CONTEXT         = 0
	IB_USER_VERBS_CMD_QUERY_DEVICE        = 1
	IB_USER_VERBS_CMD_QUERY_PORT          = 2
	IB_USER_VERBS_CMD_ALLOC_PD            = 3
	IB_USER_VERBS_CMD_CREATE_AH           = 5
	IB_USER_VERBS_CMD_REG_MR              = 9
	IB_USER_VERBS_CMD_REREG_MR            = 11
	IB_USER_VERBS_CMD_ALLOC_MW            = 14
	IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL = 17
	IB_USER_VERBS_CMD_RESIZE_CQ           = 19
	IB_USER_VERBS_CMD_REQ_NOTIFY_CQ       = 23
	IB_USER_VERBS_CMD_QUERY_QP            = 25
	IB_USER_VERBS_CMD_MODIFY_QP           = 26
	IB_USER_VERBS_CMD_POST_SEND           = 28
	IB_USER_VERBS_CMD_ATTACH_MCAST        = 30
	IB_USER_VERBS_CMD_DETACH_MCAST        = 31
	IB_USER_VERBS_CMD_MODIFY_SRQ          = 33
	IB_USER_VERBS_CMD_QUERY_SRQ           = 34

	IB_USER_VERBS_CMD_FLAG_EXTENDED   = 0x80000000
	IB_USER_VERBS_EX_CMD_QUERY_DEVICE = IB_USER_VERBS_CMD_QUERY_DEVICE
)

// Operations of a work request; enum ib_uverbs_wr_opcode, ib_user_verbs.h.
const (
	IB_UVERBS_WR_RDMA_WRITE           = 0
	IB_UVERBS_WR_RDMA_WRITE_WITH_IMM  = 1
	IB_UVERBS_WR_SEND                 = 2
	IB_UVERBS_WR_SEND_WITH_IMM        = 3
	IB_UVERBS_WR_RDMA_READ            = 4
	IB_UVERBS_WR_ATOMIC_CMP_AND_SWP   = 5
	IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD = 6
	IB_UVERBS_WR_LOCAL_INV            = 7
	IB_UVERBS_WR_BIND_MW              = 8
	IB_UVERBS_WR_SEND_WITH_INV        = 9
)

// Operations of a completion; enum ib_uverbs_wc_opcode, ib_user_verbs.h, and the two of receives,
// which are only in enum ib_wc_opcode of ib_verbs.h.
const (
	IB_UVERBS_WC_SEND       = 0
	IB_UVERBS_WC_RDMA_WRITE = 1
	IB_UVERBS_WC_RDMA_READ  = 2
	IB_UVERBS_WC_COMP_SWAP  = 3
	IB_UVERBS_WC_FETCH_ADD  = 4
	IB_UVERBS_WC_BIND_MW    = 5
	IB_UVERBS_WC_LOCAL_INV  = 6

	IB_WC_RECV               = 128
	IB_WC_RECV_RDMA_WITH_IMM = 129
)

// Flags of a completion; enum ib_wc_flags, ib_verbs.h. libibverbs numbers its flags differently.
const (
	IB_WC_GRH             = 1 << 0
	IB_WC_WITH_IMM        = 1 << 1
	IB_WC_WITH_INVALIDATE = 1 << 2
	IB_WC_IP_CSUM_OK      = 1 << 3
)

// Versions of the kernel interface (abi_version in sysfs).
const (
	IB_USER_VERBS_ABI_VERSION = 6 // ib_user_verbs.h
	RXE_UVERBS_ABI_VERSION    = 2 // drivers/infiniband/sw/rxe/rxe_verbs.h
)

// Kinds of addresses in a RxeAv; rdma_user_rxe.h.
const (
	RXE_NETWORK_TYPE_IPV4 = 1
	RXE_NETWORK_TYPE_IPV6 = 2
)
