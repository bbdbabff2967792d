//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// attr is what the kernel tells of the device.
func (k *Kernel) attr() abi.ExQueryDeviceResp {
	l, guid := &k.cfg.Limits, bigEndian(k.cfg.NodeGUID)
	atomics := uint32(1) // atomic with others of the device
	if l.NoAtomics {
		atomics = 0
	}
	a := abi.ExQueryDeviceResp{
		Base: abi.QueryDeviceResp{
			NodeGuid: guid, SysImageGuid: guid, PhysPortCnt: uint8(len(k.ports)),
			MaxMrSize: ^uint64(0), PageSizeCap: 0xfffff000, VendorId: 0xffffff, MaxQp: uint32(l.QPs), MaxQpWr: uint32(l.WR),
			DeviceCapFlags: 0x1223c76, MaxSge: uint32(l.SGE), MaxSgeRd: uint32(l.SGE), MaxCq: 0xfffff, MaxCqe: uint32(l.CQE), MaxMr: 0x7ffff,
			MaxPd: 0xffffc, MaxQpRdAtom: uint32(l.RdAtomic), MaxResRdAtom: 0x3f000, MaxQpInitRdAtom: uint32(l.RdAtomic), AtomicCap: atomics, MaxMw: 0x7ffff,
			MaxMcastGrp: 8192, MaxMcastQpAttach: 56, MaxTotalMcastQpAttach: 8192 * 56, MaxAh: 0x7fff, MaxSrq: uint32(l.SRQs),
			MaxSrqWr: uint32(l.SRQWR), MaxSrqSge: uint32(min(l.SGE, maxSRQSGE)), MaxPkeys: 64, LocalCaAckDelay: 15,
		},
		ResponseLength: 304,
	}
	k.of.attr(&a)
	a.DeviceCapFlagsEx = uint64(a.Base.DeviceCapFlags)
	return a
}
