//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func golden(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// rxe and siw return the values that ibv_devinfo of rdma-core 44.0 printed into testdata, on Linux
// 6.1.192.
func rxe() *hca {
	return &hca{
		device: &verbs.Device{Name: "rxe0", NodeType: verbs.NodeCA},
		attr: verbs.DeviceAttr{
			Firmware: "0.0.0", NodeGUID: 0x020000fffe000000, SysImageGUID: 0x020000fffe000000, VendorID: 0xffffff, Ports: 1,
			MaxMRSize: ^uint64(0), PageSizeCap: 0xfffff000, MaxQP: 1048560, MaxQPWR: 1048576, CapFlags: 0x1223c76, MaxSGE: 32,
			MaxSGERead: 32, MaxCQ: 1048576, MaxCQE: 32767, MaxMR: 524287, MaxPD: 1048576, MaxQPRdAtom: 128, MaxResRdAtom: 258048,
			MaxQPInitRdAtom: 128, AtomicCap: verbs.AtomicHCA, MaxMW: 524287, MaxMcastGroups: 8192, MaxMcastQPAttach: 56,
			MaxTotalMcastAttach: 458752, MaxAH: 32767, MaxSRQ: 917503, MaxSRQWR: 1048576, MaxSRQSGE: 27, MaxPKeys: 64, LocalCAAckDelay: 15,
		},
		vectors: 2,
		ports: []port{{
			num: 1,
			attr: verbs.PortAttr{
				State: verbs.PortActive, PhysState: 5, LinkLayer: verbs.LinkEthernet, MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU4096,
				MaxMsgSize: 8 << 20, GIDTableLen: 1024, PKeyTableLen: 1, CapFlags: 0x10000, MaxVLNum: 1, ActiveWidth: 1, ActiveSpeed: 1,
			},
			gids: []verbs.GIDEntry{
				{Index: 0, GID: verbs.GID{0xfe, 0x80, 8: 2, 11: 0xff, 12: 0xfe, 15: 0}, Type: verbs.GIDRoCEv2},
				{Index: 1, GID: verbs.GID{10: 0xff, 11: 0xff, 12: 127, 15: 1}, Type: verbs.GIDRoCEv2},
				{Index: 2, GID: verbs.GID{15: 1}, Type: verbs.GIDRoCEv2},
			},
		}},
	}
}

func siw() *hca {
	return &hca{
		device: &verbs.Device{Name: "siw0", NodeType: verbs.NodeRNIC},
		attr: verbs.DeviceAttr{
			Firmware: "0.0.0", NodeGUID: 0xacc033fffe0260ec, SysImageGUID: 0xacc033fffe0260ec, VendorID: 0x626d74, VendorPartID: 1, Ports: 1,
			MaxMRSize: ^uint64(0), PageSizeCap: 0x1000, MaxQP: 102400, MaxQPWR: 32768, CapFlags: verbs.DeviceMemMgtExtensions, MaxSGE: 6,
			MaxSGERead: 1, MaxCQ: 102400, MaxCQE: 3276800, MaxMR: 1024000, MaxPD: 102400, MaxQPRdAtom: 128, MaxResRdAtom: 13107200,
			MaxQPInitRdAtom: 128, MaxSRQ: 102400, MaxSRQWR: 327680, MaxSRQSGE: 6,
		},
		vectors: 2,
		ports: []port{{
			num: 1,
			attr: verbs.PortAttr{
				State: verbs.PortActive, PhysState: 5, LinkLayer: verbs.LinkEthernet, MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU4096,
				MaxMsgSize: ^uint32(0), GIDTableLen: 1, CapFlags: 0x90000, ActiveWidth: 1, ActiveSpeed: 8,
			},
			gids: []verbs.GIDEntry{{GID: verbs.GID{0xae, 0xc0, 0x33, 2, 0x60, 0xec}, Type: verbs.GIDRoCEv1}},
		}},
	}
}

// TestAsC prints the values that the C tool printed, and compares the output.
func TestAsC(t *testing.T) {
	for _, tt := range []struct {
		file    string
		hca     *hca
		verbose bool
	}{
		{"ibv_devinfo-44-rxe.txt", rxe(), false},
		{"ibv_devinfo-v-44-rxe.txt", rxe(), true},
		{"ibv_devinfo-v-44-siw.txt", siw(), true},
	} {
		var b strings.Builder
		writeHCA(&b, tt.hca, tt.verbose)
		if diff := cmp.Diff(golden(t, tt.file), b.String()); diff != "" {
			t.Errorf("%s (-C +ours):\n%s", tt.file, diff)
		}
	}
}

// TestAdapter checks what soft-RoCE does not have: values of an adapter, as in openucx/ucx issues
// 9727 and 10430, and unusual ones. The expected output is that of the C tool of rdma-core 44.0,
// with a library in between that supplies these values.
func TestAdapter(t *testing.T) {
	h := rxe()
	h.device = &verbs.Device{Name: "mlx5_0", NodeType: verbs.NodeCA, BoardID: "MT_0000000838"}
	a := &h.attr
	a.Firmware, a.VendorID, a.VendorPartID, a.HWVersion, a.Ports = "28.42.1000", 0x2c9, 4129, 0xab, 3
	a.CapFlags |= verbs.DeviceXRC | verbs.DeviceManagedFlowSteer | verbs.DeviceRawScatterFCS | verbs.DevicePCIWriteEndPadding | 1<<31 | 1<<40
	all := ^uint32(0) // as the kernel reports it
	a.AtomicCap, a.MaxAH, a.MaxFMR, a.MaxMapPerFMR, a.MaxSRQ = 7, int(all), 3, 4, 0
	a.ODP = verbs.ODPCaps{
		General: verbs.ODPSupport | verbs.ODPSupportImplicit | 1<<9, RC: verbs.ODPSend | verbs.ODPRecv | verbs.ODPWrite | verbs.ODPRead | verbs.ODPSRQRecv,
		UD: verbs.ODPSend | 1<<6, XRC: verbs.ODPAtomic,
	}
	a.TimestampMask, a.CoreClockKHz, a.RawPacket = 0x7fffffffffffffff, 156250, 0xf|1<<8
	a.TSO = verbs.TSOCaps{MaxTSO: 262144, QPTypes: 1 << 8}
	a.RSS = verbs.RSSCaps{QPTypes: 1<<8 | 1<<4 | 1<<2, MaxRWQIndirectionTables: 8, MaxRWQIndirectionTableSize: 2048, RxHashFunction: 1, RxHashFieldsMask: 0x800000ff}
	a.MaxWQTypeRQ, a.MaxDeviceMemory, a.CQModerationCount, a.CQModerationPeriodUs = 8388608, 131072, 65535, 4095
	a.PacketPacing = verbs.PacketPacingCaps{MinKbps: 1, MaxKbps: 100000000, QPTypes: 1 << 8}
	a.TagMatching = verbs.TMCaps{MaxRndvHdrSize: 64, MaxNumTags: 127, MaxOps: 32768, MaxSGE: 1, RC: true}
	h.vectors = 63
	ib := port{num: 1, attr: verbs.PortAttr{
		State: verbs.PortArmed, PhysState: 4, LinkLayer: verbs.LinkInfiniBand, MaxMTU: verbs.MTU4096, ActiveMTU: 9, LID: 0xfff0, SMLID: 1, LMC: 3,
		MaxVLNum: 5, ActiveWidth: 2, ActiveSpeed: 128, BadPKeys: 0x1f, QKeyViols: 2, SMSL: 1, SubnetTimeout: 18, InitTypeReply: 1, CapFlags2: 0x3f, GIDTableLen: 4,
	}, gids: []verbs.GIDEntry{{Index: 3, GID: verbs.GID{0xfe, 0x80, 15: 7}, Type: verbs.GIDInfiniBand}}}
	roce := port{num: 2, attr: verbs.PortAttr{State: 6, PhysState: 8, LinkLayer: 3, MaxVLNum: 6, ActiveWidth: 3, ActiveSpeed: 3}}
	h.ports = []port{ib, roce}
	roce.attr.LinkLayer, roce.attr.GIDTableLen, roce.num = verbs.LinkEthernet, 103, 3
	roce.gids = []verbs.GIDEntry{
		{Index: 100, GID: verbs.GID{0xfe, 0x80, 15: 7}, Type: verbs.GIDRoCEv1},
		{Index: 101, GID: verbs.GID{12: 10, 15: 1}, Type: verbs.GIDRoCEv2},
		{Index: 102, GID: verbs.GID{0x20, 1, 0xd, 0xb8, 11: 1, 15: 1}, Type: verbs.GIDRoCEv2},
	}
	h.ports = append(h.ports, roce)
	var b strings.Builder
	writeHCA(&b, h, true)
	if diff := cmp.Diff(golden(t, "ibv_devinfo-v-44-adapter.txt"), b.String()); diff != "" {
		t.Errorf("output (-C +ours):\n%s", diff)
	}
}

// TestAddress checks that IPv6 addresses are formatted as by glibc.
func TestAddress(t *testing.T) {
	for want, g := range map[string]verbs.GID{
		"::":                  {},
		"::1":                 verbs.GID{15: 1},
		"::ff":                verbs.GID{15: 0xff},
		"::0.1.0.0":           verbs.GID{13: 1, 15: 0},
		"::10.0.0.1":          verbs.GID{12: 10, 15: 1},
		"::ffff:10.9.0.1":     verbs.GID{10: 0xff, 11: 0xff, 12: 10, 13: 9, 15: 1},
		"fe80::200:ff:fe00:0": verbs.GID{0xfe, 0x80, 8: 2, 11: 0xff, 12: 0xfe, 15: 0},
		"::1:0:0:0:1":         verbs.GID{7: 1, 15: 1},
		"1::1:0:0:1":          verbs.GID{1: 1, 9: 1, 15: 1},
		"1:0:1:1:1:1:1:1":     verbs.GID{1: 1, 5: 1, 7: 1, 9: 1, 11: 1, 13: 1, 15: 1},
	} {
		if got := ipv6(g); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// fake returns a machine with one simulated device, and the sysfs tree of rxe on lo.
func fake(t *testing.T) (machine, *verbstest.Kernel) {
	t.Helper()
	ucttest.NoLeaks(t)
	listing, err := os.ReadFile("../../verbs/testdata/sysfs/rxe-lo.txt")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := verbstest.Sysfs(root, string(listing)); err != nil {
		t.Fatal(err)
	}
	k := verbstest.New()
	return machine{sysfs: root, open: func(d *verbs.Device) (*verbs.Context, error) { return verbs.NewContext(k.Open(), d.ABIVersion) }}, k
}

// runs runs the command and returns its output, errors and exit code.
func runs(m machine, args ...string) (stdout, stderr string, code int) {
	var out, errs strings.Builder
	code = m.run(args, &out, &errs)
	return out.String(), errs.String(), code
}

// TestRun checks that the output for a device is that of the C tool, except for the limits of the
// simulated device.
func TestRun(t *testing.T) {
	m, _ := fake(t)
	limits := strings.NewReplacer(
		"max_qp_wr:\t\t\t1048576", "max_qp_wr:\t\t\t16384", "max_srq_wr:\t\t\t1048576", "max_srq_wr:\t\t\t16384",
		"max_cq:\t\t\t\t1048576", "max_cq:\t\t\t\t1048575", "max_pd:\t\t\t\t1048576", "max_pd:\t\t\t\t1048572",
		"max_srq:\t\t\t917503", "max_srq:\t\t\t32767", "gid_tbl_len:\t\t1024", "gid_tbl_len:\t\t16",
		"port_cap_flags:\t\t0x00010000", "port_cap_flags:\t\t0x01010000",
	)
	for args, file := range map[string]string{"-v": "ibv_devinfo-v-44-rxe.txt", "": "ibv_devinfo-44-rxe.txt", "-v -d rxe0 -i 1": "ibv_devinfo-v-44-rxe.txt"} {
		stdout, stderr, code := runs(m, strings.Fields(args)...)
		if diff := cmp.Diff(limits.Replace(golden(t, file)), stdout); diff != "" || stderr != "" || code != exitOK {
			t.Errorf("%s: %d, %q (-want +got):\n%s", args, code, stderr, diff)
		}
	}
	if stdout, _, code := runs(m, "-vlz"); stdout != "1 HCA found:\n\trxe0\n\n" || code != exitOK {
		t.Errorf("-l: %q, %d", stdout, code)
	}
	m.sysfs = t.TempDir()
	if stdout, _, code := runs(m, "--list"); stdout != "0 HCAs found:\n\n" || code != exitOK {
		t.Errorf("-l of nothing: %q, %d", stdout, code)
	}
}

func TestErrors(t *testing.T) {
	one, k := fake(t)
	none := machine{sysfs: t.TempDir()}
	closed := one
	closed.open = func(*verbs.Device) (*verbs.Context, error) { return nil, errors.New("no such luck") }
	for _, tt := range []struct {
		name, args string
		m          machine
		fail       string // the call that fails
		code       int
		stdout     string // prefix of the output
		stderr     string // part of the errors
	}{
		{"no devices", "", none, "", 255, "", "no RDMA devices"},
		{"no such device", "-d rxe7", one, "", 255, "", "no device rxe7"},
		{"not opened", "", closed, "", 1, "", "rxe0: not opened: no such luck"},
		{"not queried", "", one, "EX_QUERY_DEVICE", 2, "", "rxe0: not queried: "},
		{"no such port", "-i 2", one, "", 4, "", "rxe0: port 2: the device has no such port, it has 1"},
		{"the port fails", "", one, "DEVICE.QUERY_PORT", int(syscall.EIO), "hca_id:\trxe0\n", "rxe0: not all queried: "},
		{"the table fails", "-v", one, "DEVICE.QUERY_GID_TABLE", 255, "hca_id:\trxe0\n", "rxe0: not all queried: no table of GIDs: "},
		{"no port", "-i 0", one, "", 1, "Usage: ", "-i 0: not the number of a port"},
		{"a negative port", "-i -1", one, "", 1, "Usage: ", "not the number of a port"},
		{"a word for a port", "--ib-port=one", one, "", 1, "Usage: ", "-i one: not the number of a port"},
		{"unknown option", "-z", one, "", 255, "Usage: ", "invalid option -- 'z'"},
		{"help", "-h", none, "", 0, "Usage: ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.fail != "" {
				k.FailCall(tt.fail, 0, syscall.EIO)
			}
			stdout, stderr, code := runs(tt.m, strings.Fields(tt.args)...)
			if code != tt.code || !strings.HasPrefix(stdout, tt.stdout) || tt.stdout == "" && stdout != "" ||
				!strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
				t.Errorf("%d, %q, %q", code, stdout, stderr)
			}
			if k.Objects() != 0 {
				t.Errorf("%d objects left", k.Objects())
			}
		})
	}
}
