//go:build linux

package verbs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// tree makes a directory like sysfs from a listing in testdata.
func tree(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/sysfs", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := verbstest.Sysfs(root, string(b)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return root
}

func write(t testing.TB, root, path, text string) {
	t.Helper()
	file := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func gid(s string) GID {
	g, ok := parseGID(s)
	if !ok {
		panic(s)
	}
	return g
}

// ethernet returns a RoCE or iWARP port that is up.
func ethernet(rate float64, text string, lid LID, pkeys []PKey, gids ...PortGID) []Port {
	return []Port{{
		Num: 1, State: PortActive, PhysState: "LinkUp", LinkLayer: LinkEthernet, LID: lid, Rate: rate, RateText: text,
		GIDs: gids, PKeys: pkeys,
	}}
}

// TestSysfs parses the trees of testdata.
func TestSysfs(t *testing.T) {
	one := []PKey{0xffff}
	const soft = "10 Gb/sec (1X FDR10)"
	manyPKeys := make([]PKey, 128)
	manyPKeys[0], manyPKeys[1] = 0xffff, 0x8001
	tests := map[string][]Device{
		"rxe": {
			{
				Name: "rxe0", Uverbs: "uverbs0", Path: "/dev/infiniband/uverbs0", Rdev: unix.Mkdev(231, 192), ABIVersion: 2,
				NodeType: NodeCA, NodeGUID: 0x081ee4fffebf8233, SysImageGUID: 0x081ee4fffebf8233, NodeDesc: "rxe", Parent: "veth0", NUMANode: -1,
				Ports: ethernet(10, soft, 0, one,
					PortGID{0, gid("fe80:0000:0000:0000:081e:e4ff:febf:8233"), GIDRoCEv2, "veth0"},
					PortGID{1, gid("0000:0000:0000:0000:0000:ffff:0a09:0001"), GIDRoCEv2, "veth0"}),
			},
			{
				Name: "rxe1", Uverbs: "uverbs1", Path: "/dev/infiniband/uverbs1", Rdev: unix.Mkdev(231, 193), ABIVersion: 2,
				NodeType: NodeCA, NodeGUID: 0xb084f7fffe7fcf48, SysImageGUID: 0xb084f7fffe7fcf48, NodeDesc: "rxe", Parent: "veth1", NUMANode: -1,
				Ports: ethernet(10, soft, 0, one,
					PortGID{0, gid("fe80:0000:0000:0000:b084:f7ff:fe7f:cf48"), GIDRoCEv2, "veth1"},
					PortGID{1, gid("0000:0000:0000:0000:0000:ffff:0a09:0002"), GIDRoCEv2, "veth1"}),
			},
		},
		"rxe-lo": {{
			Name: "rxe0", Uverbs: "uverbs0", Path: "/dev/infiniband/uverbs0", Rdev: unix.Mkdev(231, 192), ABIVersion: 2,
			NodeType: NodeCA, NodeGUID: 0x020000fffe000000, SysImageGUID: 0x020000fffe000000, NodeDesc: "rxe", Parent: "lo", NUMANode: -1,
			Ports: ethernet(2.5, "2.5 Gb/sec (1X SDR)", 0, one,
				PortGID{0, gid("fe80:0000:0000:0000:0200:00ff:fe00:0000"), GIDRoCEv2, "lo"},
				PortGID{1, gid("0000:0000:0000:0000:0000:ffff:7f00:0001"), GIDRoCEv2, "lo"},
				PortGID{2, GID{15: 1}, GIDRoCEv2, "lo"}),
		}},
		// It has no P_Keys, and a GID without a network interface, which contains the
		// address of one.
		"siw": {
			{
				Name: "siw0", Uverbs: "uverbs0", Path: "/dev/infiniband/uverbs0", Rdev: unix.Mkdev(231, 192), ABIVersion: 1,
				NodeType: NodeRNIC, NodeGUID: 0xacc033fffe0260ec, SysImageGUID: 0xacc033fffe0260ec, NodeDesc: "Software iWARP stack", NUMANode: -1,
				Ports: ethernet(10, soft, 0, nil, PortGID{0, gid("aec0:3302:60ec:0000:0000:0000:0000:0000"), GIDRoCEv1, ""}),
			},
			{
				Name: "siw1", Uverbs: "uverbs1", Path: "/dev/infiniband/uverbs1", Rdev: unix.Mkdev(231, 193), ABIVersion: 1,
				NodeType: NodeRNIC, NodeGUID: 0xb4749bfffe81ce03, SysImageGUID: 0xb4749bfffe81ce03, NodeDesc: "Software iWARP stack", NUMANode: -1,
				Ports: ethernet(10, soft, 0, nil, PortGID{0, gid("b674:9b81:ce03:0000:0000:0000:0000:0000"), GIDRoCEv1, ""}),
			},
		},
		"mlx5": {
			{
				Name: "mlx5_0", Uverbs: "uverbs0", Path: "/dev/infiniband/uverbs0", Rdev: unix.Mkdev(231, 192), ABIVersion: 1,
				Driver: "mlx5_core", NodeType: NodeCA, NodeGUID: 0x0800380300bb16a8, SysImageGUID: 0x0800380300bb16a8, Firmware: "20.29.1016",
				BoardID: "BL_12001644", NodeDesc: "node1 HCA-1", HCAType: "MT4123", PCI: "0000:81:00.0", PCIVendor: 0x15b3, PCIDevice: 0x101b, NUMANode: 1,
				Ports: []Port{{
					Num: 1, State: PortActive, PhysState: "LinkUp", LinkLayer: LinkInfiniBand, LID: 0x1f, SMLID: 1, Rate: 200, RateText: "200 Gb/sec (4X HDR)",
					GIDs: []PortGID{{0, gid("fe80:0000:0000:0000:0800:3803:00bb:16a8"), GIDInfiniBand, ""}}, PKeys: manyPKeys,
				}},
			},
			{
				Name: "mlx5_1", Uverbs: "uverbs2", Path: "/dev/infiniband/uverbs2", Rdev: unix.Mkdev(231, 194), ABIVersion: 1,
				Driver: "mlx5_core", NodeType: NodeCA, NodeGUID: 0x98039b03000c5e13, SysImageGUID: 0x98039b03000c5e12, Firmware: "14.32.1010",
				BoardID: "MT_2420110034", NodeDesc: "node1 HCA-2", HCAType: "MT4117", PCI: "0000:18:00.1", PCIVendor: 0x15b3, PCIDevice: 0x1015, NUMANode: -1,
				Ports: []Port{{
					Num: 1, State: PortDown, PhysState: "Disabled", LinkLayer: LinkEthernet, Rate: 40, RateText: "40 Gb/sec (4X QDR)",
					GIDs: []PortGID{
						{0, gid("fe80:0000:0000:0000:9a03:9bff:fe0c:5e13"), GIDRoCEv1, "ens1f1np1"},
						{1, gid("fe80:0000:0000:0000:9a03:9bff:fe0c:5e13"), GIDRoCEv2, "ens1f1np1"},
					}, PKeys: one,
				}},
			},
			{
				Name: "mlx5_bond_0", Uverbs: "uverbs10", Path: "/dev/infiniband/uverbs10", Rdev: unix.Mkdev(231, 202), ABIVersion: 1,
				Driver: "mlx5_core", NodeType: NodeCA, NodeGUID: 0xb8cef60300e94d5e, SysImageGUID: 0xb8cef60300e94d5e, Firmware: "16.27.1016",
				BoardID: "MT_0000000080", NodeDesc: "node1 HCA-3", HCAType: "MT4119", PCI: "0000:1a:00.0", PCIVendor: 0x15b3, PCIDevice: 0x1017, NUMANode: 0,
				Ports: ethernet(100, "100 Gb/sec (4X EDR)", 0, one,
					PortGID{0, gid("fe80:0000:0000:0000:bace:f6ff:fee9:4d5e"), GIDRoCEv1, "bond0"},
					PortGID{1, gid("fe80:0000:0000:0000:bace:f6ff:fee9:4d5e"), GIDRoCEv2, "bond0"},
					PortGID{2, gid("0000:0000:0000:0000:0000:ffff:c0a8:0a05"), GIDRoCEv1, "bond0"},
					PortGID{3, gid("0000:0000:0000:0000:0000:ffff:c0a8:0a05"), GIDRoCEv2, "bond0"}),
			},
		},
		"irdma": {
			{
				Name: "irdma0", Uverbs: "uverbs0", Path: "/dev/infiniband/uverbs0", Rdev: unix.Mkdev(231, 192), ABIVersion: 5,
				Driver: "ice", NodeType: NodeRNIC, NodeGUID: 0xb69691fffea5c810, SysImageGUID: 0xb69691fffea5c810, Firmware: "1.54",
				PCI: "0000:17:00.0", PCIVendor: 0x8086, PCIDevice: 0x1592, NUMANode: 0,
				Ports: ethernet(100, "100 Gb/sec (4X EDR)", 1, nil, PortGID{0, gid("b496:91a5:c810:0000:0000:0000:0000:0000"), GIDRoCEv1, ""}),
			},
			{
				Name: "rocep23s0f1", Uverbs: "uverbs1", Path: "/dev/infiniband/uverbs1", Rdev: unix.Mkdev(231, 193), ABIVersion: 5,
				Driver: "ice", NodeType: NodeCA, NodeGUID: 0xb69691fffea5c811, SysImageGUID: 0xb69691fffea5c811, Firmware: "1.54",
				PCI: "0000:17:00.1", PCIVendor: 0x8086, PCIDevice: 0x1592, NUMANode: 0,
				Ports: ethernet(25, "25 Gb/sec (1X EDR)", 1, one,
					PortGID{0, gid("fe80:0000:0000:0000:b696:91ff:fea5:c811"), GIDRoCEv2, "ens2f1"},
					PortGID{1, gid("0000:0000:0000:0000:0000:ffff:0a17:0002"), GIDRoCEv2, "ens2f1"}),
			},
		},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			root := tree(t, name)
			list, err := Devices(root)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, list); d != "" {
				t.Error(d)
			}
			all, err := AllDevices(root)
			if d := cmp.Diff(list, all); d != "" || err != nil {
				t.Errorf("%v, %s", err, d)
			}
		})
	}
}

// TestWithoutUverbs checks that a device without a node is listed but cannot be opened.
func TestWithoutUverbs(t *testing.T) {
	root := tree(t, "rxe")
	if err := os.RemoveAll(filepath.Join(root, "devices/virtual/infiniband_verbs/uverbs0")); err != nil {
		t.Fatal(err)
	}
	names := func(list []Device, err error) string {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		var s []string
		for _, d := range list {
			s = append(s, d.Name+" "+d.Uverbs)
		}
		return strings.Join(s, ", ")
	}
	if got := names(Devices(root)); got != "rxe1 uverbs1" {
		t.Errorf("devices with nodes: %s", got)
	}
	if got := names(AllDevices(root)); got != "rxe1 uverbs1, rxe0 " {
		t.Errorf("all devices: %s", got)
	}
	if err := os.RemoveAll(filepath.Join(root, "class/infiniband_verbs")); err != nil {
		t.Fatal(err)
	}
	all, err := AllDevices(root)
	if got := names(all, err); got != "rxe0 , rxe1 " {
		t.Fatalf("without the module: %s", got)
	}
	if all[0].NodeGUID != 0x081ee4fffebf8233 || len(all[0].Ports) != 1 {
		t.Errorf("%+v", all[0])
	}
	d, err := FindDevice(root, "rxe0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Open()
	if !errors.Is(err, ucs.ErrNoDevice) || !strings.Contains(err.Error(), "ib_uverbs") {
		t.Error(err)
	}
}

// TestSysfsOddly checks that unreadable or invalid files leave values unknown, and that nothing
// panics.
func TestSysfsOddly(t *testing.T) {
	root := t.TempDir()
	if list, err := Devices(root); err != nil || len(list) != 0 {
		t.Errorf("without sysfs: %+v, %v", list, err)
	}
	write(t, root, "class/infiniband_verbs/abi_version", "7\n")
	if _, err := Devices(root); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("another version: %v", err)
	}
	for path, text := range map[string]string{
		"class/infiniband_verbs/abi_version":         "x",
		"class/infiniband_verbs/uverbs0/ibdev":       "odd\n",
		"class/infiniband_verbs/uverbs0/dev":         "231\n",
		"class/infiniband_verbs/uverbs1/ibdev":       "../odd\n",
		"class/infiniband_verbs/uverbs2/dev":         "1:1\n",
		"class/infiniband/odd/node_type":             "ca",
		"class/infiniband/odd/node_guid":             "1:2:3:4",
		"class/infiniband_verbs/uverbs3/ibdev":       "..\n",
		"class/infiniband_verbs/uverbs4/ibdev":       "two words\n",
		"class/infiniband_verbs/uverbs5/ibdev":       "bell\a\n",
		"class/infiniband/odd/device/numa_node":      "-7",
		"class/infiniband/odd/fw_ver":                " one\nline \n",
		"class/infiniband/odd/ports/1/state":         "999: WHAT",
		"class/infiniband/odd/ports/1/rate":          "NaN Gb/sec",
		"class/infiniband/odd/ports/2/rate":          "-1",
		"class/infiniband/odd/ports/3/rate":          "+Inf",
		"class/infiniband/odd/ports/300/rate":        "1e3",
		"class/infiniband/odd/ports/1/lid":           "0x123456",
		"class/infiniband/odd/ports/1/link_layer":    "Token Ring",
		"class/infiniband/odd/ports/1/gids/0":        "fe80::1",
		"class/infiniband/odd/ports/1/gids/1":        "0000:0000:0000:0000:0000:0000:0000:00zz",
		"class/infiniband/odd/ports/1/gids/2":        "0000:0000:0000:0000:0000:0000:0000:0001",
		"class/infiniband/odd/ports/1/gids/07":       "0000:0000:0000:0000:0000:0000:0000:0001",
		"class/infiniband/odd/ports/1/gids/99999999": "0000:0000:0000:0000:0000:0000:0000:0001",
		"class/infiniband/odd/ports/1/pkeys/65536":   "0xffff",
		"class/infiniband/odd/ports/-1/state":        "4: ACTIVE",
		"class/infiniband/odd/ports/100000/state":    "4: ACTIVE",
	} {
		write(t, root, path, text)
	}
	list, err := Devices(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Device{{Name: "odd", Uverbs: "uverbs0", Path: "/dev/infiniband/uverbs0", NUMANode: -1, Firmware: "one",
		Ports: []Port{
			{Num: 1, RateText: "NaN Gb/sec", GIDs: []PortGID{{Index: 2, GID: GID{15: 1}, Type: GIDInfiniBand}}},
			{Num: 2, RateText: "-1"}, {Num: 3, RateText: "+Inf"}, {Num: 300, Rate: 1000, RateText: "1e3"},
		}}}
	if d := cmp.Diff(want, list); d != "" {
		t.Error(d)
	}
	_, err = FindDevice(root, "rxe7")
	if !errors.Is(err, ucs.ErrNoDevice) || !strings.Contains(err.Error(), "[odd]") {
		t.Error(err)
	}
	if d, err := FindDevice(root, "uverbs0"); err != nil || d.Name != "odd" {
		t.Error(d, err)
	}
	if _, err := FindDevice(root, ""); !errors.Is(err, ucs.ErrNoDevice) {
		t.Error(err)
	}
	list[0].Path = filepath.Join(root, "uverbs0")
	_, err = list[0].Open()
	if !errors.Is(err, ucs.ErrNoDevice) || !strings.Contains(err.Error(), "--device") {
		t.Errorf("a node that is not there: %v", err)
	}
	write(t, root, "uverbs0", "")
	_, err = list[0].Open()
	if !errors.Is(err, ucs.ErrNoDevice) || !strings.Contains(err.Error(), "is not device") {
		t.Errorf("a node that is a file: %v", err)
	}
}
