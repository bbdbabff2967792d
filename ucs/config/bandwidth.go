package config

import (
	"math"
	"strconv"
	"strings"
)

// Bandwidth is a rate in bytes per second: a number, an optional unit K, M, G or
// T in powers of 1024, B for bytes or b for bits, and one of ps, /s and s
// ("2200MBs", "10Gb/s"), or "auto" (UCS_CONFIG_TYPE_BW).
type Bandwidth float64

// BandwidthAuto is the value "auto", which leaves the choice to the library (UCS_CONFIG_DBL_AUTO).
const BandwidthAuto Bandwidth = -2

// ParseConfig implements Value.
func (b *Bandwidth) ParseConfig(s string) error {
	if strings.EqualFold(s, "auto") {
		*b = BandwidthAuto
		return nil
	}
	num := strings.TrimRight(s, "KMGTBbps/")
	f, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if err != nil {
		return numError(err)
	}
	unit := s[len(num):]
	if unit == "" {
		return errSyntax
	}
	if i := strings.IndexByte("KMGT", unit[0]); i >= 0 {
		f *= float64(uint64(1024) << (10 * i))
		unit = unit[1:]
	}
	switch unit {
	case "Bps", "B/s", "Bs":
	case "bps", "b/s", "bs":
		f /= 8
	default:
		return errSyntax
	}
	if !(f >= 0) || math.IsInf(f, 0) {
		return errRange
	}
	*b = Bandwidth(f)
	return nil
}

// String prints b as C UCX does: with two decimals and the unit that keeps the
// number below 50000.
func (b Bandwidth) String() string {
	if b == BandwidthAuto {
		return "auto"
	}
	units := []string{"", "K", "M", "G", "T"}
	f := float64(b)
	for f > 50000 && len(units) > 1 {
		f /= 1024
		units = units[1:]
	}
	return strconv.FormatFloat(f, 'f', 2, 64) + units[0] + "Bps"
}

// ConfigSyntax implements Syntaxer.
func (Bandwidth) ConfigSyntax() string {
	return `bandwidth value: <number>[T|G|M|K]B|b[[p|/]s] or "auto"`
}

// IsAuto reports whether the value is "auto", which leaves the choice to the library.
func (b Bandwidth) IsAuto() bool { return b == BandwidthAuto }
