package verbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/uverbs"
)

// DeviceAttr is what a device can do; struct ibv_device_attr_ex.
type DeviceAttr struct {
	FirmwareVersion    uint64
	NodeGUID           GUID
	SysImageGUID       GUID
	MaxMRSize          uint64
	PageSizeCap        uint64
	VendorID           uint32
	VendorPartID       uint32
	HWVersion          uint32
	MaxQP              int
	MaxQPWR            int
	CapFlags           uint64 // IB_UVERBS_DEVICE_*
	MaxSGE             int
	MaxSGERead         int
	MaxCQ              int
	MaxCQE             int
	MaxMR              int
	MaxPD              int
	MaxQPRdAtom        int // reads and atomics a queue pair can be the target of
	MaxQPInitRdAtom    int // and that it can have under way
	MaxResRdAtom       int
	AtomicCap          int // 0 none, 1 within the device, 2 with the CPU too
	MaxMW              int
	MaxMcastGroups     int
	MaxMcastQPAttach   int
	MaxAH              int
	MaxSRQ             int // 0: no shared receive queues
	MaxSRQWR           int
	MaxSRQSGE          int
	MaxPKeys           int
	LocalCAAckDelay    int
	Ports              int
	ODPCaps            uint64
	TimestampMask      uint64
	CoreClockKHz       uint64
	MaxDeviceMemory    uint64
	CQModerationCount  int
	CQModerationPeriod int
}

// QueryDevice asks what the device can do; ibv_query_device_ex.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	var resp abi.ExQueryDeviceResp
	err := c.invoke(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
		abi.Bytes(&abi.ExQueryDevice{}), abi.Bytes(&resp))
	if err != nil {
		return DeviceAttr{}, err
	}
	b := &resp.Base
	a := DeviceAttr{
		FirmwareVersion: b.FwVer, NodeGUID: GUID(bigEndian(b.NodeGuid)), SysImageGUID: GUID(bigEndian(b.SysImageGuid)),
		MaxMRSize: b.MaxMrSize, PageSizeCap: b.PageSizeCap, VendorID: b.VendorId, VendorPartID: b.VendorPartId,
		HWVersion: b.HwVer, MaxQP: int(b.MaxQp), MaxQPWR: int(b.MaxQpWr), CapFlags: uint64(b.DeviceCapFlags),
		MaxSGE: int(b.MaxSge), MaxSGERead: int(b.MaxSgeRd), MaxCQ: int(b.MaxCq), MaxCQE: int(b.MaxCqe), MaxMR: int(b.MaxMr),
		MaxPD: int(b.MaxPd), MaxQPRdAtom: int(b.MaxQpRdAtom), MaxQPInitRdAtom: int(b.MaxQpInitRdAtom),
		MaxResRdAtom: int(b.MaxResRdAtom), AtomicCap: int(b.AtomicCap), MaxMW: int(b.MaxMw), MaxMcastGroups: int(b.MaxMcastGrp),
		MaxMcastQPAttach: int(b.MaxMcastQpAttach), MaxAH: int(b.MaxAh), MaxSRQ: int(b.MaxSrq), MaxSRQWR: int(b.MaxSrqWr),
		MaxSRQSGE: int(b.MaxSrqSge), MaxPKeys: int(b.MaxPkeys), LocalCAAckDelay: int(b.LocalCaAckDelay), Ports: int(b.PhysPortCnt),
		// What the kernel has not filled in is 0.
		ODPCaps: resp.OdpCaps.GeneralCaps, TimestampMask: resp.TimestampMask, CoreClockKHz: resp.HcaCoreClock,
		MaxDeviceMemory: resp.MaxDmSize, CQModerationCount: int(resp.CqModerationCaps.MaxCqModerationCount),
		CQModerationPeriod: int(resp.CqModerationCaps.MaxCqModerationPeriod),
	}
	if resp.DeviceCapFlagsEx != 0 {
		a.CapFlags = resp.DeviceCapFlagsEx
	}
	return a, nil
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
	ActiveWidth   uint8 // 1, 2 (4X), 4 (8X), 8 (12X), 16 (2X)
	ActiveSpeed   uint32
	Flags         uint8
	BadPKeys      uint32
	QKeyViols     uint32
}

// QueryPort asks for the state of a port, from 1; ibv_query_port.
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

// GIDEntry is an entry of the GID tables.
type GIDEntry struct {
	GID     GID
	Index   int
	Port    int
	Type    GIDType
	IfIndex int // of the network interface, 0 for none
}

func gidEntry(e *abi.GidEntry) GIDEntry {
	t := GIDUnknown
	if e.GidType <= abi.IB_UVERBS_GID_TYPE_ROCE_V2 {
		t = GIDType(e.GidType)
	}
	return GIDEntry{GID: e.Gid, Index: int(e.GidIndex), Port: int(e.PortNum), Type: t, IfIndex: int(e.NetdevIfindex)}
}

// QueryGID asks for one entry of a port's GID table; ibv_query_gid_ex. An empty
// entry is ucs.ErrNoElem.
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

// maxGIDs bounds the table of a device: an answer has at most 64 KiB.
const maxGIDs = 2047

// QueryGIDTable asks for the entries of all ports that are not empty;
// ibv_query_gid_table.
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
			continue // not enough room
		}
		if err != nil {
			return nil, err
		}
		n := native64(count[:])
		if n > uint64(most) {
			return nil, fmt.Errorf("verbs: %s: %d GIDs in room for %d: %w", c.Name(), n, most, ucs.ErrIO)
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
