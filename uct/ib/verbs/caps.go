//go:build linux

package verbs

import (
	"fmt"
	"strings"
)

// DeviceCap is a set of capabilities of a device.
type DeviceCap uint64

// Capabilities of a device; enum ib_uverbs_device_cap_flags, ib_user_verbs.h.
const (
	DeviceResizeMaxWR        DeviceCap = 1 << 0
	DeviceBadPKeyCounter     DeviceCap = 1 << 1
	DeviceBadQKeyCounter     DeviceCap = 1 << 2
	DeviceRawMulti           DeviceCap = 1 << 3
	DeviceAutoPathMigration  DeviceCap = 1 << 4
	DeviceChangePhyPort      DeviceCap = 1 << 5
	DeviceUDAVPortEnforce    DeviceCap = 1 << 6
	DeviceCurrQPStateMod     DeviceCap = 1 << 7
	DeviceShutdownPort       DeviceCap = 1 << 8
	DeviceInitType           DeviceCap = 1 << 9
	DevicePortActiveEvent    DeviceCap = 1 << 10
	DeviceSysImageGUID       DeviceCap = 1 << 11
	DeviceRCRNRNakGen        DeviceCap = 1 << 12
	DeviceSRQResize          DeviceCap = 1 << 13
	DeviceNNotifyCQ          DeviceCap = 1 << 14
	DeviceMemWindow          DeviceCap = 1 << 17
	DeviceUDIPChecksum       DeviceCap = 1 << 18
	DeviceXRC                DeviceCap = 1 << 20
	DeviceMemMgtExtensions   DeviceCap = 1 << 21
	DeviceMemWindowType2A    DeviceCap = 1 << 23
	DeviceMemWindowType2B    DeviceCap = 1 << 24
	DeviceRCIPChecksum       DeviceCap = 1 << 25
	DeviceRawIPChecksum      DeviceCap = 1 << 26
	DeviceManagedFlowSteer   DeviceCap = 1 << 29
	DeviceRawScatterFCS      DeviceCap = 1 << 34
	DevicePCIWriteEndPadding DeviceCap = 1 << 36
)

// deviceCaps has the names that rdma-core gives to the bits of a DeviceCap, by bit number.
var deviceCaps = [...]string{
	0: "RESIZE_MAX_WR", 1: "BAD_PKEY_CNTR", 2: "BAD_QKEY_CNTR", 3: "RAW_MULTI", 4: "AUTO_PATH_MIG", 5: "CHANGE_PHY_PORT",
	6: "UD_AV_PORT_ENFORCE", 7: "CURR_QP_STATE_MOD", 8: "SHUTDOWN_PORT", 9: "INIT_TYPE", 10: "PORT_ACTIVE_EVENT",
	11: "SYS_IMAGE_GUID", 12: "RC_RNR_NAK_GEN", 13: "SRQ_RESIZE", 14: "N_NOTIFY_CQ", 17: "MEM_WINDOW", 18: "UD_IP_CSUM",
	20: "XRC", 21: "MEM_MGT_EXTENSIONS", 23: "MEM_WINDOW_TYPE_2A", 24: "MEM_WINDOW_TYPE_2B", 25: "RC_IP_CSUM",
	26: "RAW_IP_CSUM", 29: "MANAGED_FLOW_STEERING", 34: "RAW_SCATTER_FCS", 36: "PCI_WRITE_END_PADDING",
}

// Names lists the capabilities in the set, in the order of the bits, under the names of
// rdma-core without IBV_DEVICE_. unknown holds the bits without a name.
func (c DeviceCap) Names() (names []string, unknown DeviceCap) {
	for i, s := range deviceCaps {
		if s != "" && c&(1<<i) != 0 {
			names = append(names, s)
			c &^= 1 << i
		}
	}
	return names, c
}

// String returns the names joined by |, and the bits without a name as one number, for example
// XRC|0x80000000.
func (c DeviceCap) String() string {
	names, unknown := c.Names()
	if unknown != 0 || len(names) == 0 {
		names = append(names, fmt.Sprintf("%#x", uint64(unknown)))
	}
	return strings.Join(names, "|")
}

// AtomicCap is the scope of a device's atomic operations: the other memory accesses with respect to
// which they are atomic.
type AtomicCap int

// Scopes of atomic operations; enum ibv_atomic_cap, rdma-core libibverbs/verbs.h.
const (
	AtomicNone   AtomicCap = iota // no atomic operations
	AtomicHCA                     // atomic with respect to other atomics of the device
	AtomicGlobal                  // also atomic with respect to accesses of the CPU
)

// String returns the name of the constant in rdma-core without IBV_ATOMIC_.
func (a AtomicCap) String() string { return name(int(a), "NONE", "HCA", "GLOB") }

// ODPGeneralCap is a set of capabilities of on-demand paging: access to memory that is not pinned.
type ODPGeneralCap uint64

// Capabilities of on-demand paging; enum ibv_odp_general_caps, rdma-core libibverbs/verbs.h.
const (
	ODPSupport         ODPGeneralCap = 1 << 0
	ODPSupportImplicit ODPGeneralCap = 1 << 1
)

// ODPCap is a set of operations that support on-demand paging.
type ODPCap uint32

// Operations with on-demand paging; enum ibv_odp_transport_cap_bits, rdma-core
// libibverbs/verbs.h.
const (
	ODPSend    ODPCap = 1 << 0
	ODPRecv    ODPCap = 1 << 1
	ODPWrite   ODPCap = 1 << 2
	ODPRead    ODPCap = 1 << 3
	ODPAtomic  ODPCap = 1 << 4
	ODPSRQRecv ODPCap = 1 << 5
)

// RawPacketCap is a set of capabilities of queue pairs for raw packets.
type RawPacketCap uint32

// Capabilities of queue pairs for raw packets; enum ib_uverbs_raw_packet_caps, ib_user_verbs.h.
const (
	RawPacketCVLANStripping RawPacketCap = 1 << 0
	RawPacketScatterFCS     RawPacketCap = 1 << 1
	RawPacketIPChecksum     RawPacketCap = 1 << 2
	RawPacketDelayDrop      RawPacketCap = 1 << 3
)
