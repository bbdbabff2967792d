//go:build linux

package verbs

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
)

// oddFiles are the files that are read for a device with one port.
var oddFiles = []string{
	"class/infiniband_verbs/uverbs0/ibdev", "class/infiniband_verbs/uverbs0/dev", "class/infiniband_verbs/uverbs0/abi_version",
	"class/infiniband_verbs/abi_version", "class/infiniband/x/node_type", "class/infiniband/x/node_guid", "class/infiniband/x/sys_image_guid",
	"class/infiniband/x/fw_ver", "class/infiniband/x/board_id", "class/infiniband/x/hca_type", "class/infiniband/x/node_desc",
	"class/infiniband/x/parent", "class/infiniband/x/device/numa_node", "class/infiniband/x/device/vendor", "class/infiniband/x/device/device",
	"class/infiniband/x/ports/1/state", "class/infiniband/x/ports/1/phys_state", "class/infiniband/x/ports/1/link_layer",
	"class/infiniband/x/ports/1/lid", "class/infiniband/x/ports/1/sm_lid", "class/infiniband/x/ports/1/rate", "class/infiniband/x/ports/1/gids/0",
	"class/infiniband/x/ports/1/gid_attrs/types/0", "class/infiniband/x/ports/1/gid_attrs/ndevs/0", "class/infiniband/x/ports/1/pkeys/0",
}

// FuzzSysfs fills the files with the parts of data between NULs, and adds an entry with an odd name
// to each directory whose entries are counted.
func FuzzSysfs(f *testing.F) {
	usual := []string{
		"x", "231:192", "2", "6", "1: CA", "0200:00ff:fe00:0000", "0200:00ff:fe00:0000", "20.29.1016", "MT_0000000008", "MT4123", "rxe", "lo", "0",
		"0x15b3", "0x101b", "4: ACTIVE", "5: LinkUp", "Ethernet", "0x1f", "0x1", "100 Gb/sec (4X EDR)", "fe80:0000:0000:0000:0200:00ff:fe00:0000",
		"RoCE v2", "lo", "0xffff",
	}
	f.Add([]byte(strings.Join(usual, "\x00")), "7")
	f.Add([]byte(strings.Join(usual, "\n\x00")), "65535")
	f.Add([]byte("x\x001:2:3\x00-1\x006\x00999: X\x00"), "007")
	f.Add([]byte(strings.Repeat("x\x00", 40)), "-0")
	root := f.TempDir()
	for _, name := range oddFiles {
		write(f, root, name, "")
	}
	fuzztest.Run(f, func(t *testing.T, data []byte, entry string) {
		parts := bytes.Split(data, []byte{0})
		for i, name := range oddFiles {
			var text []byte
			if i < len(parts) {
				text = parts[i]
			}
			if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if entry != "." && entry != ".." && !strings.ContainsAny(entry, "/\x00") && len(entry) < 100 {
			for _, dir := range []string{"ports", "ports/1/gids", "ports/1/pkeys"} {
				name := filepath.Join(root, "class/infiniband/x", dir, entry)
				if _, err := os.Lstat(name); err != nil && os.WriteFile(name, parts[0], 0o644) == nil {
					defer os.Remove(name)
				}
			}
		}
		list, err := AllDevices(root)
		if err != nil {
			return
		}
		for i := range list {
			checkDevice(t, root, &list[i])
		}
	})
}

// checkDevice checks for values that no file may cause.
func checkDevice(t *testing.T, root string, d *Device) {
	t.Helper()
	if !validName(d.Name) || d.Uverbs != "" && !validName(d.Uverbs) || d.NUMANode < -1 {
		t.Errorf("%q, %q, node %d", d.Name, d.Uverbs, d.NUMANode)
	}
	for _, s := range []string{d.Firmware, d.BoardID, d.HCAType, d.NodeDesc, d.Parent, d.Driver, d.PCI} {
		if len(s) > maxText || strings.Contains(s, "\n") {
			t.Errorf("%d bytes of text: %.100q", len(s), s)
		}
	}
	if len(d.Ports) > maxPorts {
		t.Errorf("%d ports", len(d.Ports))
	}
	again := *d
	if again.Read(root); len(again.Ports) != len(d.Ports) {
		t.Errorf("read again it has %d ports, not %d", len(again.Ports), len(d.Ports))
	}
	for _, p := range d.Ports {
		if math.IsNaN(p.Rate) || p.Rate < 0 || p.Rate > maxRate || len(p.GIDs) > maxTable || len(p.PKeys) > maxTable || p.Num < 0 || p.Num >= maxPorts {
			t.Errorf("port %d: rate %v, %d GIDs, %d P_Keys", p.Num, p.Rate, len(p.GIDs), len(p.PKeys))
		}
		for _, g := range p.GIDs {
			if g.GID.IsZero() || g.Index < 0 || g.Index >= maxTable {
				t.Errorf("%+v", g)
			}
		}
	}
}

// TestSysfsHuge checks that huge files are not read to the end.
func TestSysfsHuge(t *testing.T) {
	root := tree(t, "siw")
	dir := filepath.Join(root, "devices/virtual/infiniband/siw0")
	for _, name := range []string{"fw_ver", "node_desc", "ports/1/rate", "ports/1/gids/0"} {
		if err := os.Truncate(filepath.Join(dir, name), 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, err := Devices(root)
	runtime.ReadMemStats(&after)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d devices, %v", len(list), err)
	}
	checkDevice(t, root, &list[0])
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

// TestTrafficClass checks that an invalid traffic class counts as none.
func TestTrafficClass(t *testing.T) {
	root := t.TempDir()
	d := Device{Name: "mlx5_0"}
	if class, ok := d.TrafficClass(root, 1); ok {
		t.Errorf("no file: %d", class)
	}
	dir := filepath.Join(root, "class/infiniband/mlx5_0/tc/2")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text string
		want uint8
		ok   bool
	}{
		{"Global tclass=160\n", 160, true},
		{"Global tclass=0\n", 0, true},
		{"Global tclass=24\ntclass=32 src=10.0.0.1\n", 24, true}, // rules for addresses follow
		{"Global tclass=256\n", 0, false},
		{"Global tclass=-1\n", 0, false},
		{"Global tclass=\n", 0, false},
		{"tclass=32 src=10.0.0.1\n", 0, false},
		{"", 0, false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "traffic_class"), []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if class, ok := d.TrafficClass(root, 2); ok != test.ok || ok && class != test.want {
			t.Errorf("%q: %d, %v", test.text, class, ok)
		}
	}
}

// TestCounter checks that text which is not a number is no count.
func TestCounter(t *testing.T) {
	root := t.TempDir()
	d := Device{Name: "rxe0"}
	if n, ok := d.Counter(root, 1, "rcvd_rnr_err"); ok {
		t.Errorf("no file: %d", n)
	}
	dir := filepath.Join(root, "class/infiniband/rxe0/ports/1/hw_counters")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]uint64{"18446744073709551615\n": 1<<64 - 1, "0\n": 0, "-1\n": 0, "N/A\n": 0, "": 0} {
		if err := os.WriteFile(filepath.Join(dir, "rcvd_rnr_err"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if n, ok := d.Counter(root, 1, "rcvd_rnr_err"); n != want || ok != (text == "0\n" || want > 0) {
			t.Errorf("%q: %d, %v", text, n, ok)
		}
	}
}
