//go:build linux

package abi

import "structs"

// QpCap is struct ib_uverbs_qp_cap, ib_user_ioctl_verbs.h.
type QpCap struct {
	_             structs.HostLayout
	MaxSendWr     uint32
	MaxRecvWr     uint32
	MaxSendSge    uint32
	MaxRecvSge    uint32
	MaxInlineData uint32
}

// QpDest is struct ib_uverbs_qp_dest, ib_user_verbs.h: the contents of AhAttr in another order.
type QpDest struct {
	_            structs.HostLayout
	Dgid         [16]byte // BE
	FlowLabel    uint32
	Dlid         uint16
	Reserved     uint16
	SgidIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	Sl           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	IsGlobal     uint8
	PortNum      uint8
}

// ModifyQp is struct ib_uverbs_modify_qp, ib_user_verbs.h.
type ModifyQp struct {
	_                structs.HostLayout
	Dest             QpDest
	AltDest          QpDest
	QpHandle         uint32
	AttrMask         uint32
	Qkey             uint32
	RqPsn            uint32
	SqPsn            uint32
	DestQpNum        uint32
	QpAccessFlags    uint32
	PkeyIndex        uint16
	AltPkeyIndex     uint16
	QpState          uint8
	CurQpState       uint8
	PathMtu          uint8
	PathMigState     uint8
	EnSqdAsyncNotify uint8
	MaxRdAtomic      uint8
	MaxDestRdAtomic  uint8
	MinRnrTimer      uint8
	PortNum          uint8
	Timeout          uint8
	RetryCnt         uint8
	RnrRetry         uint8
	AltPortNum       uint8
	AltTimeout       uint8
	Reserved         [2]uint8
}

// QueryQp is struct ib_uverbs_query_qp, ib_user_verbs.h.
type QueryQp struct {
	_        structs.HostLayout
	Response uint64
	QpHandle uint32
	AttrMask uint32
}

// QueryQpResp is struct ib_uverbs_query_qp_resp, ib_user_verbs.h.
type QueryQpResp struct {
	_               structs.HostLayout
	Dest            QpDest
	AltDest         QpDest
	MaxSendWr       uint32
	MaxRecvWr       uint32
	MaxSendSge      uint32
	MaxRecvSge      uint32
	MaxInlineData   uint32
	Qkey            uint32
	RqPsn           uint32
	SqPsn           uint32
	DestQpNum       uint32
	QpAccessFlags   uint32
	PkeyIndex       uint16
	AltPkeyIndex    uint16
	QpState         uint8
	CurQpState      uint8
	PathMtu         uint8
	PathMigState    uint8
	SqDraining      uint8
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	MinRnrTimer     uint8
	PortNum         uint8
	Timeout         uint8
	RetryCnt        uint8
	RnrRetry        uint8
	AltPortNum      uint8
	AltTimeout      uint8
	SqSigAll        uint8
	Reserved        [5]uint8
}

// DestroyQpResp is struct ib_uverbs_destroy_qp_resp, ib_user_verbs.h.
type DestroyQpResp struct {
	_              structs.HostLayout
	EventsReported uint32
}
