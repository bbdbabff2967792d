//go:build linux

package abi

import "structs"

// Mminfo is struct mminfo, rdma_user_rxe.h: the offset at which a queue can be mapped, once.
type Mminfo struct {
	_      structs.HostLayout
	Offset uint64
	Size   uint32
	Pad    uint32
}

// RxeCreateCqResp is struct rxe_create_cq_resp, rdma_user_rxe.h; RESIZE_CQ returns the same fields.
type RxeCreateCqResp struct {
	_  structs.HostLayout
	Mi Mminfo
}

// RxeCreateQpResp is struct rxe_create_qp_resp, rdma_user_rxe.h.
type RxeCreateQpResp struct {
	_    structs.HostLayout
	RqMi Mminfo
	SqMi Mminfo
}

// RxeCreateSrqResp is struct rxe_create_srq_resp, rdma_user_rxe.h.
type RxeCreateSrqResp struct {
	_        structs.HostLayout
	Mi       Mminfo
	SrqNum   uint32
	Reserved uint32
}

// RxeModifySrqCmd is struct rxe_modify_srq_cmd, rdma_user_rxe.h.
type RxeModifySrqCmd struct {
	_            structs.HostLayout
	MmapInfoAddr uint64
}

// RxeCreateAhResp is struct rxe_create_ah_resp, rdma_user_rxe.h.
type RxeCreateAhResp struct {
	_        structs.HostLayout
	AhNum    uint32
	Reserved uint32
}

// RxeQueueBuf is struct rxe_queue_buf, rdma_user_rxe.h, the header of a mapped queue. The elements
// follow.
type RxeQueueBuf struct {
	_             structs.HostLayout
	Log2ElemSize  uint32
	IndexMask     uint32
	Pad1          [30]uint32
	ProducerIndex uint32
	Pad2          [31]uint32
	ConsumerIndex uint32
	Pad3          [31]uint32
}

// RxeSge is struct rxe_sge, rdma_user_rxe.h.
type RxeSge struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint32
	Lkey   uint32
}

// RxeDmaInfo is struct rxe_dma_info, rdma_user_rxe.h. The list of RxeSge follows, or the inline
// data.
type RxeDmaInfo struct {
	_         structs.HostLayout
	Length    uint32
	Resid     uint32
	CurSge    uint32
	NumSge    uint32
	SgeOffset uint32
	Reserved  uint32
}

// RxeSendWr is struct rxe_send_wr, rdma_user_rxe.h. Wr is a union of RxeRdmaWr,
// RxeAtomicWr, RxeMwWr, RxeUdWr and others.
type RxeSendWr struct {
	_         structs.HostLayout
	WrId      uint64
	Reserved  uint32
	Opcode    uint32
	SendFlags uint32
	Ex        uint32 // immediate data (BE) or the rkey to invalidate
	Wr        [15]uint64
}

// RxeRdmaWr is the member rdma of the union in struct rxe_send_wr.
type RxeRdmaWr struct {
	_          structs.HostLayout
	RemoteAddr uint64
	Rkey       uint32
	Reserved   uint32
}

// RxeAtomicWr is the member atomic of the union in struct rxe_send_wr.
type RxeAtomicWr struct {
	_          structs.HostLayout
	RemoteAddr uint64
	CompareAdd uint64
	Swap       uint64
	Rkey       uint32
	Reserved   uint32
}

// RxeMwWr is the member mw of the union in struct rxe_send_wr.
type RxeMwWr struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint64
	MrLkey uint32
	MwRkey uint32 // the present rkey of the window
	Rkey   uint32 // the new rkey
	Access uint32
}

// RxeUdWr is the member ud of the union in struct rxe_send_wr. Kernels from 5.16 on find the
// address by AhNum and ignore Av.
type RxeUdWr struct {
	_          structs.HostLayout
	RemoteQpn  uint32
	RemoteQkey uint32
	PkeyIndex  uint16
	Reserved   uint16
	AhNum      uint32
	Pad        [4]uint32
	Av         [22]uint32 // struct rxe_av
}

// RxeSendWqe is struct rxe_send_wqe, rdma_user_rxe.h.
type RxeSendWqe struct {
	_           structs.HostLayout
	Wr          RxeSendWr
	Status      uint32 // the fields from here to Dma, except Iova, belong to the kernel
	State       uint32
	Iova        uint64 // the remote address
	Mask        uint32
	FirstPsn    uint32
	LastPsn     uint32
	AckLength   uint32
	Ssn         uint32
	HasRdAtomic uint32
	Dma         RxeDmaInfo
}

// RxeRecvWqe is struct rxe_recv_wqe, rdma_user_rxe.h.
type RxeRecvWqe struct {
	_        structs.HostLayout
	WrId     uint64
	Reserved uint32
	Padding  uint32
	Dma      RxeDmaInfo
}
