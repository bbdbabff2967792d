package topo

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestPCIBandwidth(t *testing.T) {
	for _, c := range []struct {
		speed, width string
		want         float64
	}{
		{"2.5 GT/s PCIe\n", "1\n", SlowestPCI},
		{"5.0 GT/s PCIe\n", "8\n", 8 * 5e9 / 8 * 0.8 * 1024 / 1136},
		{"8.0 GT/s PCIe\n", "16\n", 16 * 8e9 / 8 * 128 / 130 * 1024 / 1144},
		{"16.0 gt/s\n", "4\n", 4 * 16e9 / 8 * 128 / 130 * 1024 / 1144},
		{"64.0 GT/s PCIe\n", "16\n", math.Inf(1)},
		{"Unknown\n", "63\n", math.Inf(1)},
		{"8.0 GT/s PCIe\n", "x16\n", math.Inf(1)},
		{"8.0 GT/s PCIe\n", "", math.Inf(1)},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"current_link_speed": c.speed, "current_link_width": c.width} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := PCIBandwidth(dir); got != c.want && !(math.Abs(got-c.want) <= 1e-12*c.want) {
			t.Errorf("%q, %q: %v bytes per second, want %v", c.speed, c.width, got, c.want)
		}
	}
	if got := PCIBandwidth(filepath.Join(t.TempDir(), "none")); !math.IsInf(got, 1) {
		t.Errorf("no function: %v bytes per second", got)
	}
}
