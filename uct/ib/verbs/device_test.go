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
)

// tree makes a folder like sysfs out of a listing in testdata: lines of "path:
// text" or "path -> target".
func tree(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/sysfs", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, line := range strings.Split(string(b), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if path, target, ok := strings.Cut(line, " -> "); ok {
			write(t, root, path, "")
			if err := os.Remove(filepath.Join(root, path)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(root, path)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		path, text, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%s: line %q", name, line)
		}
		write(t, root, path, text+"\n")
	}
	return root
}

func write(t *testing.T, root, path, text string) {
	t.Helper()
	file := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func gid(t *testing.T, s string) GID {
	t.Helper()
	g, ok := parseGID(s)
	if !ok {
		t.Fatal(s)
	}
	return g
}

func TestSysfs(t *testing.T) {
	list, err := Devices(tree(t, "rxe"))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 {
		t.Fatalf("%d devices of rxe", len(list))
	}
	want := Device{
		Name: "rxe0", Uverbs: "uverbs0", Path: "/dev/infiniband/uverbs0", Rdev: unix.Mkdev(231, 192), ABIVersion: 2,
		NodeType: NodeCA, NodeGUID: list[0].NodeGUID, SysImageGUID: list[0].NodeGUID, NodeDesc: "rxe", Parent: "v0", NUMANode: -1,
		Ports: []Port{{
			Num: 1, State: PortActive, PhysState: "LinkUp", LinkLayer: LinkEthernet, Rate: 10, RateText: "10 Gb/sec (1X FDR10)",
			GIDs: []PortGID{
				{Index: 0, GID: list[0].Ports[0].GIDs[0].GID, Type: GIDRoCEv2, NetDev: "v0"},
				{Index: 1, GID: gid(t, "0000:0000:0000:0000:0000:ffff:0a09:0001"), Type: GIDRoCEv2, NetDev: "v0"},
			},
			PKeys: []PKey{0xffff},
		}},
	}
	if d := cmp.Diff(want, list[0]); d != "" {
		t.Error(d)
	}
	if g := list[0].Ports[0].GIDs[0].GID; !g.Addr().IsLinkLocalUnicast() || list[0].NodeGUID == 0 || !strings.HasSuffix(g.String(), list[0].NodeGUID.String()) {
		t.Errorf("GID %v of node %v", g, list[0].NodeGUID)
	}
	if a := list[1].Ports[0].GIDs[1].GID.Addr().String(); a != "10.9.0.2" {
		t.Errorf("the second device has %s", a)
	}

	list, err = Devices(tree(t, "mlx5"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	if d := cmp.Diff([]string{"mlx5_0", "mlx5_1", "mlx5_bond_0"}, names); d != "" {
		t.Error(d)
	}
	ib := list[0]
	if ib.Driver != "mlx5_core" || ib.NUMANode != 1 || ib.Firmware != "20.31.1014" || ib.BoardID != "MT_0000000224" || ib.Parent != "" {
		t.Errorf("%+v", ib)
	}
	wantPort := Port{
		Num: 1, State: PortActive, PhysState: "LinkUp", LinkLayer: LinkInfiniBand, LID: 0x1f, SMLID: 1, Rate: 200, RateText: "200 Gb/sec (4X HDR)",
		GIDs: []PortGID{{GID: gid(t, "fe80:0000:0000:0000:b859:9f03:00d4:1234"), Type: GIDInfiniBand}}, PKeys: []PKey{0xffff, 0x8001, 0},
	}
	if d := cmp.Diff(wantPort, ib.Ports[0]); d != "" {
		t.Error(d)
	}
	roce := list[1].Ports[0]
	if roce.State != PortDown || roce.GIDs[0].Type != GIDRoCEv1 || roce.GIDs[1].Type != GIDRoCEv2 || list[1].NUMANode != -1 {
		t.Errorf("%+v", list[1])
	}
	if len(list[2].Ports) != 0 {
		t.Errorf("%+v", list[2])
	}

	list, err = Devices(tree(t, "irdma"))
	if err != nil || len(list) != 1 || list[0].NodeType != NodeRNIC || list[0].Driver != "ice.roce" || list[0].NUMANode != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	list, err = Devices(tree(t, "siw"))
	if err != nil || len(list) != 2 || list[0].NodeType != NodeRNIC || list[0].NodeDesc != "Software iWARP stack" || list[0].ABIVersion != 1 ||
		len(list[0].Ports[0].GIDs) != 1 || len(list[0].Ports[0].PKeys) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestSysfsOddly: what cannot be read is unknown, never made up, and nothing
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
		"class/infiniband/odd/device/numa_node":      "-",
		"class/infiniband/odd/ports/1/state":         "999: WHAT",
		"class/infiniband/odd/ports/1/rate":          "",
		"class/infiniband/odd/ports/1/lid":           "0x123456",
		"class/infiniband/odd/ports/1/link_layer":    "Token Ring",
		"class/infiniband/odd/ports/1/gids/0":        "fe80::1",
		"class/infiniband/odd/ports/1/gids/1":        "0000:0000:0000:0000:0000:0000:0000:00zz",
		"class/infiniband/odd/ports/1/gids/2":        "0000:0000:0000:0000:0000:0000:0000:0001",
		"class/infiniband/odd/ports/1/gids/07":       "0000:0000:0000:0000:0000:0000:0000:0001",
		"class/infiniband/odd/ports/1/gids/99999999": "0000:0000:0000:0000:0000:0000:0000:0001",
		"class/infiniband/odd/ports/1/pkeys/65536":   "0xffff",
		"class/infiniband/odd/ports/-1/state":        "4: ACTIVE",
		"class/infiniband/odd/ports/1000/state":      "4: ACTIVE",
	} {
		write(t, root, path, text)
	}
	list, err := Devices(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Device{{Name: "odd", Uverbs: "uverbs0", Path: "/dev/infiniband/uverbs0", NUMANode: -1,
		Ports: []Port{{Num: 1, GIDs: []PortGID{{Index: 2, GID: GID{15: 1}, Type: GIDInfiniBand}}}}}}
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
	if _, err := list[0].Open(); err == nil {
		t.Error("a device that is not there was opened")
	}
}
