//go:build linux

package abi

import "structs"

// QueryDevice is struct ib_uverbs_query_device, ib_user_verbs.h. libibverbs uses it for the old
// ibv_query_device.
type QueryDevice struct {
	_        structs.HostLayout
	Response uint64
}

// QueryDeviceResp is struct ib_uverbs_query_device_resp, ib_user_verbs.h.
type QueryDeviceResp struct {
	_                     structs.HostLayout
	FwVer                 uint64
	NodeGuid              uint64 // BE
	SysImageGuid          uint64 // BE
	MaxMrSize             uint64
	PageSizeCap           uint64
	VendorId              uint32
	VendorPartId          uint32
	HwVer                 uint32
	MaxQp                 uint32
	MaxQpWr               uint32
	DeviceCapFlags        uint32
	MaxSge                uint32
	MaxSgeRd              uint32
	MaxCq                 uint32
	MaxCqe                uint32
	MaxMr                 uint32
	MaxPd                 uint32
	MaxQpRdAtom           uint32
	MaxEeRdAtom           uint32
	MaxResRdAtom          uint32
	MaxQpInitRdAtom       uint32
	MaxEeInitRdAtom       uint32
	AtomicCap             uint32
	MaxEe                 uint32
	MaxRdd                uint32
	MaxMw                 uint32
	MaxRawIpv6Qp          uint32
	MaxRawEthyQp          uint32
	MaxMcastGrp           uint32
	MaxMcastQpAttach      uint32
	MaxTotalMcastQpAttach uint32
	MaxAh                 uint32
	MaxFmr                uint32
	MaxMapPerFmr          uint32
	MaxSrq                uint32
	MaxSrqWr              uint32
	MaxSrqSge             uint32
	MaxPkeys              uint16
	LocalCaAckDelay       uint8
	PhysPortCnt           uint8
	Reserved              [4]uint8
}

// ExQueryDevice is struct ib_uverbs_ex_query_device, ib_user_verbs.h.
type ExQueryDevice struct {
	_        structs.HostLayout
	CompMask uint32
	Reserved uint32
}

// OdpCaps is struct ib_uverbs_odp_caps, ib_user_verbs.h; the fields of its inner struct are here
// fields of OdpCaps.
type OdpCaps struct {
	_           structs.HostLayout
	GeneralCaps uint64
	RcOdpCaps   uint32
	UcOdpCaps   uint32
	UdOdpCaps   uint32
	Reserved    uint32
}

// RssCaps is struct ib_uverbs_rss_caps, ib_user_verbs.h.
type RssCaps struct {
	_                          structs.HostLayout
	SupportedQpts              uint32
	MaxRwqIndirectionTables    uint32
	MaxRwqIndirectionTableSize uint32
	Reserved                   uint32
}

// TmCaps is struct ib_uverbs_tm_caps, ib_user_verbs.h.
type TmCaps struct {
	_              structs.HostLayout
	MaxRndvHdrSize uint32
	MaxNumTags     uint32
	Flags          uint32
	MaxOps         uint32
	MaxSge         uint32
	Reserved       uint32
}

// CqModerationCaps is struct ib_uverbs_cq_moderation_caps, ib_user_verbs.h.
type CqModerationCaps struct {
	_                     structs.HostLayout
	MaxCqModerationCount  uint16
	MaxCqModerationPeriod uint16
	Reserved              uint32
}

// ExQueryDeviceResp is struct ib_uverbs_ex_query_device_resp, ib_user_verbs.h.
type ExQueryDeviceResp struct {
	_                structs.HostLayout
	Base             QueryDeviceResp
	CompMask         uint32
	ResponseLength   uint32 // bytes of this struct that the kernel has filled in
	OdpCaps          OdpCaps
	TimestampMask    uint64
	HcaCoreClock     uint64 // kHz
	DeviceCapFlagsEx uint64
	RssCaps          RssCaps
	MaxWqTypeRq      uint32
	RawPacketCaps    uint32
	TmCaps           TmCaps
	CqModerationCaps CqModerationCaps
	MaxDmSize        uint64
	XrcOdpCaps       uint32
	Reserved         uint32
}

// QueryPortResp is struct ib_uverbs_query_port_resp, ib_user_verbs.h.
type QueryPortResp struct {
	_             structs.HostLayout
	PortCapFlags  uint32
	MaxMsgSz      uint32
	BadPkeyCntr   uint32
	QkeyViolCntr  uint32
	GidTblLen     uint32
	PkeyTblLen    uint16
	Lid           uint16
	SmLid         uint16
	State         uint8
	MaxMtu        uint8
	ActiveMtu     uint8
	Lmc           uint8
	MaxVlNum      uint8
	SmSl          uint8
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8
	ActiveSpeed   uint8
	PhysState     uint8
	LinkLayer     uint8
	Flags         uint8
	Reserved      uint8
}

// QueryPortRespEx is struct ib_uverbs_query_port_resp_ex, ib_user_ioctl_verbs.h.
// Kernels before 6.x have ActiveSpeedEx among the reserved bytes, as 0.
type QueryPortRespEx struct {
	_             structs.HostLayout
	LegacyResp    QueryPortResp
	PortCapFlags2 uint16
	Reserved      [2]uint8
	ActiveSpeedEx uint32
}
