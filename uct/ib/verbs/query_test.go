//go:build linux

package verbs

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// TestDeviceCapNames compares names and bits with the kernel's header.
func TestDeviceCapNames(t *testing.T) {
	const header = "/usr/include/rdma/ib_user_verbs.h"
	text, err := os.ReadFile(header)
	if err != nil {
		needtest.Tool(t, fmt.Sprintf("%v (apt-get install linux-libc-dev)", err))
	}
	found := 0
	for _, m := range regexp.MustCompile(`IB_UVERBS_DEVICE_(\w+) = 1(?:ULL)? << (\d+)`).FindAllSubmatch(text, -1) {
		bit, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		if bit >= len(deviceCaps) || deviceCaps[bit] == "" {
			t.Logf("%s has no name here", m[1])
			continue
		}
		found++
		if deviceCaps[bit] != string(m[1]) {
			t.Errorf("bit %d is %s, %s in C", bit, deviceCaps[bit], m[1])
		}
	}
	named := 0
	for _, s := range deviceCaps {
		if s != "" {
			named++
		}
	}
	if found != named {
		t.Errorf("%d of %d names are those of the header", found, named)
	}
	for c, want := range map[DeviceCap]string{
		0:                                "0x0",
		DeviceXRC | DeviceResizeMaxWR:    "RESIZE_MAX_WR|XRC",
		DeviceRawScatterFCS | 1<<31:      "RAW_SCATTER_FCS|0x80000000",
		1<<63 | DevicePCIWriteEndPadding: "PCI_WRITE_END_PADDING|0x8000000000000000",
	} {
		if c.String() != want {
			t.Errorf("%#x is %v, want %s", uint64(c), c, want)
		}
	}
}

// TestDeviceAttr checks that each field of the kernel's answer is copied to the right field.
func TestDeviceAttr(t *testing.T) {
	var resp abi.ExQueryDeviceResp
	b := abi.Bytes(&resp)
	for i := range b {
		b[i] = byte(i*37 + i>>8 + 1)
	}
	a := deviceAttr(&resp)
	for name, ok := range map[string]bool{
		"firmware":   a.FirmwareVersion == resp.Base.FwVer && a.Firmware == firmware(a.FirmwareVersion),
		"GUIDs":      a.NodeGUID == GUID(bigEndian(resp.Base.NodeGuid)) && a.SysImageGUID == GUID(bigEndian(resp.Base.SysImageGuid)),
		"EEs":        a.MaxEE == int(resp.Base.MaxEe) && a.MaxEERdAtom == int(resp.Base.MaxEeRdAtom) && a.MaxEEInitRdAtom == int(resp.Base.MaxEeInitRdAtom),
		"multicast":  a.MaxTotalMcastAttach == int(resp.Base.MaxTotalMcastQpAttach) && a.MaxMcastQPAttach == int(resp.Base.MaxMcastQpAttach),
		"raw QPs":    a.MaxRawIPv6QP == int(resp.Base.MaxRawIpv6Qp) && a.MaxRawEthyQP == int(resp.Base.MaxRawEthyQp),
		"FMRs":       a.MaxFMR == int(resp.Base.MaxFmr) && a.MaxMapPerFMR == int(resp.Base.MaxMapPerFmr),
		"ODP":        a.ODP == ODPCaps{ODPGeneralCap(resp.OdpCaps.GeneralCaps), ODPCap(resp.OdpCaps.RcOdpCaps), ODPCap(resp.OdpCaps.UcOdpCaps), ODPCap(resp.OdpCaps.UdOdpCaps), ODPCap(resp.XrcOdpCaps)},
		"timestamps": a.TimestampMask == resp.TimestampMask && a.CoreClockKHz == resp.HcaCoreClock,
		"flags":      a.CapFlags == DeviceCap(resp.DeviceCapFlagsEx)|DeviceCap(resp.Base.DeviceCapFlags),
		"RSS": a.RSS == RSSCaps{QPTypes: resp.RssCaps.SupportedQpts, MaxRWQIndirectionTables: resp.RssCaps.MaxRwqIndirectionTables,
			MaxRWQIndirectionTableSize: resp.RssCaps.MaxRwqIndirectionTableSize},
		"tags": a.TagMatching == TMCaps{resp.TmCaps.MaxRndvHdrSize, resp.TmCaps.MaxNumTags, resp.TmCaps.MaxOps, resp.TmCaps.MaxSge, resp.TmCaps.Flags&1 != 0},
		"raw":  a.RawPacket == RawPacketCap(resp.RawPacketCaps) && a.MaxWQTypeRQ == int(resp.MaxWqTypeRq),
		"CQ moderation": a.CQModerationCount == int(resp.CqModerationCaps.MaxCqModerationCount) &&
			a.CQModerationPeriodUs == int(resp.CqModerationCaps.MaxCqModerationPeriod),
		"device memory": a.MaxDeviceMemory == resp.MaxDmSize,
		"driver's":      a.TSO == TSOCaps{} && a.PacketPacing == PacketPacingCaps{} && a.RSS.RxHashFieldsMask == 0,
	} {
		if !ok {
			t.Errorf("%s: %+v of %+v", name, a, resp)
		}
	}
	if s := firmware(20<<32 | 29<<16 | 1016); s != "20.29.1016" {
		t.Error(s)
	}
}
