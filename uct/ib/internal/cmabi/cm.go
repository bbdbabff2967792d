//go:build linux

package cmabi

import (
	"structs"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// CmdHdr is struct rdma_ucm_cmd_hdr, rdma_user_cm.h. In and Out are in bytes, without the header.
type CmdHdr struct {
	_   structs.HostLayout
	Cmd uint32
	In  uint16
	Out uint16
}

// CreateId is struct rdma_ucm_create_id, rdma_user_cm.h.
type CreateId struct {
	_        structs.HostLayout
	Uid      uint64 // identifies the ID in events
	Response uint64
	Ps       uint16
	QpType   uint8 // only for RDMA_PS_IB
	Reserved [5]uint8
}

// CreateIdResp is struct rdma_ucm_create_id_resp, rdma_user_cm.h.
type CreateIdResp struct {
	_  structs.HostLayout
	Id uint32
}

// DestroyId is struct rdma_ucm_destroy_id, rdma_user_cm.h.
type DestroyId struct {
	_        structs.HostLayout
	Response uint64
	Id       uint32
	Reserved uint32
}

// DestroyIdResp is struct rdma_ucm_destroy_id_resp, rdma_user_cm.h.
type DestroyIdResp struct {
	_              structs.HostLayout
	EventsReported uint32
}

// Bind is struct rdma_ucm_bind, rdma_user_cm.h.
type Bind struct {
	_        structs.HostLayout
	Id       uint32
	AddrSize uint16
	Reserved uint16
	Addr     [128]byte
}

// ResolveAddr is struct rdma_ucm_resolve_addr, rdma_user_cm.h.
type ResolveAddr struct {
	_         structs.HostLayout
	Id        uint32
	TimeoutMs uint32
	SrcSize   uint16
	DstSize   uint16
	Reserved  uint32
	SrcAddr   [128]byte
	DstAddr   [128]byte
}

// ResolveRoute is struct rdma_ucm_resolve_route, rdma_user_cm.h.
type ResolveRoute struct {
	_         structs.HostLayout
	Id        uint32
	TimeoutMs uint32
}

// Query is struct rdma_ucm_query, rdma_user_cm.h.
type Query struct {
	_        structs.HostLayout
	Response uint64
	Id       uint32
	Option   uint32
}

// QueryAddrResp is struct rdma_ucm_query_addr_resp, rdma_user_cm.h. Kernels before
// 5.7 fill it up to IbdevIndex.
type QueryAddrResp struct {
	_          structs.HostLayout
	NodeGuid   uint64 // BE
	PortNum    uint8
	Reserved   uint8
	Pkey       uint16 // BE
	SrcSize    uint16
	DstSize    uint16
	SrcAddr    [128]byte
	DstAddr    [128]byte
	IbdevIndex uint32
	Reserved1  uint32
}

// UserPathRec is struct ib_user_path_rec, ib_user_sa.h.
type UserPathRec struct {
	_                      structs.HostLayout
	Dgid                   [16]byte
	Sgid                   [16]byte
	Dlid                   uint16 // BE
	Slid                   uint16 // BE
	RawTraffic             uint32
	FlowLabel              uint32 // BE
	Reversible             uint32
	Mtu                    uint32
	Pkey                   uint16 // BE
	HopLimit               uint8
	TrafficClass           uint8
	NumbPath               uint8
	Sl                     uint8
	MtuSelector            uint8
	RateSelector           uint8
	Rate                   uint8
	PacketLifeTimeSelector uint8
	PacketLifeTime         uint8
	Preference             uint8
}

// QueryRouteResp is struct rdma_ucm_query_route_resp, rdma_user_cm.h.
type QueryRouteResp struct {
	_          structs.HostLayout
	NodeGuid   uint64 // BE
	IbRoute    [2]UserPathRec
	SrcAddr    [28]byte
	DstAddr    [28]byte
	NumPaths   uint32
	PortNum    uint8
	Reserved   [3]uint8
	IbdevIndex uint32
	Reserved1  uint32
}

// ConnParam is struct rdma_ucm_conn_param, rdma_user_cm.h.
type ConnParam struct {
	_                  structs.HostLayout
	QpNum              uint32
	Qkey               uint32
	PrivateData        [RDMA_MAX_PRIVATE_DATA]byte
	PrivateDataLen     uint8
	Srq                uint8
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        uint8
	RetryCount         uint8
	RnrRetryCount      uint8
	Valid              uint8
}

// UdParam is struct rdma_ucm_ud_param, rdma_user_cm.h.
type UdParam struct {
	_              structs.HostLayout
	QpNum          uint32
	Qkey           uint32
	AhAttr         abi.AhAttr
	PrivateData    [RDMA_MAX_PRIVATE_DATA]byte
	PrivateDataLen uint8
	Reserved       [7]uint8
}

// Ece is struct rdma_ucm_ece, rdma_user_cm.h.
type Ece struct {
	_        structs.HostLayout
	VendorId uint32
	AttrMod  uint32
}

// Connect is struct rdma_ucm_connect, rdma_user_cm.h.
type Connect struct {
	_         structs.HostLayout
	ConnParam ConnParam
	Id        uint32
	Reserved  uint32
	Ece       Ece
}

// Listen is struct rdma_ucm_listen, rdma_user_cm.h.
type Listen struct {
	_       structs.HostLayout
	Id      uint32
	Backlog uint32
}

// Accept is struct rdma_ucm_accept, rdma_user_cm.h.
type Accept struct {
	_         structs.HostLayout
	Uid       uint64
	ConnParam ConnParam
	Id        uint32
	Reserved  uint32
	Ece       Ece
}

// Reject is struct rdma_ucm_reject, rdma_user_cm.h.
type Reject struct {
	_              structs.HostLayout
	Id             uint32
	PrivateDataLen uint8
	Reason         uint8 // since 5.10; 0 before
	Reserved       [2]uint8
	PrivateData    [RDMA_MAX_PRIVATE_DATA]byte
}

// Disconnect is struct rdma_ucm_disconnect, rdma_user_cm.h.
type Disconnect struct {
	_  structs.HostLayout
	Id uint32
}

// InitQpAttr is struct rdma_ucm_init_qp_attr, rdma_user_cm.h.
type InitQpAttr struct {
	_        structs.HostLayout
	Response uint64
	Id       uint32
	QpState  uint32
}

// QpAttr is struct ib_uverbs_qp_attr, ib_user_verbs.h.
type QpAttr struct {
	_                structs.HostLayout
	QpAttrMask       uint32
	QpState          uint32
	CurQpState       uint32
	PathMtu          uint32
	PathMigState     uint32
	Qkey             uint32
	RqPsn            uint32
	SqPsn            uint32
	DestQpNum        uint32
	QpAccessFlags    uint32
	AhAttr           abi.AhAttr
	AltAhAttr        abi.AhAttr
	MaxSendWr        uint32
	MaxRecvWr        uint32
	MaxSendSge       uint32
	MaxRecvSge       uint32
	MaxInlineData    uint32
	PkeyIndex        uint16
	AltPkeyIndex     uint16
	EnSqdAsyncNotify uint8
	SqDraining       uint8
	MaxRdAtomic      uint8
	MaxDestRdAtomic  uint8
	MinRnrTimer      uint8
	PortNum          uint8
	Timeout          uint8
	RetryCnt         uint8
	RnrRetry         uint8
	AltPortNum       uint8
	AltTimeout       uint8
	Reserved         [5]uint8
}

// Notify is struct rdma_ucm_notify, rdma_user_cm.h.
type Notify struct {
	_     structs.HostLayout
	Id    uint32
	Event uint32 // enum ib_event_type
}

// JoinMcast is struct rdma_ucm_join_mcast, rdma_user_cm.h. The answer is CreateIdResp. The command
// LEAVE_MCAST, with DestroyId and the number from the answer, leaves the group.
type JoinMcast struct {
	_         structs.HostLayout
	Response  uint64
	Uid       uint64
	Id        uint32
	AddrSize  uint16
	JoinFlags uint16
	Addr      [128]byte
}

// GetEvent is struct rdma_ucm_get_event, rdma_user_cm.h.
type GetEvent struct {
	_        structs.HostLayout
	Response uint64
}

// EventResp is struct rdma_ucm_event_resp, rdma_user_cm.h. Kernels before 5.8 fill
// it up to Reserved.
type EventResp struct {
	_        structs.HostLayout
	Uid      uint64
	Id       uint32
	Event    uint32
	Status   uint32    // signed
	Param    [304]byte // ConnParam or UdParam
	Reserved uint32
	Ece      Ece
}

// SetOption is struct rdma_ucm_set_option, rdma_user_cm.h.
type SetOption struct {
	_       structs.HostLayout
	Optval  uint64 // address
	Id      uint32
	Level   uint32
	Optname uint32
	Optlen  uint32
}

// MigrateId is struct rdma_ucm_migrate_id, rdma_user_cm.h.
type MigrateId struct {
	_        structs.HostLayout
	Response uint64
	Id       uint32
	Fd       uint32 // file from which the ID moves
}

// MigrateResp is struct rdma_ucm_migrate_resp, rdma_user_cm.h.
type MigrateResp struct {
	_              structs.HostLayout
	EventsReported uint32
}
