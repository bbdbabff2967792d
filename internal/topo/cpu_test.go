package topo

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCPU: the vendor is that of C UCX, of the first processor.
func TestCPU(t *testing.T) {
	for cpuinfo, want := range map[string][2]string{
		"processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon: 7\n\nvendor_id\t: AuthenticAMD\n": {"Intel", "Xeon: 7"},
		"vendor_id\t: AuthenticAMD\n":                                 {"AMD", Unknown},
		"vendor_id\t:   Shanghai  \n":                                 {"Zhaoxin", Unknown},
		"vendor_id\t: CentaurHauls\n":                                 {"Zhaoxin", Unknown},
		"vendor_id\t: HygonGenuine\nmodel name\t: C86\n":              {Unknown, "C86"},
		"vendor_id\t: Somebody\n":                                     {Unknown, Unknown},
		"CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n":                {"Nvidia", "ARM part 0xd0c"},
		"CPU implementer\t: 0x4e\n":                                   {"Nvidia", Unknown},
		"CPU implementer\t: 0x46\nCPU architecture: 8\n":              {"Fujitsu ARM", Unknown},
		"processor: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x61\n": {"Generic ARM", Unknown},
		"garbage": {Unknown, Unknown},
		"":        {Unknown, Unknown},
	} {
		root := t.TempDir()
		writeTree(t, root, "proc/cpuinfo", cpuinfo)
		if vendor, model := CPU(root); vendor != want[0] || model != want[1] {
			t.Errorf("%q: %q, %q, want %q", cpuinfo, vendor, model, want)
		}
	}
	if vendor, model := CPU(t.TempDir()); vendor != Unknown || model != Unknown {
		t.Errorf("without a file: %q, %q", vendor, model)
	}
}

func TestProduct(t *testing.T) {
	root := t.TempDir()
	if got := Product(root); got != Unknown {
		t.Errorf("without a file: %q", got)
	}
	for text, want := range map[string]string{"Model X/10 rev 2\n": "Model X/10 rev 2", "\n": Unknown} {
		writeTree(t, root, "sys/devices/virtual/dmi/id/product_name", text)
		if got := Product(root); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// writeTree writes a file below root, with the directories that it needs.
func writeTree(t *testing.T, root, name, text string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
