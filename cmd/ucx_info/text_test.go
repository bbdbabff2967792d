package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// capturedDomains returns the values of C UCX 1.22.0 on the machine where
// testdata/ucx_info-d-1.22.0.txt was captured.
func capturedDomains() []domain {
	const allOps = 1<<uct.AtomicAdd | 1<<uct.AtomicAnd | 1<<uct.AtomicOr | 1<<uct.AtomicXor
	atomics := uct.AtomicOps{Post: allOps, Fetch: allOps | 1<<uct.AtomicSwap | 1<<uct.AtomicCSwap}
	host := []ucs.MemoryType{ucs.MemoryHost}
	tcp := func(device string, bandwidth float64, priority uint8, deviceAddr int) iface {
		return iface{
			resource: uct.Resource{Transport: "tcp", Device: device, Type: uct.DeviceNetwork, SysDevice: -1},
			attr: &uct.IfaceAttr{
				Flags: uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy | uct.IfacePutZcopy |
					uct.IfaceConnectToEP | uct.IfaceConnectToIface |
					uct.IfaceErrHandlePeerFail | uct.IfaceEpCheck | uct.IfaceEpKeepalive,
				AM: uct.AMLimits{
					MaxShort: 8192, MaxBcopy: 8192, MaxZcopy: 65536, MaxZcopyHdr: 8037, MaxIOV: 6, OptZcopyAlign: 1,
				},
				Put:           uct.RMALimits{MaxZcopy: uct.Unlimited - 25, MaxIOV: 6, OptZcopyAlign: 1},
				DeviceAddrLen: deviceAddr, IfaceAddrLen: 2, EpAddrLen: 10,
				MaxEndpoints: 256, NumPaths: 1,
				Perf: uct.Perf{
					BandwidthShared: bandwidth * mbyte, Latency: uct.Linear{C: 10960e-9}, Overhead: 50e-6, Priority: priority,
				},
			},
		}
	}
	return []domain{
		{
			component: "self", name: "self", componentFlags: uct.ComponentFlagRkeyPtr,
			attr: &uct.MDAttr{
				Flags: uct.MDFlagRegister | uct.MDFlagNeedRkey, MaxReg: math.MaxUint64, RegTypes: host, AccessTypes: host,
				NonblockTypes: host, CacheTypes: host,
			},
			ifaces: []iface{{
				resource: uct.Resource{Transport: "self", Device: "memory", Type: uct.DeviceSelf, SysDevice: -1},
				attr: &uct.IfaceAttr{
					Flags: uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfacePutShort | uct.IfacePutBcopy |
						uct.IfaceGetBcopy | uct.IfaceAtomicCPU | uct.IfaceConnectToIface | uct.IfaceEpCheck,
					AM:       uct.AMLimits{MaxShort: 8192, MaxBcopy: 8192},
					Put:      uct.RMALimits{MaxShort: min(math.MaxUint32, math.MaxInt), MaxBcopy: uct.Unlimited},
					Get:      uct.RMALimits{MaxBcopy: uct.Unlimited},
					Atomic32: atomics, Atomic64: atomics,
					IfaceAddrLen: 8, MaxEndpoints: uct.Unlimited, NumPaths: 1,
					Perf: uct.Perf{BandwidthDedicated: 19360 * mbyte, Overhead: 10e-9},
				},
			}},
		},
		{
			component: "tcp", name: "tcp", attr: &uct.MDAttr{},
			ifaces:  []iface{tcp("eth0", 11.27, 0, 6), tcp("lo", 11.91, 1, 14)},
			manager: &manager{attr: &uct.ConnManagerAttr{Component: "tcp", MaxPrivate: 2064}},
		},
	}
}

// TestTextAsC prints C's values and expects C's bytes.
func TestTextAsC(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "ucx_info-d-1.22.0.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	writeDomains(&b, capturedDomains())
	if diff := cmp.Diff(string(text), b.String()); diff != "" {
		t.Errorf("output (-C +ours):\n%s", diff)
	}
}

func TestTextRareCapabilities(t *testing.T) {
	failure := errors.New("no such luck")
	list := []domain{
		{
			component: "ib", name: "mlx5_0",
			attr: &uct.MDAttr{
				Flags: uct.MDFlagAlloc | uct.MDFlagRegister | uct.MDFlagRegDmabuf | uct.MDFlagNeedRkey |
					uct.MDFlagNeedMemh | uct.MDFlagInvalidate,
				MaxAlloc: 1 << 20, MaxReg: math.MaxUint64, RegCost: uct.Linear{C: 180e-9, M: 0.06e-9}, RkeyPackedSize: 8,
				RegTypes:    []ucs.MemoryType{ucs.MemoryHost, ucs.MemoryCUDA},
				AllocTypes:  []ucs.MemoryType{ucs.MemoryHost},
				AccessTypes: []ucs.MemoryType{ucs.MemoryHost},
			},
			ifaces: []iface{
				{
					resource: uct.Resource{Transport: "rc", Device: "mlx5_0:1", SysDevice: 2},
					attr: &uct.IfaceAttr{
						Flags: uct.IfaceGetZcopy | uct.IfaceAtomicDevice | uct.IfaceErrHandleShortBuf |
							uct.IfaceErrHandleZcopyBuf | uct.IfaceErrHandleAMID | uct.IfaceErrHandleRemoteMem,
						Get:      uct.RMALimits{MinZcopy: 65, MaxZcopy: 1 << 30, MaxIOV: 3, OptZcopyAlign: 512, AlignMTU: 4096},
						Atomic64: uct.AtomicOps{Post: 1 << uct.AtomicAdd, Fetch: 1 << uct.AtomicCSwap},
						Perf:     uct.Perf{Latency: uct.Linear{C: 600e-9, M: 1e-9}},
					},
				},
				{resource: uct.Resource{Transport: "ud", Device: "mlx5_0:1", SysDevice: -1}, err: failure},
			},
		},
		{component: "knem", name: "knem", err: failure},
		{component: "cma", name: "cma", attr: &uct.MDAttr{}, manager: &manager{err: failure}},
	}
	const want = `#
# Memory domain: mlx5_0
#     Component: ib
#             allocate: <= 1M
#             register: unlimited, dmabuf, cost: 180 + 0.060 * N nsec
#           remote key: 8 bytes
#           local memory handle is required for zcopy
#           memory invalidation is supported
#         memory types: host (access,alloc,reg), cuda (reg)
#
#      Transport: rc
#         Device: mlx5_0:1
#           Type: network
#  System device: mlx5_0:1 (2)
#
#      capabilities:
#            bandwidth: 0.00/ppn + 0.00 MB/sec
#              latency: 600 + 1.000 * N nsec
#             overhead: 0 nsec
#            get_zcopy: 65..1G, up to 3 iov
#  get_opt_zcopy_align: <= 512
#        get_align_mtu: <= 4K
#               domain: device
#           atomic_add: 64 bit
#         atomic_cswap: 64 bit
#           connection: none
#      device priority: 0
#     device num paths: 0
#              max eps: 0
#       device address: 0 bytes
#       error handling: buffer (short,zcopy), active-message id, remote access
#
#
#      Transport: ud
#         Device: mlx5_0:1
#           Type: network
#  System device: <unknown>
#   < failed to open interface: no such luck >
# < failed to open memory domain knem for component knem: no such luck >
#
# Memory domain: cma
#     Component: cma
#         memory types: 
#   < no supported devices found >
# < failed to open connection manager cma: no such luck >
`
	var b strings.Builder
	writeDomains(&b, list)
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
