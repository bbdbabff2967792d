//go:build linux

package verbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// DeviceAttr holds the capabilities of a device; struct ibv_device_attr_ex. A field that the kernel
// or the driver does not report is 0.
type DeviceAttr struct {
	FirmwareVersion      uint64 // three 16-bit parts, from bits 32, 16 and 0 on
	Firmware             string // FirmwareVersion as text, for example 1.2.3
	NodeGUID             GUID
	SysImageGUID         GUID
	MaxMRSize            uint64 // bytes
	PageSizeCap          uint64 // supported page sizes in bytes, ORed
	VendorID             uint32
	VendorPartID         uint32
	HWVersion            uint32
	MaxQP                int
	MaxQPWR              int
	CapFlags             DeviceCap
	MaxSGE               int
	MaxSGERead           int
	MaxCQ                int
	MaxCQE               int
	MaxMR                int
	MaxPD                int
	MaxQPRdAtom          int // reads and atomics in flight to a queue pair, as their target
	MaxQPInitRdAtom      int // reads and atomics in flight from a queue pair, as their initiator
	MaxResRdAtom         int
	MaxEE                int // EE contexts, for reliable datagrams, which no device supports
	MaxEERdAtom          int
	MaxEEInitRdAtom      int
	MaxRDD               int
	AtomicCap            AtomicCap
	MaxMW                int
	MaxRawIPv6QP         int
	MaxRawEthyQP         int
	MaxMcastGroups       int
	MaxMcastQPAttach     int
	MaxTotalMcastAttach  int
	MaxAH                int
	MaxFMR               int
	MaxMapPerFMR         int
	MaxSRQ               int // 0: no shared receive queues
	MaxSRQWR             int
	MaxSRQSGE            int
	MaxPKeys             int
	LocalCAAckDelay      int
	Ports                int // number of ports, at most 255; Device.Ports lists all
	ODP                  ODPCaps
	TimestampMask        uint64 // valid bits of completion timestamps; 0: no timestamps
	CoreClockKHz         uint64 // clock rate of completion timestamps
	RSS                  RSSCaps
	TSO                  TSOCaps
	PacketPacing         PacketPacingCaps
	TagMatching          TMCaps
	RawPacket            RawPacketCap
	MaxWQTypeRQ          int
	MaxDeviceMemory      uint64 // bytes
	CQModerationCount    int    // in completions
	CQModerationPeriodUs int
}

// ODPCaps holds a device's capabilities of on-demand paging, for memory that is not pinned; struct
// ibv_odp_caps.
type ODPCaps struct {
	General         ODPGeneralCap
	RC, UC, UD, XRC ODPCap // operations that support it, by transport
}

// RSSCaps holds a device's capabilities of receive-side scaling; struct ibv_rss_caps. The two
// RxHash fields are always 0: they would be in the driver-specific part of the kernel's answer,
// which QueryDevice does not read.
type RSSCaps struct {
	QPTypes                    uint32 // 1 << QPType
	MaxRWQIndirectionTables    uint32
	MaxRWQIndirectionTableSize uint32
	RxHashFieldsMask           uint64
	RxHashFunction             uint8
}

// TSOCaps holds a device's capabilities of TCP segmentation offload; struct ibv_tso_caps. All
// fields are always 0: they would be in the driver-specific part of the kernel's answer, which
// QueryDevice does not read.
type TSOCaps struct {
	MaxTSO  uint32 // bytes; 0: not supported
	QPTypes uint32 // 1 << QPType
}

// PacketPacingCaps holds a device's capabilities to limit the rate of a queue pair; struct
// ibv_packet_pacing_caps. All fields are always 0: they would be in the driver-specific part of the
// kernel's answer, which QueryDevice does not read.
type PacketPacingCaps struct {
	MinKbps uint32
	MaxKbps uint32 // 0: not supported
	QPTypes uint32 // 1 << QPType
}

// TMCaps holds a device's capabilities for tag matching; struct ibv_tm_caps.
type TMCaps struct {
	MaxRndvHdrSize uint32 // bytes
	MaxNumTags     uint32 // 0: not supported
	MaxOps         uint32
	MaxSGE         uint32
	RC             bool
}

// QueryDevice reads the capabilities of the device; ibv_query_device_ex.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	var resp abi.ExQueryDeviceResp
	err := c.invoke(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
		abi.Bytes(&abi.ExQueryDevice{}), abi.Bytes(&resp))
	if err != nil {
		return DeviceAttr{}, err
	}
	return deviceAttr(&resp), nil
}

// deviceAttr converts the kernel's answer. A field that the kernel has not filled in is 0.
func deviceAttr(resp *abi.ExQueryDeviceResp) DeviceAttr {
	b := &resp.Base
	a := DeviceAttr{
		FirmwareVersion: b.FwVer, Firmware: firmware(b.FwVer),
		NodeGUID: GUID(bigEndian(b.NodeGuid)), SysImageGUID: GUID(bigEndian(b.SysImageGuid)),
		MaxMRSize: b.MaxMrSize, PageSizeCap: b.PageSizeCap, VendorID: b.VendorId, VendorPartID: b.VendorPartId,
		HWVersion: b.HwVer, MaxQP: int(b.MaxQp), MaxQPWR: int(b.MaxQpWr), CapFlags: DeviceCap(b.DeviceCapFlags),
		MaxSGE: int(b.MaxSge), MaxSGERead: int(b.MaxSgeRd), MaxCQ: int(b.MaxCq), MaxCQE: int(b.MaxCqe), MaxMR: int(b.MaxMr),
		MaxPD: int(b.MaxPd), MaxQPRdAtom: int(b.MaxQpRdAtom), MaxQPInitRdAtom: int(b.MaxQpInitRdAtom),
		MaxResRdAtom: int(b.MaxResRdAtom), MaxEE: int(b.MaxEe), MaxEERdAtom: int(b.MaxEeRdAtom), MaxEEInitRdAtom: int(b.MaxEeInitRdAtom),
		MaxRDD: int(b.MaxRdd), AtomicCap: AtomicCap(b.AtomicCap), MaxMW: int(b.MaxMw), MaxRawIPv6QP: int(b.MaxRawIpv6Qp),
		MaxRawEthyQP: int(b.MaxRawEthyQp), MaxMcastGroups: int(b.MaxMcastGrp), MaxMcastQPAttach: int(b.MaxMcastQpAttach),
		MaxTotalMcastAttach: int(b.MaxTotalMcastQpAttach), MaxAH: int(b.MaxAh), MaxFMR: int(b.MaxFmr), MaxMapPerFMR: int(b.MaxMapPerFmr),
		MaxSRQ: int(b.MaxSrq), MaxSRQWR: int(b.MaxSrqWr), MaxSRQSGE: int(b.MaxSrqSge), MaxPKeys: int(b.MaxPkeys),
		LocalCAAckDelay: int(b.LocalCaAckDelay), Ports: int(b.PhysPortCnt),
		ODP: ODPCaps{
			General: ODPGeneralCap(resp.OdpCaps.GeneralCaps), RC: ODPCap(resp.OdpCaps.RcOdpCaps), UC: ODPCap(resp.OdpCaps.UcOdpCaps),
			UD: ODPCap(resp.OdpCaps.UdOdpCaps), XRC: ODPCap(resp.XrcOdpCaps),
		},
		TimestampMask: resp.TimestampMask, CoreClockKHz: resp.HcaCoreClock,
		RSS: RSSCaps{
			QPTypes: resp.RssCaps.SupportedQpts, MaxRWQIndirectionTables: resp.RssCaps.MaxRwqIndirectionTables,
			MaxRWQIndirectionTableSize: resp.RssCaps.MaxRwqIndirectionTableSize,
		},
		TagMatching: TMCaps{
			MaxRndvHdrSize: resp.TmCaps.MaxRndvHdrSize, MaxNumTags: resp.TmCaps.MaxNumTags, MaxOps: resp.TmCaps.MaxOps,
			MaxSGE: resp.TmCaps.MaxSge, RC: resp.TmCaps.Flags&abi.IB_TM_CAP_RNDV_RC != 0,
		},
		RawPacket: RawPacketCap(resp.RawPacketCaps), MaxWQTypeRQ: int(resp.MaxWqTypeRq), MaxDeviceMemory: resp.MaxDmSize,
		CQModerationCount:    int(resp.CqModerationCaps.MaxCqModerationCount),
		CQModerationPeriodUs: int(resp.CqModerationCaps.MaxCqModerationPeriod),
	}
	// The kernel puts the low flags into both fields.
	a.CapFlags |= DeviceCap(resp.DeviceCapFlagsEx)
	return a
}

// firmware formats a firmware version as rdma-core's providers for rxe (providers/rxe/rxe.c) and
// siw do: 1.2.3. Its provider for mlx5 pads the last part to 4 digits.
func firmware(v uint64) string {
	return fmt.Sprintf("%d.%d.%d", uint16(v>>32), uint16(v>>16), uint16(v))
}

// PortAttr is the state of a port; struct ibv_port_attr.
type PortAttr struct {
	State         PortState
	PhysState     int
	LinkLayer     LinkLayer
	MaxMTU        MTU
	ActiveMTU     MTU
	MaxMsgSize    uint32
	GIDTableLen   int
	PKeyTableLen  int
	CapFlags      uint32
	CapFlags2     uint16
	LID           LID
	SMLID         LID
	LMC           uint8
	SMSL          uint8
	MaxVLNum      uint8
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8 // code of the width: 1 (1X), 2 (4X), 4 (8X), 8 (12X), 16 (2X)
	ActiveSpeed   uint32
	Flags         uint8
	BadPKeys      uint32
	QKeyViols     uint32
}

// QueryPort reads the state of a port; ibv_query_port. Ports are numbered from 1.
func (c *Context) QueryPort(port int) (PortAttr, error) {
	var resp abi.QueryPortRespEx
	err := c.do(uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT).
		Const(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64(port)).
		Out(abi.UVERBS_ATTR_QUERY_PORT_RESP, abi.Bytes(&resp)))
	if err != nil {
		return PortAttr{}, err
	}
	p := &resp.LegacyResp
	a := PortAttr{
		State: PortState(p.State), PhysState: int(p.PhysState), LinkLayer: LinkLayer(p.LinkLayer), MaxMTU: MTU(p.MaxMtu),
		ActiveMTU: MTU(p.ActiveMtu), MaxMsgSize: p.MaxMsgSz, GIDTableLen: int(p.GidTblLen), PKeyTableLen: int(p.PkeyTblLen),
		CapFlags: p.PortCapFlags, CapFlags2: resp.PortCapFlags2, LID: LID(p.Lid), SMLID: LID(p.SmLid), LMC: p.Lmc, SMSL: p.SmSl,
		MaxVLNum: p.MaxVlNum, SubnetTimeout: p.SubnetTimeout, InitTypeReply: p.InitTypeReply, ActiveWidth: p.ActiveWidth,
		ActiveSpeed: uint32(p.ActiveSpeed), Flags: p.Flags, BadPKeys: p.BadPkeyCntr, QKeyViols: p.QkeyViolCntr,
	}
	if resp.ActiveSpeedEx != 0 {
		a.ActiveSpeed = resp.ActiveSpeedEx
	}
	return a, nil
}

// GIDEntry is an entry of a port's GID table.
type GIDEntry struct {
	GID     GID
	Index   int
	Port    int
	Type    GIDType
	IfIndex int // index of the network interface, 0 for none
}

func gidEntry(e *abi.GidEntry) GIDEntry {
	t := GIDUnknown
	if e.GidType <= abi.IB_UVERBS_GID_TYPE_ROCE_V2 {
		t = GIDType(e.GidType)
	}
	return GIDEntry{GID: e.Gid, Index: int(e.GidIndex), Port: int(e.PortNum), Type: t, IfIndex: int(e.NetdevIfindex)}
}

// QueryGID reads one entry of a port's GID table; ibv_query_gid_ex. It returns ucs.ErrNoElem if the
// entry is empty.
func (c *Context) QueryGID(port, index int) (GIDEntry, error) {
	var e abi.GidEntry
	err := c.do(uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY).
		Const(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT, uint64(port)).
		Const(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, uint64(index)).
		U32(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0).
		Out(abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, abi.Bytes(&e)))
	if err != nil {
		return GIDEntry{}, err
	}
	return gidEntry(&e), nil
}

// maxGIDs is the largest number of entries that QueryGIDTable reads, because an answer of the
// kernel has at most 64 KiB.
const maxGIDs = 2047

// QueryGIDTable reads the non-empty entries of all ports; ibv_query_gid_table.
func (c *Context) QueryGIDTable() ([]GIDEntry, error) {
	for most := 16; ; most = min(4*most, maxGIDs) {
		size := len(abi.Bytes(&abi.GidEntry{}))
		entries := make([]byte, most*size)
		var count [8]byte
		err := c.do(uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_TABLE).
			Const(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, uint64(size)).
			U32(abi.UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0).
			Out(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries).
			Out(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, count[:]))
		if errors.Is(err, syscall.EINVAL) && most < maxGIDs {
			continue // the table has more entries than the buffer
		}
		if err != nil {
			return nil, err
		}
		n := native64(count[:])
		if n > uint64(most) {
			return nil, fmt.Errorf("verbs: %s: the kernel returned %d GIDs, the buffer holds %d: %w", c.Name(), n, most, ucs.ErrIO)
		}
		list := make([]GIDEntry, n)
		for i := range list {
			var e abi.GidEntry
			copy(abi.Bytes(&e), entries[i*size:])
			list[i] = gidEntry(&e)
		}
		return list, nil
	}
}
