package config

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// host answers the lines by which a section of a settings file says which
// machines it is about: "CPU vendor", "CPU model" and "Product name", each with
// a pattern that ignores case (ucs_config_parse_check_filter in
// src/ucs/config/parser.c). Sections for a CPU model tune C UCX's own copy
// routines and bandwidth estimates to one processor; no model is known here, so
// they are passed over.
type host struct {
	root string // of the file system, "/" but in tests
}

const (
	filterVendor  = "CPU vendor"
	filterModel   = "CPU model"
	filterProduct = "Product name"
)

// isFilter reports whether a name is not a setting but such a line.
func (h *host) isFilter(name string) bool {
	return name == filterVendor || name == filterModel || name == filterProduct
}

// matches reports whether the machine fits the pattern.
func (h *host) matches(filter, pattern string) bool {
	is := "unknown"
	switch filter {
	case filterModel:
		return false
	case filterVendor:
		is = h.vendor()
	case filterProduct:
		b, err := os.ReadFile(filepath.Join(h.root, "sys/devices/virtual/dmi/id/product_name"))
		if err == nil {
			is = strings.TrimSpace(string(b))
		}
	}
	// A slash is not special here as it is to path.Match.
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }
	ok, _ := path.Match(fold(pattern), fold(is))
	return ok
}

// vendor returns the maker of the processor under the name C UCX uses
// (ucs_cpu_vendor_name in src/ucs/arch/cpu.c).
func (h *host) vendor() string {
	b, err := os.ReadFile(filepath.Join(h.root, "proc/cpuinfo"))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id":
			switch value {
			case "GenuineIntel":
				return "Intel"
			case "AuthenticAMD":
				return "AMD"
			case "CentaurHauls", "Shanghai":
				return "Zhaoxin"
			}
			return "unknown"
		case "CPU implementer":
			switch value {
			case "0x46":
				return "Fujitsu ARM"
			case "0x41", "0x4e":
				return "Nvidia"
			}
			return "Generic ARM"
		}
	}
	return "unknown"
}
