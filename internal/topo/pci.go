package topo

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// PCIBandwidth returns the bandwidth, in bytes per second, of the link to the PCI function whose
// sysfs directory is dir. It is infinite if it is unknown, and for links that are faster than any
// that C UCX knows (ucs_topo_get_pci_bw in src/ucs/sys/topo/base/topo.c).
func PCIBandwidth(dir string) float64 {
	unknown := math.Inf(1)
	width, err := strconv.ParseUint(strings.TrimSpace(readSmall(filepath.Join(dir, "current_link_width"))), 10, 32)
	f := strings.Fields(readSmall(filepath.Join(dir, "current_link_speed")))
	if err != nil || len(f) < 2 || !strings.EqualFold(f[1], "GT/s") {
		return unknown
	}
	gts, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		return unknown
	}
	for _, g := range pciGenerations {
		if gts/g.gts <= 1.01 {
			return g.bandwidth(width)
		}
	}
	return unknown
}

// SlowestPCI is the bandwidth of the slowest possible link, in bytes per second.
var SlowestPCI = pciGenerations[0].bandwidth(1)

// pciGeneration describes links of one PCI Express generation
// (ucs_topo_pci_info in src/ucs/sys/topo/base/topo.c).
type pciGeneration struct {
	gts                float64 // transfers per second and lane, 10^9
	overhead           float64 // bytes per packet
	encoding, decoding float64
}

// bandwidth returns the bandwidth of a link with width lanes, in bytes per second. The order of
// operations is C's, because the result is published and compared.
func (g *pciGeneration) bandwidth(width uint64) float64 {
	const payload, ratio, control = 256, 4, 16
	use := float64(payload*ratio) / ((payload+g.overhead)*ratio + control)
	return g.gts * 1e9 / 8 * float64(width) * (g.encoding / g.decoding) * use
}

var pciGenerations = [...]pciGeneration{
	{2.5, 24, 8, 10},
	{5, 24, 8, 10},
	{8, 26, 128, 130},
	{16, 26, 128, 130},
	{32, 26, 128, 130},
}
