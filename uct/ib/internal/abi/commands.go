//go:build linux

package abi

import "structs"

// CmdHdr is struct ib_uverbs_cmd_hdr, ib_user_verbs.h, the header of a write(2).
type CmdHdr struct {
	_        structs.HostLayout
	Command  uint32
	InWords  uint16 // in words of 4 bytes, with this header
	OutWords uint16
}

// AsyncEventDesc is struct ib_uverbs_async_event_desc, ib_user_verbs.h.
type AsyncEventDesc struct {
	_         structs.HostLayout
	Element   uint64 // the user handle of an object, or the number of a port
	EventType uint32
	Reserved  uint32
}

// CompEventDesc is struct ib_uverbs_comp_event_desc, ib_user_verbs.h.
type CompEventDesc struct {
	_        structs.HostLayout
	CqHandle uint64 // the user handle
}

// GidEntry is struct ib_uverbs_gid_entry, ib_user_ioctl_verbs.h.
type GidEntry struct {
	_             structs.HostLayout
	Gid           [16]byte // BE
	GidIndex      uint32
	PortNum       uint32
	GidType       uint32
	NetdevIfindex uint32 // 0 for none
}

// AllocPd is struct ib_uverbs_alloc_pd, ib_user_verbs.h. Here and below, requests by ioctl(2) do
// not use Response.
type AllocPd struct {
	_        structs.HostLayout
	Response uint64
}

// AllocPdResp is struct ib_uverbs_alloc_pd_resp, ib_user_verbs.h.
type AllocPdResp struct {
	_        structs.HostLayout
	PdHandle uint32
}

// RegMr is struct ib_uverbs_reg_mr, ib_user_verbs.h.
type RegMr struct {
	_           structs.HostLayout
	Response    uint64
	Start       uint64
	Length      uint64
	HcaVa       uint64 // address that peers use
	PdHandle    uint32
	AccessFlags uint32
}

// RegMrResp is struct ib_uverbs_reg_mr_resp, ib_user_verbs.h.
type RegMrResp struct {
	_        structs.HostLayout
	MrHandle uint32
	Lkey     uint32
	Rkey     uint32
}

// ReregMr is struct ib_uverbs_rereg_mr, ib_user_verbs.h.
type ReregMr struct {
	_           structs.HostLayout
	Response    uint64
	MrHandle    uint32
	Flags       uint32 // IB_MR_REREG_*, ib_verbs.h
	Start       uint64
	Length      uint64
	HcaVa       uint64
	PdHandle    uint32
	AccessFlags uint32
}

// ReregMrResp is struct ib_uverbs_rereg_mr_resp, ib_user_verbs.h.
type ReregMrResp struct {
	_    structs.HostLayout
	Lkey uint32
	Rkey uint32
}

// CreateCompChannel is struct ib_uverbs_create_comp_channel, ib_user_verbs.h.
type CreateCompChannel struct {
	_        structs.HostLayout
	Response uint64
}

// CreateCompChannelResp is struct ib_uverbs_create_comp_channel_resp,
// ib_user_verbs.h.
type CreateCompChannelResp struct {
	_  structs.HostLayout
	Fd uint32
}

// ResizeCq is struct ib_uverbs_resize_cq, ib_user_verbs.h.
type ResizeCq struct {
	_        structs.HostLayout
	Response uint64
	CqHandle uint32
	Cqe      uint32
}

// ResizeCqResp is struct ib_uverbs_resize_cq_resp, ib_user_verbs.h.
type ResizeCqResp struct {
	_        structs.HostLayout
	Cqe      uint32
	Reserved uint32
}

// ReqNotifyCq is struct ib_uverbs_req_notify_cq, ib_user_verbs.h.
type ReqNotifyCq struct {
	_             structs.HostLayout
	CqHandle      uint32
	SolicitedOnly uint32
}

// DestroyCqResp is struct ib_uverbs_destroy_cq_resp, ib_user_verbs.h.
type DestroyCqResp struct {
	_                   structs.HostLayout
	CompEventsReported  uint32
	AsyncEventsReported uint32
}

// Wc is struct ib_uverbs_wc, ib_user_verbs.h.
type Wc struct {
	_            structs.HostLayout
	WrId         uint64
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	ByteLen      uint32
	Ex           uint32 // immediate data (BE) or the invalidated rkey
	QpNum        uint32
	SrcQp        uint32
	WcFlags      uint32
	PkeyIndex    uint16
	Slid         uint16
	Sl           uint8
	DlidPathBits uint8
	PortNum      uint8
	Reserved     uint8
}

// ModifySrq is struct ib_uverbs_modify_srq, ib_user_verbs.h.
type ModifySrq struct {
	_         structs.HostLayout
	SrqHandle uint32
	AttrMask  uint32
	MaxWr     uint32
	SrqLimit  uint32
}

// QuerySrq is struct ib_uverbs_query_srq, ib_user_verbs.h.
type QuerySrq struct {
	_         structs.HostLayout
	Response  uint64
	SrqHandle uint32
	Reserved  uint32
}

// QuerySrqResp is struct ib_uverbs_query_srq_resp, ib_user_verbs.h.
type QuerySrqResp struct {
	_        structs.HostLayout
	MaxWr    uint32
	MaxSge   uint32
	SrqLimit uint32
	Reserved uint32
}

// DestroySrqResp is struct ib_uverbs_destroy_srq_resp, ib_user_verbs.h.
type DestroySrqResp struct {
	_              structs.HostLayout
	EventsReported uint32
}

// GlobalRoute is struct ib_uverbs_global_route, ib_user_verbs.h.
type GlobalRoute struct {
	_            structs.HostLayout
	Dgid         [16]byte // BE
	FlowLabel    uint32
	SgidIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	Reserved     uint8
}

// AhAttr is struct ib_uverbs_ah_attr, ib_user_verbs.h.
type AhAttr struct {
	_           structs.HostLayout
	Grh         GlobalRoute
	Dlid        uint16
	Sl          uint8
	SrcPathBits uint8
	StaticRate  uint8
	IsGlobal    uint8
	PortNum     uint8
	Reserved    uint8
}

// CreateAh is struct ib_uverbs_create_ah, ib_user_verbs.h.
type CreateAh struct {
	_          structs.HostLayout
	Response   uint64
	UserHandle uint64
	PdHandle   uint32
	Reserved   uint32
	Attr       AhAttr
}

// CreateAhResp is struct ib_uverbs_create_ah_resp, ib_user_verbs.h.
type CreateAhResp struct {
	_        structs.HostLayout
	AhHandle uint32
}

// AttachMcast is struct ib_uverbs_attach_mcast, ib_user_verbs.h; DETACH_MCAST uses the same struct.
type AttachMcast struct {
	_        structs.HostLayout
	Gid      [16]byte // BE
	QpHandle uint32
	Mlid     uint16
	Reserved uint16
}

// PostSend is struct ib_uverbs_post_send, ib_user_verbs.h.
type PostSend struct {
	_        structs.HostLayout
	Response uint64
	QpHandle uint32
	WrCount  uint32
	SgeCount uint32
	WqeSize  uint32
}

// PostSendResp is struct ib_uverbs_post_send_resp, ib_user_verbs.h.
type PostSendResp struct {
	_     structs.HostLayout
	BadWr uint32
}

// AllocMw is struct ib_uverbs_alloc_mw, ib_user_verbs.h.
type AllocMw struct {
	_        structs.HostLayout
	Response uint64
	PdHandle uint32
	MwType   uint8
	Reserved [3]uint8
}

// AllocMwResp is struct ib_uverbs_alloc_mw_resp, ib_user_verbs.h.
type AllocMwResp struct {
	_        structs.HostLayout
	MwHandle uint32
	Rkey     uint32
}
